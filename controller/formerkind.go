package controller

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// WithFormerKind says that the primaries were of another kind before, over the same buckets: a new version of the
// program calls a Site a Website. What they own still names an owner of the former kind. With the option, the runtime
// writes the new kind into it, before the first reconcile of each term: in NATS by compare-and-set, in Kubernetes by a
// patch of labels and annotations, which needs the verb patch. It does so for objects of this installation that this
// controller wrote, as far as they tell. It tries again with each sweep what could not be written; Stats().Degraded
// tells of that under "former kind". The registry of kinds then has one entry, that of the new kind.
//
// Without the option such objects are neither written nor deleted, the reconciles that want them fail with
// AlreadyOwnedError, and Stats().Degraded says so and names the former kind.
//
// The option may be given several times, and may stay when all is done: then it writes nothing. A program of the old
// version that leads again makes objects of the old kind again.
func WithFormerKind(kind string) Option {
	return func(o *engine.Options) error {
		if kind == "" || strings.ContainsAny(kind, "/ \t\n") {
			return fmt.Errorf("WithFormerKind(%q): a kind is not empty, and holds neither slash nor space", kind)
		}
		o.FormerKinds = append(o.FormerKinds, kind)
		o.TeardownOptions = append(o.TeardownOptions, "WithFormerKind")
		return nil
	}
}
