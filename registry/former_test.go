package registry

import (
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestARenamedKindHasOneEntry: that of the former kind goes, unless another controller is in it.
func TestARenamedKindHasOneEntry(t *testing.T) {
	for name, shared := range map[string]bool{"its own": false, "another controller's too": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: soon}))
				w.published("the kind is published", anything)
				if shared {
					checks := sitesConfig
					checks.StatusBucket = "checks-status"
					run(w, "checks", client[*site](w, w.js, checks), Publish(Options{Interval: soon}))
					w.published("with two controllers", func(e *Entry) bool { return len(e.Controllers) == 2 })
				}
				first.stop()
				renamed := sitesConfig
				renamed.Kind = "Website"
				run(w, "sites", client[*site](w, w.js, renamed), Publish(Options{Interval: soon}),
					controller.WithFormerKind("Site"))
				natstest.Eventually(w, "the new kind is published, and the former entry is left", func() bool {
					kinds, err := List(t.Context(), w.js)
					if err != nil {
						return false
					}
					found := map[string][]Controller{}
					for _, entry := range kinds.Entries {
						found[entry.Kind] = entry.Controllers
					}
					left := found["Site"]
					return len(found["Website"]) == 1 && (shared && len(left) == 1 && left[0].Name == "checks" || !shared && left == nil)
				})
			})
		})
	}
}
