package shards

import (
	"encoding/binary"
	"hash/fnv"
)

// SlotOf is the slot of a key, of so many.
func SlotOf(key string, slots int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // it never fails
	return int(h.Sum32() % uint32(slots))
}

// candidate may have slots.
type candidate struct {
	id     string
	name   string // stable, and unlike that of all others
	weight int
}

// winner returns who is to have a slot; "" if there is nobody. Each candidate draws as many numbers as it has weight,
// and the highest of all wins: so a candidate who comes takes slots from the others, and moves none between them.
// Numbers are integers, because two members who draw differently would hand a slot to and fro.
func winner(slot int, candidates []candidate) (id string) {
	var best uint64
	for _, c := range candidates {
		for draw := range max(c.weight, 1) {
			if score := score(c.name, slot, draw); id == "" || score > best || score == best && c.id < id {
				id, best = c.id, score
			}
		}
	}
	return id
}

func score(name string, slot, draw int) uint64 {
	h := fnv.New64a()
	var place [8]byte
	binary.LittleEndian.PutUint32(place[:], uint32(slot))
	binary.LittleEndian.PutUint32(place[4:], uint32(draw))
	_, _ = h.Write([]byte(name)) // it never fails, as the next
	_, _ = h.Write(place[:])
	return mix(h.Sum64())
}

// mix spreads the bits: fnv alone leaves the scores of similar names close to each other. It is the finalizer of
// MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
