package entity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The rule of the brake, for deletes that a program asks for: at least so many, and more than half of all.
const massDelete = 10

// deletesAtOnce is how many deletes DeleteAllOf has on their way.
const deletesAtOnce = 16

// DeleteAllOption changes what DeleteAllOf does.
type DeleteAllOption func(*deleteAllOptions)

type deleteAllOptions struct {
	countOnly bool
	expects   bool
	count     int
}

// IfCount makes DeleteAllOf delete nothing unless the options choose exactly n documents. With it there is no
// MassDeleteError: n is the confirmation.
func IfCount(n int) DeleteAllOption {
	return func(o *deleteAllOptions) { o.expects, o.count = true, n }
}

// CountOnly makes DeleteAllOf delete nothing, and return how many documents it would delete.
func CountOnly() DeleteAllOption { return func(o *deleteAllOptions) { o.countOnly = true } }

// MassDeleteError says that DeleteAllOf was to delete at least ten documents, and more than half of all, or another
// number than IfCount said. Nothing was deleted.
type MassDeleteError struct {
	Kind, Bucket string
	Namespace    string // of the options
	Chosen       int    // documents that the options choose
	Known        int    // documents in the namespace, or without one in the bucket, as far as the client sees it
	Expected     int    // what IfCount said
	confirmed    bool
}

func (e *MassDeleteError) Error() string {
	in := fmt.Sprintf("bucket %q", e.Bucket)
	if e.Namespace != "" {
		in = fmt.Sprintf("namespace %q of %s", e.Namespace, in)
	}
	if e.confirmed {
		return fmt.Sprintf("nothing was deleted: %d documents of kind %s were expected, and %d are chosen of %d in %s",
			e.Expected, e.Kind, e.Chosen, e.Known, in)
	}
	return fmt.Sprintf("nothing was deleted: %d of all %d documents of kind %s in %s are chosen, which is more than "+
		"half; if they are to go, confirm the number with entity.IfCount(%d)", e.Chosen, e.Known, e.Kind, in, e.Chosen)
}

// DeleteAllOf deletes the documents that the options choose, and returns how many it has deleted. It lists them live
// first, and counts: at least ten that are more than half of all are a *MassDeleteError, and nothing is deleted, unless
// IfCount confirms the number. That is the rule by which the brake of a controller holds deletes that it did not see.
// A replica that watches sees these, and its brake holds none of them. If none watches, the next one finds that many
// documents have vanished, and its brake holds their teardowns: release it with the number (nagi brake).
//
// A document that is written meanwhile is deleted if the options still choose it. One whose key is new meanwhile stays,
// and so does one that cannot be decoded, for no option chooses it. If a delete fails, those that are not on their way
// yet are left, and the error says how many were deleted; the answers to a few more may be lost. To go on, count the
// rest (CountOnly) and call it again. Many deletes are on their way at once. It may be called concurrently.
func (c *Client[T]) DeleteAllOf(
	ctx context.Context, o ListOptions, opts ...DeleteAllOption,
) (deleted int, err error) {
	var how deleteAllOptions
	for i, opt := range opts {
		if opt == nil {
			return 0, fmt.Errorf("deleting of kind %s: option %d is nil", c.cfg.Kind, i+1)
		}
		opt(&how)
	}
	if err := c.checkListOptions(o); err != nil {
		return 0, err
	}
	all, err := c.ListMatching(ctx, ListOptions{Namespace: o.Namespace})
	if err != nil {
		return 0, err
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(obj T) bool { return !c.chooses(o, obj) })
	refused := &MassDeleteError{
		Kind: c.cfg.Kind, Bucket: c.cfg.Bucket, Namespace: o.Namespace, Chosen: len(chosen), Known: len(all),
		Expected: how.count, confirmed: how.expects,
	}
	switch {
	case how.expects && how.count != len(chosen):
		return 0, refused
	case how.countOnly:
		return len(chosen), nil
	case !how.expects && len(chosen) >= massDelete && 2*len(chosen) > len(all):
		return 0, refused
	}
	return c.deleteEach(ctx, o, chosen)
}

// chooses reports whether the options choose an entity that was read live.
func (c *Client[T]) chooses(o ListOptions, obj T) bool {
	return o.matches(obj) && (o.Index == "" || slices.Contains(c.indexedLive(o.Index, obj), o.Value))
}

// deleteEach deletes until one delete fails.
func (c *Client[T]) deleteEach(ctx context.Context, o ListOptions, chosen []T) (deleted int, err error) {
	var next, done atomic.Int64
	var failed error
	var fails sync.Once
	var workers sync.WaitGroup
	work, stop := context.WithCancel(ctx)
	defer stop()
	for range min(deletesAtOnce, len(chosen)) {
		workers.Go(func() {
			for work.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(chosen) {
					return
				}
				gone, err := c.deleteChosen(ctx, o, chosen[i])
				if gone {
					done.Add(1)
				}
				if err != nil {
					fails.Do(func() { failed = err })
					stop()
				}
			}
		})
	}
	workers.Wait()
	deleted = int(done.Load())
	if failed == nil && int(next.Load()) < len(chosen) {
		failed = ctx.Err()
	}
	if failed != nil {
		failed = fmt.Errorf("%d of %d documents of kind %s were deleted, count the rest and call it again: %w",
			deleted, len(chosen), c.cfg.Kind, failed)
	}
	return deleted, failed
}

// deleteChosen deletes a document for as long as the options choose it.
func (c *Client[T]) deleteChosen(ctx context.Context, o ListOptions, obj T) (gone bool, err error) {
	for {
		key, err := c.keys.of(obj)
		if err != nil {
			return false, err
		}
		err = c.Delete(ctx, key, IfRevision(uint64(obj.GetGeneration())))
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err) || ctx.Err() != nil:
			return false, err
		}
		if obj, err = c.Get(ctx, key); apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err // it cannot be decoded any more, too
		}
		if !c.chooses(o, obj) {
			return false, nil
		}
	}
}
