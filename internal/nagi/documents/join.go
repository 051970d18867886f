package documents

import (
	"context"
	"hash/maphash"
	"iter"
	"sync"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
)

// joiner finds the records of documents that stream by. Controllers mostly write them in the order of the documents,
// so it reads both buckets side by side, and holds what came early. A record that does not come in time is read by
// itself, which costs thirty times as much. What it holds is bounded, whatever the order.
type joiner struct {
	r       *Reader
	last    uint64 // what the documents' bucket had when the list began
	none    bool   // no records are wanted
	next    func() ([]message, error, bool)
	stop    func()
	held    map[string][]byte
	bytes   int
	ended   bool                // there are no more
	dropped bool                // some that came are not held any more
	seed    maphash.Seed        // of single
	single  map[uint64]struct{} // keys whose records were read by themselves, and may still come
}

const (
	// mostHeld is how many bytes of records are held.
	mostHeld = 16 << 20
	// entryBytes is about what one takes beside its value.
	entryBytes = 96
	// worthIt is from how many messages on both buckets are read side by side.
	worthIt = 2 * batch
	// readers is how many records are read by themselves at a time.
	readers = 32
)

func (r *Reader) join(ctx context.Context, q Query, documents *state) (*joiner, error) {
	j := &joiner{r: r, last: documents.last, none: q.WithoutRecords, stop: func() {}, held: map[string][]byte{},
		seed: maphash.MakeSeed(), single: map[uint64]struct{}{}}
	if j.none || documents.messages < worthIt {
		j.ended, j.dropped = true, true
		return j, nil
	}
	f, err := r.records.follow(ctx, q)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(f.list(ctx))
	j.next = next
	j.stop = func() {
		stop()
		f.close()
	}
	return j, nil
}

// each passes documents on with their records, in order. It returns errStopped if no more is wanted.
func (j *joiner) each(ctx context.Context, found []message, yield func(kinds.Document) bool) error {
	all := make([]kinds.Document, len(found))
	var missing []int
	for i, m := range found {
		all[i] = kinds.Document{Key: j.r.key(m.key), Revision: m.seq, Value: m.value, Expires: m.expires()}
		if !j.none && !isReserved(m.key) {
			missing = append(missing, i)
		}
	}
	if err := j.records(ctx, found, all, missing); err != nil {
		return err
	}
	for i, d := range all {
		if !isReserved(found[i].key) && !yield(d) {
			return errStopped
		}
	}
	return nil
}

// records fills in the records of those that are missing them.
func (j *joiner) records(ctx context.Context, found []message, all []kinds.Document, missing []int) error {
	wanted := len(missing)
	for {
		left := missing[:0]
		for _, i := range missing {
			value, ok := j.held[found[i].key]
			if !ok {
				left = append(left, i)
				continue
			}
			all[i].Record = value
			j.bytes -= len(value) + entryBytes
			delete(j.held, found[i].key)
		}
		missing = left
		if len(missing) == 0 {
			return nil
		}
		if j.ended || j.bytes >= mostHeld {
			break
		}
		if err := j.read(); err != nil {
			return err
		}
	}
	if len(missing) == wanted && !j.ended { // what is held is of no use
		clear(j.held)
		j.bytes, j.dropped = 0, true
	}
	return j.readSingle(ctx, found, all, missing)
}

// read holds the records that come next.
func (j *joiner) read() error {
	part, err, ok := j.next()
	if !ok {
		j.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range part {
		h := maphash.String(j.seed, m.key)
		if _, was := j.single[h]; was {
			delete(j.single, h)
			j.dropped = true // should two keys have one hash
			continue
		}
		if !isReserved(m.key) {
			j.held[m.key] = m.value
			j.bytes += len(m.value) + entryBytes
		}
	}
	return nil
}

// readSingle reads records by themselves. Where all were read, and none was dropped, what is missing has none; unless
// it was written since.
func (j *joiner) readSingle(ctx context.Context, found []message, all []kinds.Document, missing []int) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	room := make(chan struct{}, readers)
	for _, i := range missing {
		if j.ended && !j.dropped && found[i].seq <= j.last {
			continue
		}
		if !j.ended {
			j.single[maphash.String(j.seed, found[i].key)] = struct{}{}
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			value, err := j.r.record(ctx, found[i].key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			all[i].Record = value
		})
	}
	wg.Wait()
	return failed
}
