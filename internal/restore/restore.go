// Package restore puts documents back that vanished, and whose deletes the brake holds.
//
// The rules:
//
//   - What is put back is the last document of the key's record, byte for byte. A key of which the record does not have
//     all of the document is listed, and is not put back.
//   - A document is only created: what is there by then stays as it is.
//   - It happens for the engagement and the number of documents that somebody has read, and for no other.
//   - One document that cannot be put back does not keep the others from it. A server that does not answer does, and so
//     does the end of the term. What was put back stays; the rest can be restored with its new count.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/foreign"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Vanished is a primary whose document is gone although nobody was seen to delete it, and whose delete the brake holds.
// It has nothing of the document.
type Vanished struct {
	Key string `json:"key"`
	// Revision is that of the last document that the record has. The one that vanished may have been younger, if it was
	// not about to be reconciled yet.
	Revision uint64 `json:"revision,omitempty"`
	// Since is when the brake engaged that holds the delete.
	Since time.Time `json:"since,omitzero"`
	// NotRestorable says why the document cannot be put back; "" if it can.
	NotRestorable string `json:"notRestorable,omitempty"`
}

// Restorer lists and restores the vanished documents of one controller. A nil Restorer is that of a controller without
// a brake. Its methods may be called concurrently.
type Restorer struct {
	Controller string
	Kind       string // of the primaries
	Brake      interface {
		State() brake.State
		Holds(key string) bool
	}
	Records *entity.Records
	Anchors *record.Anchors
	Primary interface {
		Exists(key string) bool
		Await(ctx context.Context, sequence uint64) error
	}
	// Create writes a document under a key that has none, and returns its revision.
	Create func(ctx context.Context, key string, document []byte) (uint64, error)
	Lead   func() explain.Lead
}

// atOnce is how many keys are read, or written, at the same time.
const atOnce = 16

// shows bounds how long a restore waits until the cache shows what it has put back.
const shows = 10 * time.Second

// List returns what can be restored and what cannot, in the order of keys. It reads each record live. The list is empty
// while the brake is not engaged. A replica that does not lead does not know what is held.
func (r *Restorer) List(ctx context.Context) ([]Vanished, error) {
	if err := r.leads(); err != nil {
		return nil, err
	}
	state, list := r.Brake.State(), []Vanished{}
	if !state.Engaged {
		return list, nil
	}
	for key := range (brake.RecordAnchors{Records: r.Records}).All() {
		if r.Brake.Holds(key) && !r.Primary.Exists(key) {
			list = append(list, Vanished{Key: key, Since: state.Since})
		}
	}
	slices.SortFunc(list, func(a, b Vanished) int { return cmp.Compare(a.Key, b.Key) })
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	each(list, func(v *Vanished) error {
		if reading.Err() != nil {
			return nil
		}
		err := r.leads() // a long list may outlast the term
		if err == nil {
			_, err = r.look(reading, v)
		}
		if err != nil {
			cancel(err) // the others would fail, too
		}
		return nil
	})
	if err := context.Cause(reading); err != nil {
		return nil, fmt.Errorf("controller %q: list the documents of %s that vanished: %w", r.Controller, r.Kind, err)
	}
	return list, nil
}

// look fills in what the record says, and returns the document. The error says that the record could not be read now.
func (r *Restorer) look(ctx context.Context, v *Vanished) (document []byte, err error) {
	held, err := r.Records.Get(ctx, v.Key)
	unreadable, is := errors.AsType[*entity.UnreadableRecordError](err)
	switch {
	case is:
		v.NotRestorable = foreign.Message(unreadable.Error())
		return nil, nil
	case apierrors.IsNotFound(err):
		v.NotRestorable = "its record is gone"
		return nil, nil
	case err != nil:
		return nil, err
	}
	v.Revision = held.DocumentRevision
	if ahead := r.Anchors.CheckNotAhead(v.Key, held); ahead != nil {
		v.NotRestorable = foreign.Message(ahead.Error())
		return nil, nil
	}
	v.NotRestorable = r.Records.LastDocumentLacks(held)
	return held.LastDocument, nil
}

