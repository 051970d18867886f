package restore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// run is one restore.
type run struct {
	*Restorer
	engagement string

	mu       sync.Mutex
	stopped  error // why nothing more is put back
	restored int
	highest  uint64 // the revision of what was put back last
}

// restore puts one document back, unless the run has stopped.
func (r *run) restore(ctx context.Context, key string) error {
	if err := r.mayGoOn(ctx); err != nil {
		return err
	}
	if state := r.Brake.State(); state.Engagement != r.engagement || !r.Brake.Holds(key) {
		if r.Primary.Exists(key) {
			return errCameBack
		}
		return errNotHeld
	}
	v := Vanished{Key: key}
	write, err := r.look(ctx, &v)
	switch {
	case apierrors.IsAlreadyExists(err):
		return errCameBack
	case err != nil:
		return r.stop(fmt.Errorf("look for what there is of it: %w", err))
	case v.NotRestorable != "":
		return errors.New(v.NotRestorable)
	}
	revision, err := write(ctx)
	no, is := errors.AsType[*entity.NotRestorableError](err)
	switch {
	case err == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restored++
		r.highest = max(r.highest, revision)
		return nil
	case apierrors.IsAlreadyExists(err):
		return errCameBack
	case is:
		return errors.New(no.Why)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err), errors.Is(err, entity.ErrFull):
		return err // others may fit
	case errors.Is(err, entity.ErrOutcomeUnknown):
		return err // something else came to this key; and if the server is away, the next look will stop the run
	}
	return r.stop(err)
}

var (
	errCameBack = errors.New("it has a document by now, which stays as it is")
	errNotHeld  = errors.New("the brake does not hold its delete any more")
)

// mayGoOn returns why no more documents are put back; nil if they are.
func (r *run) mayGoOn(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped != nil {
		return r.stopped
	}
	if err := context.Cause(ctx); err != nil {
		r.stopped = fmt.Errorf("%w: %w", errStopped, err)
	} else if lead := r.Lead(); !lead.Leads {
		r.stopped = fmt.Errorf("%w: %w", errStopped, &NotLeading{lead.Holder, "this replica does not lead any more"})
	}
	return r.stopped
}

// stop has the others not begin: what failed will fail for them, too.
func (r *run) stop(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped == nil {
		r.stopped = fmt.Errorf("%w with the error of another key", errStopped)
	}
	return err
}

var errStopped = errors.New("not tried, because the restore stopped")

// each calls f for all of a list, several at once, and returns the errors in the order of the list.
func each(list []Vanished, f func(*Vanished) error) []error {
	errs := make([]error, len(list))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(atOnce, len(list)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				errs[i] = f(&list[i])
			}
		})
	}
	workers.Wait()
	return errs
}
