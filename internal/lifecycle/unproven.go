package lifecycle

import (
	"context"
	"maps"
	"slices"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// The rule for an object that names an owner of ours and does not prove it, where proofs are wanted:
//
// As far as we can tell it is not ours. Nothing deletes it, no teardown waits for it, and its stamp is no evidence.
// The log and the counts tell of it. Whether it is such says owner.Claim.

// leaves notes what stays for the lack of a proof, or only because it names an owner in another namespace. It reports
// whether a proof is what is missing.
func (a *absence) leaves(s source.Owned, obj metav1.Object, claim owner.Claim) bool {
	noted, crosses := &a.unproven, claim.Crosses(obj, a.key)
	switch {
	case crosses && claim.MayDelete(obj):
		noted = &a.crossing
	case crosses || !claim.IsUnproven(obj):
		return false
	}
	if *noted == nil {
		*noted = map[string]struct{}{}
	}
	(*noted)[nameOf(s, obj)] = struct{}{}
	return !crosses
}

func nameOf(s source.Owned, obj metav1.Object) string {
	return s.String() + " " + source.ObjectKey(obj)
}

// tellLeft says at the end of a teardown what it left.
func (a *absence) tellLeft(ctx context.Context) {
	if len(a.unproven) > 0 {
		a.teardown.Counters.LeftUnproven(len(a.unproven))
		a.tell(ctx, a.unproven, "The teardown has left objects that name this owner and carry no valid proof of it: "+
			"delete them by hand if they were the owner's")
	}
	if len(a.crossing) > 0 {
		a.tell(ctx, a.crossing, "The teardown has left objects that name this owner from other namespaces: open their "+
			"source to such owners (WithOwnersInOtherNamespaces) if they are the owner's, or delete them by hand")
	}
}

func (a *absence) tell(ctx context.Context, left map[string]struct{}, message string) {
	names := slices.Sorted(maps.Keys(left))
	klog.FromContext(ctx).Info(message, "key", a.key, "first", names[:min(len(names), namesInLog)], "all", len(names))
}

// unproves counts an object that names an owner of ours and does not prove it. It reports whether the object is such.
// What a deletion policy left stays known as left: a secret that is given again proves it again.
func (o *ownerless) unproves(
	s source.Owned, obj metav1.Object, named owner.Named, claim owner.Claim, left *leftOwners,
) bool {
	if !claim.IsUnproven(obj) {
		return false
	}
	o.unproven.add(s, obj)
	o.Unproven++
	if key, _ := named.Key(); key != "" && !o.teardown.Primaries.Exists(key) {
		left.use(key)
	}
	return true
}

// reportUnproven logs what the last sweep did not find.
func (o *ownerless) reportUnproven(ctx context.Context) {
	o.teardown.unproven = o.unproven.now
	if len(o.unproven.first) > 0 {
		klog.FromContext(ctx).Info("Objects name an owner of this controller and carry no valid proof of it, so "+
			"nothing deletes them. A reconcile that writes them proves them. Where none does, somebody else "+
			"has marked them, or the reconciler no longer wants them: delete them by hand",
			"first", o.unproven.first, "all", o.Unproven)
	}
}
