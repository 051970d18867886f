package entity

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// oddBytes is how much memory the members that updates keep of all documents may take. Of those beyond it the
	// leader is asked when they are needed.
	oddBytes = 64 << 20
	// oddRest is for how long at least what is odd about a document is kept, although the cache does not have it.
	oddRest = 10 * time.Minute
	// oddFew is how many odd documents are kept in any case.
	oddFew = 1024
	// plainChunks bounds how many revisions are remembered that are not odd, by 64.
	plainChunks = 1 << 13
	// freshFor is for how long at least a revision is known that the cache does not have. The bucket may be removed and
	// made again, and then the same revision is another document. The cache notices.
	freshFor = 30 * time.Second
)

// oddities are what a client knows of the revisions of documents that it has read or written. Most are not odd: those
// are in the cache, or in a set of bits. So what is odd has its place here only, and is found by key and revision.
type oddities struct {
	count atomic.Int64 // of keys

	mu      sync.Mutex
	keys    map[string]oddKey // by NATS key
	bytes   int               // of the members that are kept
	prune   int               // at how many keys to look for those that are gone
	plain   map[uint64]uint64 // revisions that are not odd, and were not read by the cache
	earlier map[uint64]uint64 // the same, but older
	turned  time.Time         // when plain became earlier
}

// oddKey has the two revisions of a document that were read last.
type oddKey struct {
	odd, other *oddity
	noted      time.Time
}

func newOddities() *oddities {
	return &oddities{keys: map[string]oddKey{}, plain: map[uint64]uint64{}, prune: oddFew}
}

// notePlain notes a revision that is not odd. cached says that the cache knows it, too.
func (o *oddities) notePlain(natsKey string, revision uint64, cached bool) {
	if cached && o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.keys[natsKey]; ok {
		if known.odd != nil && known.odd.revision <= revision {
			known.odd = o.drop(known.odd)
		}
		if known.other != nil && known.other.revision <= revision {
			known.other = o.drop(known.other)
		}
		o.set(natsKey, known)
	}
	if cached {
		return
	}
	o.turn(len(o.plain) >= plainChunks)
	o.plain[revision/64] |= 1 << (revision % 64)
}

// turn forgets revisions that are not odd: those that are not fresh, and if there are too many the older ones.
func (o *oddities) turn(tooMany bool) {
	age := time.Since(o.turned)
	if age < freshFor && !tooMany {
		return
	}
	o.plain, o.earlier, o.turned = map[uint64]uint64{}, o.plain, time.Now()
	if age >= 2*freshFor {
		o.earlier = map[uint64]uint64{}
	}
}

func (o *oddities) drop(odd *oddity) *oddity {
	o.bytes -= odd.kept.Size()
	return nil
}

func (o *oddities) set(natsKey string, known oddKey) {
	if known.odd == nil && known.other == nil {
		delete(o.keys, natsKey)
	} else {
		o.keys[natsKey] = known
	}
	o.count.Store(int64(len(o.keys)))
}

// note notes what is odd about a document. exists reports whether the cache has a key.
func (o *oddities) note(natsKey string, odd *oddity, exists func(natsKey string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, revisions := range []map[uint64]uint64{o.plain, o.earlier} { // of another stream
		if bits, ok := revisions[odd.revision/64]; ok {
			revisions[odd.revision/64] = bits &^ (1 << (odd.revision % 64))
		}
	}
	known := o.keys[natsKey]
	switch {
	case known.odd != nil && known.odd.revision == odd.revision:
		o.drop(known.odd)
	case known.other != nil:
		o.drop(known.other)
		fallthrough
	default:
		known.other = known.odd
	}
	known.odd, known.noted = odd, time.Now()
	o.bytes += odd.kept.Size()
	o.set(natsKey, known)
	if len(o.keys) > o.prune {
		o.forgetGone(exists)
	}
	if o.bytes > oddBytes {
		o.forgetMembers(natsKey)
	}
}

// forgetGone forgets documents that are gone. What is read now may not be in the cache yet.
func (o *oddities) forgetGone(exists func(natsKey string) bool) {
	for natsKey, known := range o.keys {
		if time.Since(known.noted) < oddRest || exists(natsKey) {
			continue
		}
		for _, odd := range []*oddity{known.odd, known.other} {
			if odd != nil {
				o.drop(odd)
			}
		}
		delete(o.keys, natsKey)
	}
	o.count.Store(int64(len(o.keys)))
	o.prune = max(oddFew, 2*len(o.keys))
}

// forgetMembers forgets members to be kept of other keys, until a quarter of the memory is free.
func (o *oddities) forgetMembers(but string) {
	for natsKey, known := range o.keys {
		if o.bytes <= oddBytes/4*3 {
			return
		}
		if natsKey == but {
			continue
		}
		known.odd, known.other = o.forgetting(known.odd), o.forgetting(known.other)
		o.keys[natsKey] = known
	}
}

func (o *oddities) forgetting(odd *oddity) *oddity {
	if odd == nil || odd.kept == nil {
		return odd
	}
	o.drop(odd)
	without := *odd // it may be in use
	without.kept, without.forgotten = nil, true
	return &without
}

// of returns what is odd about a revision, nil if nothing is. known is false where that is not known, or was read too
// long ago to be known without the cache.
func (o *oddities) of(natsKey string, revision uint64) (odd *oddity, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.keys[natsKey]
	for _, odd := range []*oddity{at.odd, at.other} {
		if odd != nil && odd.revision == revision {
			return odd, !odd.forgotten && time.Since(at.noted) < freshFor
		}
	}
	o.turn(false)
	bit := uint64(1) << (revision % 64)
	return nil, (o.plain[revision/64]|o.earlier[revision/64])&bit != 0
}

// warningsOf returns what there is to warn about in a revision; nil if there is nothing.
func (o *oddities) warningsOf(natsKey string, revision uint64) *DocumentWarnings {
	if o.count.Load() == 0 {
		return nil
	}
	if odd, _ := o.of(natsKey, revision); odd != nil {
		return odd.warnings
	}
	return nil
}
