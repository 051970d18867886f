package controller

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// WithFormerKind says that the primaries were of another kind before, over the same buckets: a new version of the
// program calls a Site a Website. What they own still names an owner of the former kind. With the option, that is
// written into it anew, before the first reconcile of each term: in NATS by compare-and-set, in Kubernetes by a patch of
// labels and annotations, which needs the verb patch. It is done for objects of this installation that this controller
// wrote, as far as they tell. What cannot be written is tried again with each sweep; Stats().Degraded tells of it under
// "former kind". package registry then keeps one entry, that of the new kind.
//
// Without the option such objects are neither written nor deleted, the reconciles that want them fail with
// AlreadyOwnedError, and Stats().Degraded says so and names the former kind.
//
// The option may be given several times, and may stay when all is done: then it costs nothing. A program of the old
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
