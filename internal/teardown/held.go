package teardown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// heldBy says which finalizers keep objects that are being deleted; nil if none do. It names one of the objects, always
// the same.
func heldBy(targets []owned) error {
	held := slices.DeleteFunc(slices.Clone(targets), func(o owned) bool {
		return o.object.GetDeletionTimestamp() == nil || len(o.object.GetFinalizers()) == 0
	})
	if len(held) == 0 {
		return nil
	}
	name := func(o owned) string { return fmt.Sprintf("%s %q", o.source, source.ObjectKey(o.object)) }
	first := slices.MinFunc(held, func(a, b owned) int { return cmp.Compare(name(a), name(b)) })
	others := ""
	if len(held) > 1 {
		others = fmt.Sprintf(", and for those of %d other objects", len(held)-1)
	}
	return fmt.Errorf(record.WaitsFor+"the finalizers %s of %s, which is being deleted since %s%s",
		strings.Join(first.object.GetFinalizers(), ", "), name(first),
		first.object.GetDeletionTimestamp().UTC().Format(time.RFC3339), others)
}
