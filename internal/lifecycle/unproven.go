package lifecycle

import (
	"context"
	"maps"
	"slices"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// owns reports whether an object is the primary's, and goes with it.
func (a *absence) owns(obj metav1.Object, claim owner.Claim) bool {
	return claim.Owns(obj, a.key) && (!a.neverWas || claim.IsProven(obj))
}

// leaves notes what stays for the lack of a proof, because the primary never was, or only because it names an owner in
// another namespace. It reports whether it would be the primary's otherwise, but for the namespace.
func (a *absence) leaves(s source.Owned, obj metav1.Object, claim owner.Claim) bool {
	v := ruledByMarks(claim, obj, owner.NamedBy(obj))
	switch crosses := claim.Crosses(obj, a.key); {
	case a.neverWas && claim.Owns(obj, a.key):
		v = neverWas
	case crosses && v == ours:
		v = crossing
	case crosses || v != unproven:
		return false
	}
	if a.left[v] == nil {
		a.left[v] = map[string]struct{}{}
	}
	a.left[v][nameOf(s, obj)] = struct{}{}
	return v != crossing
}

// leavesNothing reports whether nothing stays for such a reason.
func (a *absence) leavesNothing() bool {
	return len(a.left[unproven])+len(a.left[crossing])+len(a.left[neverWas]) == 0
}

// leaveNothing begins anew.
func (a *absence) leaveNothing() { a.left = [verdicts]map[string]struct{}{} }

func nameOf(s source.Owned, obj metav1.Object) string {
	return s.String() + " " + source.ObjectKey(obj)
}

// tellLeft says at the end of a teardown what it left, and counts that once for each record that ended.
func (a *absence) tellLeft(ctx context.Context, counts bool) {
	if n := len(a.left[unproven]); n > 0 && counts {
		a.teardown.Counters.LeftUnproven(n)
	}
	for v, left := range a.left {
		if len(left) > 0 {
			names := slices.Sorted(maps.Keys(left))
			klog.FromContext(ctx).Info(rulings[v].left, "key", a.key,
				"first", names[:min(len(names), notify.MostNamed)], "all", len(names))
		}
	}
}
