package shards

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Store is what members share: keys of the status bucket. All methods may be called concurrently.
type Store interface {
	// Put writes a key that is at a revision; 0 if it must hold nothing. The server removes it after ttl; 0 is never,
	// and others are whole seconds. It returns the new revision. apierrors.IsConflict says that the key is at another
	// revision; of any other error it is not known whether the write was, or will be, applied.
	Put(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	// Delete removes a key that is at a revision. Its errors are those of Put.
	Delete(ctx context.Context, key string, revision uint64) error
	// Load reads what a key holds from the leader of the stream; a revision of 0 says that it holds nothing.
	Load(ctx context.Context, key string) (value []byte, revision uint64, err error)
}

// Entry is what a watch of the store saw of a key. Value is nil if the key is gone.
type Entry struct {
	Key      string
	Revision uint64
	Value    []byte
	Expired  bool // the server has removed the key, because it was not written again in time
}

// MemberPrefix begins the keys of members. Their ids follow.
const MemberPrefix = "member."

const slotPrefix = "slot."

func memberKey(id string) string { return MemberPrefix + id }
func slotKey(slot int) string    { return slotPrefix + strconv.Itoa(slot) }

// Member is what a member says of itself.
type Member struct {
	ID      string `json:"id"`   // of one life: never used again
	Name    string `json:"name"` // stable over restarts
	Weight  int    `json:"weight,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
	// Follows is the id of the life before of this member, whose lease may be there for a while. It has no slots any
	// more.
	Follows string `json:"follows,omitempty"`
	Ready   Set    `json:"ready,omitempty"` // H1: the slots that it has loaded
	// Says is what its host says to the others.
	Says json.RawMessage `json:"says,omitempty"`
}

// owned is what a slot's key holds.
type owned struct {
	Owner string `json:"owner"` // a member's id
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %+v: %v", v, err)) // all of it are strings and numbers
	}
	return data
}

// slotOfKey returns the slot of a key; ok is false for another key.
func slotOfKey(key string, slots int) (slot int, ok bool) {
	text, ok := strings.CutPrefix(key, slotPrefix)
	if !ok {
		return 0, false
	}
	slot, err := strconv.Atoi(text)
	return slot, err == nil && slot >= 0 && slot < slots
}

// Set is a set of slots, a bit for each.
type Set []byte

// Has reports whether a slot is in the set.
func (s Set) Has(slot int) bool { return slot/8 < len(s) && s[slot/8]&(1<<(slot%8)) != 0 }

// And returns what is in both sets.
func (s Set) And(other Set) Set {
	out := make(Set, min(len(s), len(other)))
	for i := range out {
		out[i] = s[i] & other[i]
	}
	return out
}

// With returns the set with a slot in it, or without it.
func (s Set) With(slot int, in bool) Set {
	out := make(Set, max(len(s), slot/8+1))
	copy(out, s)
	if in {
		out[slot/8] |= 1 << (slot % 8)
	} else {
		out[slot/8] &^= 1 << (slot % 8)
	}
	return out
}