// leads returns why this replica cannot restore; nil if it can.
func (r *Restorer) leads() error {
	if r == nil {
		return errors.New("there is no brake WithoutTeardown, and no record that a document could be restored from")
	}
	lead := r.Lead()
	if lead.Leads {
		return nil
	}
	leader := "the one that does"
	if lead.Holder != "" {
		leader = foreign.Quote(lead.Holder) + ", which held the lease when it was read last"
	}
	return &NotLeading{lead.Holder, fmt.Sprintf("controller %q: this replica does not lead, so it does not know what "+
		"the brake holds: ask %s", r.Controller, leader)}
}

// Restore puts back all that can be, if the engagement and the count are those of now. restored is how many were, also
// if there is an error.
func (r *Restorer) Restore(ctx context.Context, engagement string, count int) (restored int, err error) {
	list, err := r.confirmed(ctx, engagement, count)
	if err != nil {
		return 0, err
	}
	run := run{Restorer: r, engagement: engagement}
	errs := each(list, func(v *Vanished) error { return run.restore(ctx, v.Key) })
	failed := failures(list, errs)
	klog.FromContext(ctx).Info("Documents that had vanished were restored", "controller", r.Controller, "kind", r.Kind,
		"engagement", engagement, "restored", run.restored, "notRestored", len(failed))
	if run.restored > 0 && r.Lead().Leads {
		bounded, cancel := context.WithTimeout(ctx, shows)
		defer cancel()
		_ = r.Primary.Await(bounded, run.highest) // so that the next list has the rest; else it is late
	}
	if len(failed) > 0 {
		return run.restored, &Error{Controller: r.Controller, Kind: r.Kind, Restored: run.restored, Failed: failed}
	}
	return run.restored, nil
}

// confirmed returns what can be restored, if it is what somebody has confirmed.
func (r *Restorer) confirmed(ctx context.Context, engagement string, count int) ([]Vanished, error) {
	if err := r.leads(); err != nil {
		return nil, err
	}
	state := r.Brake.State()
	if !state.Engaged {
		return nil, &Mismatch{says: fmt.Sprintf("controller %q: the brake is not engaged: no delete of a %s is held, "+
			"and nothing is to be restored", r.Controller, r.Kind)}
	}
	all, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(all), func(v Vanished) bool { return v.NotRestorable != "" })
	now := fmt.Sprintf("in engagement %s %d documents of %s can be restored",
		foreign.Text(state.Engagement), len(list), r.Kind)
	if lost := len(all) - len(list); lost > 0 {
		now += fmt.Sprintf(", and %d cannot", lost)
	}
	mismatch := func(format string, args ...any) error {
		says := fmt.Sprintf("controller %q: %s: %s", r.Controller, fmt.Sprintf(format, args...), now)
		return &Mismatch{len(list), says}
	}
	switch {
	case engagement != state.Engagement:
		return nil, mismatch("nothing was restored: %s is not the engagement of the brake", foreign.Quote(engagement))
	case count != len(list):
		return nil, mismatch("nothing was restored: %d is not the number of documents", count)
	case count == 0:
		return nil, mismatch("nothing is to be restored")
	}
	return list, nil
}

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
		return errors.New("the brake does not hold its delete any more")
	}
	v := Vanished{Key: key}
	document, err := r.look(ctx, &v)
	switch {
	case err != nil:
		return r.stop(fmt.Errorf("its record cannot be read: %w", err))
	case v.NotRestorable != "":
		return errors.New(v.NotRestorable)
	}
	revision, err := r.Create(ctx, key, document)
	switch {
	case err == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restored++
		r.highest = max(r.highest, revision)
		return nil
	case apierrors.IsAlreadyExists(err):
		return errCameBack
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err), errors.Is(err, entity.ErrFull):
		return err // others may fit
	}
	return r.stop(err)
}

var errCameBack = errors.New("it has a document by now, which stays as it is")

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
