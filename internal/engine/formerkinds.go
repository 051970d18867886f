package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/internal/turn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// The rule about a kind that was renamed: its objects name an owner of the former kind, and this controller neither
// writes nor deletes them. Where the user has named the former kind, the runtime writes the kind of now into them:
// before the first worker of a term starts, and in each sweep. Else it reports them. While objects name a key as one of
// another kind, the teardown of the key waits, because it would not find them.

const (
	// renameTime is how long one pass may take. What it leaves is for the next sweep, which follows at once.
	renameTime = 30 * time.Second
	// renameShows is how long a pass takes before it shows as degraded.
	renameShows = 2 * time.Second
)

// formerKinds is what an engine knows of objects of other kinds.
type formerKinds struct {
	passing turn.Turn                         // of one pass at a time
	left    atomic.Pointer[map[string]former] // by the key that they name; nil before the first pass
}

// renameFormer gives the objects of former kinds to this one, and reports those that it cannot give, and those of kinds
// that were not named as former ones.
func (e *Engine) renameFormer(ctx context.Context) {
	if e.claim == nil || e.InstanceID() == "" || e.former.passing.Take(ctx) != nil {
		return
	}
	defer e.former.passing.Give()
	named, unnamed := e.findFormer()
	name := "former kind (bucket " + e.statusBucket + ")"
	shown := make(chan struct{})
	slow := time.AfterFunc(renameShows, func() {
		defer close(shown)
		e.health.Set(ctx, name, e.beingRenamed(len(named)))
	})
	bounded, cancel := context.WithTimeout(ctx, renameTime)
	failed, late := rename(bounded, named)
	cancel()
	if !slow.Stop() {
		<-shown // what is known by now is told last
	}
	if ctx.Err() != nil {
		return // the next term does the rest
	}
	if done := len(named) - len(failed) - late; done > 0 {
		klog.FromContext(ctx).Info("Objects of a former kind belong to this one now", "objects", done,
			"formerKinds", e.opts.FormerKinds)
	}
	left := map[string]former{}
	for _, f := range slices.Concat(named, unnamed) {
		if !f.done {
			left[f.key] = *f
		}
	}
	before := e.former.left.Swap(&left)
	if before != nil && len(*before) > len(left) {
		e.resumeOwed()
	}
	e.health.Set(ctx, name, e.leftOfFormer(failed, late, unnamed))
	if late > 0 {
		e.sweeper.SweepSoon()
	}
}

// findFormer looks through the caches for objects of the kinds that were named as former ones, and of others that this
// controller wrote.
func (e *Engine) findFormer() (named, unnamed []*former) {
	for _, s := range e.owned() {
		if source.NotSynced(s) != nil {
			continue
		}
		for obj := range s.All() {
			f, ok := e.formerIn(s, obj)
			switch {
			case !ok:
			case slices.Contains(e.opts.FormerKinds, f.kind):
				named = append(named, f)
			case owner.WriterOf(obj) == e.statusBucket:
				unnamed = append(unnamed, f)
			}
		}
	}
	return named, unnamed
}

func (e *Engine) beingRenamed(objects int) error {
	return fmt.Errorf("%d objects of the former kinds %s are being given to %s; it goes on by itself", objects,
		printable.Text(fmt.Sprint(e.opts.FormerKinds)), e.Kind)
}

// leftOfFormer says what is left; nil if nothing is.
func (e *Engine) leftOfFormer(failed []error, late int, unnamed []*former) (err error) {
	switch {
	case len(failed) > 0:
		err = fmt.Errorf("%d objects of the former kinds %s could not be given to %s, and are tried again in the next "+
			"sweep; until then they are neither written nor deleted, and the teardowns of their owners wait: %w",
			len(failed)+late, printable.Text(fmt.Sprint(e.opts.FormerKinds)), e.Kind, failed[0])
	case late > 0:
		err = e.beingRenamed(late)
	}
	counts, examples := map[string]int{}, map[string]*former{}
	for _, f := range unnamed {
		counts[f.kind]++
		examples[f.kind] = f
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		err = errors.Join(err, e.notNamed(examples[kind], counts[kind]))
	}
	return err
}

// notNamed is what is told of the objects of a kind that was not named as a former one.
func (e *Engine) notNamed(f *former, count int) error {
	return fmt.Errorf("%d objects, such as %q of %s, belong to primaries of kind %q, and the controller with the "+
		"status bucket %s wrote them, whose primaries are of kind %q now. They are neither written nor deleted, and "+
		"the teardowns of their owners wait. If the kind was renamed, give the controller the option "+
		"WithFormerKind(%q). If not, stop it: it has another controller's status bucket",
		count, source.ObjectKey(f.obj), f.in, f.kind, e.statusBucket, e.Kind, f.kind)
}

// formerOf says that objects name a key as one of another kind, so that its teardown would not find them; nil if none
// is known.
func (e *Engine) formerOf(key string) error {
	left := e.former.left.Load()
	if left == nil {
		return nil
	}
	f, ok := (*left)[key]
	if !ok {
		return nil
	}
	return fmt.Errorf("%s %q of %s names it as a %s, the kind that it had before; Stats().Degraded says what to do",
		"object", source.ObjectKey(f.obj), f.in, f.kind)
}

// former is an object of this installation that names an owner of another kind.
type former struct {
	kind, key string
	in        source.Owned
	obj       metav1.Object
	claim     owner.Claim // of its kind
	to        *Engine
	done      bool
}

// formerIn returns what obj is if its owner is of another kind, in this installation, and as far as it tells this
// controller wrote it.
func (e *Engine) formerIn(s source.Owned, obj metav1.Object) (f *former, ok bool) {
	named := owner.Of(obj) // none if labels alone have the hash of a key
	claim := e.Claim()
	if claim.Kind = named.Kind; named.IsNone() || named.Kind == e.Kind {
		return nil, false
	}
	f = &former{kind: named.Kind, key: named.Key, in: s, obj: obj, claim: claim.In(s), to: e}
	return f, f.isOurs(obj)
}

func (f *former) isOurs(obj metav1.Object) bool {
	writer := owner.WriterOf(obj)
	return f.claim.IsOwned(obj) && (writer == "" || writer == f.to.statusBucket)
}

// errRenamed says that an object names an owner of the new kind already: the cache was behind.
var errRenamed = errors.New("it is of the new kind already")

// write makes obj, which is the object as it is now, name an owner of the new kind. The error says that it is another
// owner's by now.
func (f *former) write(obj metav1.Object) error {
	switch now := owner.Of(obj); {
	case now.Kind == f.to.Kind:
		return errRenamed
	case !f.isOurs(obj):
		return errors.New("its owner has changed")
	}
	named, stamp := owner.Of(obj), owner.StampOf(obj)
	entity.SetOwner(obj, f.to.Kind, named.Key, named.Instance)
	stamp.Set(obj)
	owner.SetWriter(obj, f.to.statusBucket)
	owner.Prove(obj, f.to.opts.Proofs, f.in.Resource())
	return nil
}

// FormerKinds are the kinds that the primaries had before, as the user has named them.
func (e *Engine) FormerKinds() []string { return e.opts.FormerKinds }
