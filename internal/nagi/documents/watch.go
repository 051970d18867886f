package documents

import (
	"context"
	"iter"
	"sync"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
)

// What is what has happened.
type What string

// What may happen.
const (
	Listed   What = ""          // it was there when the watch began
	Written  What = "written"   // the document
	Recorded What = "recorded"  // the record, by the controller
	Deleted  What = "deleted"   // the document; its record may still be there
	TornDown What = "torn down" // its record is gone, too
)

// Change is what has happened to a document. Where there is no document its revision is 0 and its value nil.
type Change struct {
	kinds.Document
	What What
}

// Watch lists documents as List does, and then goes on with what changes, in the order of each bucket, until the
// context ends. Listed is called when the list is over.
func (r *Reader) Watch(ctx context.Context, q Query, listed func()) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w, err := r.watch(ctx, q)
		defer func() {
			cancel()
			w.Wait()
			for _, f := range []*follower{w.documents, w.records} {
				if f != nil {
					f.close()
				}
			}
		}()
		if err == nil {
			err = w.run(ctx, listed, func(c Change) bool { return yield(c, nil) })
		}
		if err != nil && err != errStopped {
			yield(Change{}, err)
		}
	}
}

// watching is one watch.
type watching struct {
	*Reader
	sync.WaitGroup
	q                  Query
	documents, records *follower
}

func (r *Reader) watch(ctx context.Context, q Query) (*watching, error) {
	w := &watching{Reader: r, q: q}
	var err error
	if w.q, err = r.withRecords(ctx, q); err != nil {
		return w, err
	}
	if !w.q.WithoutRecords {
		if w.records, err = r.records.follow(ctx, q); err != nil {
			return w, err
		}
		w.records.after = w.records.state.last
	}
	w.documents, err = r.documents.follow(ctx, q)
	return w, err
}

// part is what came of one bucket.
type part struct {
	found   []message
	records bool
	err     error
}

func (w *watching) run(ctx context.Context, listed func(), yield func(Change) bool) error {
	if err := w.list(ctx, yield); err != nil {
		return err
	}
	listed()
	parts := make(chan part)
	w.pump(ctx, w.documents, parts, false)
	if w.records != nil {
		w.pump(ctx, w.records, parts, true)
	}
	for {
		select {
		case p := <-parts:
			if p.err != nil {
				return p.err
			}
			for _, m := range p.found {
				if isReserved(m.key) {
					continue
				}
				c, err := w.change(ctx, m, p.records)
				if err != nil {
					return err
				}
				if !yield(c) {
					return errStopped
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *watching) list(ctx context.Context, yield func(Change) bool) error {
	j, err := w.join(ctx, w.q, w.documents.state)
	if err != nil {
		return err
	}
	defer j.stop()
	for found, err := range w.documents.list(ctx) {
		if err == nil {
			err = j.each(ctx, found, func(d kinds.Document) bool { return yield(Change{d, Listed}) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *watching) pump(ctx context.Context, f *follower, parts chan<- part, records bool) {
	w.Go(func() {
		defer f.close()
		for {
			found, err := f.next(ctx)
			if len(found) == 0 && err == nil {
				continue
			}
			select {
			case parts <- part{found, records, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
}

// change joins what came with the other half, as the leader has it now.
func (w *watching) change(ctx context.Context, m message, record bool) (Change, error) {
	c := Change{Document: kinds.Document{Key: w.key(m.key)}, What: Written}
	var err error
	if !record {
		if m.gone {
			c.What = Deleted
		} else {
			c.Revision, c.Value, c.Expires = m.seq, m.value, m.expires()
		}
		if !w.q.WithoutRecords {
			c.Record, err = w.record(ctx, m.key)
		}
		return c, err
	}
	c.What = Recorded
	if !m.gone {
		c.Record = m.value
	}
	last, err := w.Reader.documents.last(ctx, m.key)
	switch {
	case err != nil:
		return c, err
	case last != nil && !last.gone:
		c.Revision, c.Value, c.Expires = last.seq, last.value, last.expires()
	case m.gone:
		c.What = TornDown
	}
	return c, nil
}
