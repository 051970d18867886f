package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// The rule about a kind that was renamed: its objects name an owner of the former kind, and are nobody's to this
// controller, which neither writes nor deletes them. Where the user has named the former kind, the objects are given to
// the kind of now, before the first worker of a term starts and in each sweep. Else they are reported.

// renames is how many objects are renamed at once.
const renames = 16

// renameFormer gives the objects of former kinds to this one, and reports those that it cannot give, and those of kinds
// that were not named as former ones.
func (e *Engine) renameFormer(ctx context.Context) {
	if e.claim == nil || e.InstanceID() == "" {
		return
	}
	var found []former
	unnamed := map[string]former{} // by kind
	counts := map[string]int{}
	for _, s := range e.owned() {
		if source.NotSynced(s) != nil {
			continue
		}
		for _, obj := range s.All() {
			f, ok := e.formerIn(s, obj)
			switch {
			case !ok:
			case slices.Contains(e.opts.FormerKinds, f.kind):
				found = append(found, f)
			case owner.WriterOf(obj) == e.statusBucket:
				counts[f.kind]++
				if counts[f.kind] == 1 {
					unnamed[f.kind] = f
				}
			}
		}
	}
	failed, err := rename(ctx, found)
	if done := len(found) - failed; done > 0 {
		klog.FromContext(ctx).Info("Objects of a former kind belong to this one now", "objects", done,
			"formerKinds", e.opts.FormerKinds)
	}
	if ctx.Err() != nil {
		return // the next term does the rest
	}
	if failed > 0 {
		err = fmt.Errorf("%d objects of the former kinds %s could not be given to %s, and are tried again in the next "+
			"sweep; until then they are neither written nor deleted: %w",
			failed, printable.Text(fmt.Sprint(e.opts.FormerKinds)), e.Kind, err)
	}
	for _, kind := range slices.Sorted(maps.Keys(unnamed)) {
		err = errors.Join(err, e.notNamed(unnamed[kind], counts[kind]))
	}
	e.health.Set(ctx, "former kind (bucket "+e.statusBucket+")", err)
}

// notNamed is what is told of the objects of a kind that was not named as a former one.
func (e *Engine) notNamed(f former, count int) error {
	return fmt.Errorf("%d objects, such as %q of %s, belong to primaries of kind %q, and the controller with the "+
		"status bucket %s wrote them, whose primaries are of kind %q now. They are neither written nor deleted. If "+
		"the kind was renamed, give the controller the option WithFormerKind(%q). If not, stop it: it has another "+
		"controller's status bucket", count, source.ObjectKey(f.obj), f.in, f.kind, e.statusBucket, e.Kind, f.kind)
}

// former is an object of this installation that names an owner of another kind.
type former struct {
	kind  string
	in    source.Owned
	obj   metav1.Object
	claim owner.Claim // of its kind
	to    *Engine
}

// formerIn returns what obj is if its owner is of another kind, in this installation, and as far as it tells this
// controller wrote it.
func (e *Engine) formerIn(s source.Owned, obj metav1.Object) (f former, ok bool) {
	named := owner.Of(obj) // none if labels alone have the hash of a key
	claim := e.Claim()
	if claim.Kind = named.Kind; named.IsNone() || named.Kind == e.Kind {
		return f, false
	}
	f = former{named.Kind, s, obj, claim.In(s), e}
	return f, f.isOurs(obj)
}

func (f former) isOurs(obj metav1.Object) bool {
	writer := owner.WriterOf(obj)
	return f.claim.IsOwned(obj) && (writer == "" || writer == f.to.statusBucket)
}

// rename writes the new kind into objects. It returns how many failed, and one of the errors.
func rename(ctx context.Context, found []former) (failed int, err error) {
	work := make(chan former)
	var workers sync.WaitGroup
	var mu sync.Mutex
	for range min(renames, len(found)) {
		workers.Go(func() {
			for f := range work {
				one := f.in.Rewrite(ctx, f.obj, f.rename)
				if one == nil {
					continue
				}
				mu.Lock()
				failed, err = failed+1, cmp.Or(err, fmt.Errorf("%s: %q: %w", f.in, source.ObjectKey(f.obj), one))
				mu.Unlock()
			}
		})
	}
	for _, f := range found {
		work <- f
	}
	close(work)
	workers.Wait()
	return failed, err
}

// rename makes obj, which is the object as it is now, name an owner of the new kind. The error says that it is another
// owner's by now.
func (f former) rename(obj metav1.Object) error {
	if !f.isOurs(obj) {
		return fmt.Errorf("its owner has changed")
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
