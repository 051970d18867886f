// Package restore puts documents back that vanished, and whose deletes the brake holds.
//
// The rules:
//
//   - What is put back is the last document of the key's record, byte for byte. A key of which the record does not have
//     all of the document is listed, and is not put back.
//   - A document is only written where there is nothing: what is there by then stays as it is, and what a person
//     deleted meanwhile stays deleted. The server decides that, with each write.
//   - It has what is left of the TTL that its writer set. If nothing is left, it is not put back.
//   - It happens for the engagement and the number of documents that the operator has read, and for no other.
//   - One document that cannot be put back, or of which that is unknown, does not keep the others from it. A server
//     that does not answer does, and so does the end of the term. What was put back stays; the rest can be restored
//     with its new count.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Vanished is a primary whose document is gone although no delete of it was seen, and whose delete the brake holds.
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
	Records interface {
		brake.Records
		Get(ctx context.Context, key string) (*entity.Record, error)
		// LastDocumentLacks says what the last document of a record does not have; "" if it is whole.
		LastDocumentLacks(*entity.Record) string
	}
	Anchors *record.Anchors
	Primary interface {
		Exists(key string) bool
		// Aged returns the revision of the marker that the server has left of a document that grew too old, as far as
		// the cache knows; else 0.
		Aged(key string) uint64
		Await(ctx context.Context, sequence uint64) error
	}
	Prepare Prepare
	Lead    func() explain.Lead
	// Restored is called when documents were put back: what they own may be held as orphans until the next sweep.
	Restored func()
}

// Prepare looks whether the document of a record may be put back, and returns what does that; see
// entity.Client.PrepareRestore.
type Prepare func(ctx context.Context, key string, from *entity.Record, aged uint64) (Write, error)

// Write puts a document back, unless something came meanwhile, and returns its revision.
type Write = func(ctx context.Context) (revision uint64, err error)

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
	errs := each(list, func(v *Vanished) error {
		if reading.Err() != nil {
			return nil
		}
		err := r.leads() // a long list may outlast the term
		if err == nil {
			_, err = r.look(reading, v)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			cancel(err) // the others would fail, too
			return nil
		}
		return err
	})
	if err := context.Cause(reading); err != nil {
		return nil, fmt.Errorf("controller %q: list the documents of %s that vanished: %w", r.Controller, r.Kind, err)
	}
	gone := list[:0]
	for i, v := range list {
		if errs[i] == nil { // else it has a document that the cache does not show yet
			gone = append(gone, v)
		}
	}
	return gone, nil
}

// look fills in what the record says and what the bucket has, and returns what puts the document back; nil if it cannot
// be. The error says that this could not be found out now; of a document that is there by now it is IsAlreadyExists.
func (r *Restorer) look(ctx context.Context, v *Vanished) (Write, error) {
	held, err := r.Records.Get(ctx, v.Key)
	unreadable, is := errors.AsType[*entity.UnreadableRecordError](err)
	switch {
	case is:
		v.NotRestorable = printable.Message(unreadable.Error())
		return nil, nil
	case apierrors.IsNotFound(err):
		v.NotRestorable = "its record is gone"
		return nil, nil
	case err != nil:
		return nil, err
	}
	v.Revision = held.DocumentRevision
	if ahead := r.Anchors.CheckNotAhead(v.Key, held); ahead != nil {
		v.NotRestorable = printable.Message(ahead.Error())
		return nil, nil
	}
	if v.NotRestorable = r.Records.LastDocumentLacks(held); v.NotRestorable != "" {
		return nil, nil
	}
	write, err := r.Prepare(ctx, v.Key, held, r.Primary.Aged(v.Key))
	if no, is := errors.AsType[*entity.NotRestorableError](err); is {
		v.NotRestorable = printable.Message(no.Why)
		return nil, nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		v.NotRestorable = printable.Message(err.Error())
		return nil, nil
	}
	return write, err
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
		leader = printable.Quote(lead.Holder) + ", which held the lease when it was read last"
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
		r.Restored()
	}
	if len(failed) > 0 {
		return run.restored, &Error{Controller: r.Controller, Kind: r.Kind, Restored: run.restored, Failed: failed}
	}
	return run.restored, nil
}

// confirmed returns what can be restored, if it is what the operator has confirmed.
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
		printable.Text(state.Engagement), len(list), r.Kind)
	if lost := len(all) - len(list); lost > 0 {
		now += fmt.Sprintf(", and %d cannot", lost)
	}
	mismatch := func(format string, args ...any) error {
		says := fmt.Sprintf("controller %q: %s: %s", r.Controller, fmt.Sprintf(format, args...), now)
		return &Mismatch{len(list), says}
	}
	switch {
	case engagement != state.Engagement:
		return nil, mismatch("nothing was restored: %s is not the engagement of the brake", printable.Quote(engagement))
	case count != len(list):
		return nil, mismatch("nothing was restored: %d is not the number of documents", count)
	case count == 0:
		return nil, mismatch("nothing is to be restored")
	}
	return list, nil
}
