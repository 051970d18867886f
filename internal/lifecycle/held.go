package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// heldBy says what of an owner's objects was deleted and does not go; nil if nothing is.
func (t *Teardown) heldBy(key string, targets []owned) error {
	if err := t.undeleted(key); err != nil {
		return err
	}
	return heldBy(targets)
}

// undeleted says which of an owner's resources an API does not delete though it says so; nil for none.
func (t *Teardown) undeleted(key string) error {
	if err := t.APIs.Undeleted(key); err != nil {
		return fmt.Errorf(record.WaitsFor+"%w", err)
	}
	return nil
}

// heldBy says which objects are being deleted and are still there; nil if none are. It names one of them, always the
// same, with its finalizers. A Namespace and a Pod on a dead node have none and stay all the same; but a Pod may take
// the time until its deletionTimestamp.
func heldBy(targets []owned) error {
	held := slices.DeleteFunc(slices.Clone(targets), func(o owned) bool {
		deleted := o.object.GetDeletionTimestamp()
		return deleted == nil || len(o.object.GetFinalizers()) == 0 && time.Now().Before(deleted.Time)
	})
	if len(held) == 0 {
		return nil
	}
	name := func(o owned) string { return fmt.Sprintf("%s %q", o.source, source.ObjectKey(o.object)) }
	first := slices.MinFunc(held, func(a, b owned) int { return cmp.Compare(name(a), name(b)) })
	what, others := name(first), ""
	if finalizers := first.object.GetFinalizers(); len(finalizers) > 0 {
		what = fmt.Sprintf("the finalizers %s of %s", strings.Join(finalizers, ", "), what)
	}
	if len(held) > 1 {
		others = fmt.Sprintf(", and for %d other objects", len(held)-1)
	}
	return fmt.Errorf(record.WaitsFor+"%s, which is being deleted since %s%s",
		what, first.object.GetDeletionTimestamp().UTC().Format(time.RFC3339), others)
}
