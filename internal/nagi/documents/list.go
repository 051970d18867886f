package documents

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Query says which documents to read. The zero value means all.
type Query struct {
	// Namespace is that of the keys; "" means all.
	Namespace string
	// KeysOnly leaves values and records out.
	KeysOnly bool
	// WithoutRecords leaves the records out.
	WithoutRecords bool
}

func (q Query) pattern() string {
	if q.Namespace != "" {
		return q.Namespace + ".>"
	}
	return ">"
}

// List reads documents in the order in which they were written last. Each key that exists throughout is there once,
// those that come or go meanwhile may be. A key that no document can have is there, too, as it is.
//
// The list ends when the leader says that there is nothing behind what was read. Where others write faster than that
// can be, it ends after some seconds, and a key may be missing that was written in these again and again.
func (r *Reader) List(ctx context.Context, q Query) iter.Seq2[kinds.Document, error] {
	return func(yield func(kinds.Document, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f, err := r.documents.follow(ctx, q)
		if err != nil {
			yield(kinds.Document{}, err)
			return
		}
		defer f.close()
		if q, err = r.withRecords(ctx, q); err != nil {
			yield(kinds.Document{}, err)
			return
		}
		j, err := r.join(ctx, q, f.state)
		if err != nil {
			yield(kinds.Document{}, err)
			return
		}
		defer j.stop()
		for found, err := range f.list(ctx) {
			if err == nil {
				err = j.each(ctx, found, func(d kinds.Document) bool { return yield(d, nil) })
			}
			if err != nil {
				if err != errStopped {
					yield(kinds.Document{}, err)
				}
				return
			}
		}
	}
}

// withRecords leaves the records out where there is no bucket of them.
func (r *Reader) withRecords(ctx context.Context, q Query) (Query, error) {
	q.WithoutRecords = q.WithoutRecords || q.KeysOnly || r.records == nil
	if q.WithoutRecords {
		return q, nil
	}
	_, err := r.records.prefix(ctx)
	if apierrors.IsNotFound(err) { // no controller has ever made it
		q.WithoutRecords, err = true, nil
	}
	return q, err
}

// Records reads all records, for who looks for those without a document, too.
func (r *Reader) Records(ctx context.Context, q Query) iter.Seq2[kinds.Document, error] {
	return func(yield func(kinds.Document, error) bool) {
		if r.records == nil {
			return
		}
		f, err := r.records.follow(ctx, q)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			yield(kinds.Document{}, err)
			return
		}
		defer f.close()
		for found, err := range f.list(ctx) {
			if err != nil {
				yield(kinds.Document{}, err)
				return
			}
			for _, m := range found {
				if isReserved(m.key) {
					continue
				}
				if !yield(kinds.Document{Key: r.key(m.key), Record: m.value}, nil) {
					return
				}
			}
		}
	}
}

// follow begins to read a bucket.
func (b *bucket) follow(ctx context.Context, q Query) (*follower, error) {
	s, err := b.state(ctx)
	if err != nil {
		return nil, err
	}
	return &follower{b: b, state: s, pattern: q.pattern(), headers: q.KeysOnly}, nil
}

// patience is how long a list goes on behind what there was when it came to the end first.
const patience = 5 * time.Second

// list returns what there is, without markers, in parts, and leaves the follower at its end.
func (f *follower) list(ctx context.Context) iter.Seq2[[]message, error] {
	return func(yield func([]message, error) bool) {
		if f.state.messages == 0 {
			return
		}
		var seen passed
		var ended time.Time
		for {
			found, err := f.next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			found = slices.DeleteFunc(found, func(m message) bool {
				return m.gone || !seen.add(m.key, m.seq > f.state.last)
			})
			if len(found) > 0 && !yield(found, nil) {
				return
			}
			if f.after < f.state.last && len(found) > 0 {
				continue
			}
			end, err := f.atEnd(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if end || !ended.IsZero() && time.Since(ended) > patience {
				return
			}
			if ended.IsZero() {
				ended = time.Now()
			}
		}
	}
}

// atEnd reports whether the leader has nothing behind what came.
func (f *follower) atEnd(ctx context.Context) (bool, error) {
	if len(f.in) > 0 {
		return false, nil
	}
	m, err := f.b.lastOf(ctx, f.state.prefix, f.pattern)
	return err == nil && (m == nil || m.seq <= f.after), err
}

// passed remembers keys by a hash: what was written since the list began may have come before.
type passed struct {
	seed   maphash.Seed
	hashes []uint64
	sorted bool
	late   map[uint64]bool
}

// add notes a key, and reports whether it is new. late says that it may have come before.
func (p *passed) add(key string, late bool) bool {
	if p.hashes == nil && p.late == nil {
		p.seed, p.late = maphash.MakeSeed(), map[uint64]bool{}
	}
	h := maphash.String(p.seed, key)
	if !late {
		p.hashes, p.sorted = append(p.hashes, h), false
		return true
	}
	if !p.sorted {
		slices.Sort(p.hashes)
		p.sorted = true
	}
	if _, before := slices.BinarySearchFunc(p.hashes, h, cmp.Compare[uint64]); before || p.late[h] {
		return false
	}
	p.late[h] = true
	return true
}

// errStopped says that nothing more is wanted.
var errStopped = errors.New("stopped")
