package controller

import (
	"strings"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAnIntentThatSomebodyElseChangedIsNotWrittenOver: another process has written down something else for the same
// resource while this one applied. What it wrote stays, and the reconcile fails.
func TestAnIntentThatSomebodyElseChangedIsNotWrittenOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var told results
		w := newCloudWorld(t, withInterval(notInATest), nil, WithOnResult(told.add))
		var once sync.Once
		w.cloud.Set(func(c *cloudtest.Cloud) {
			c.Stage = func(stage, call, _ string) {
				if stage != "before" || call != "POST disks" {
					return
				}
				once.Do(func() {
					intents, err := w.kv("sites-status").Get(t.Context(), "_nagi.intents.home")
					if err != nil {
						t.Error(err)
						return
					}
					changed := strings.Replace(string(intents.Value()), `"digest":"`, `"digest":"another-`, 1)
					if changed == string(intents.Value()) {
						t.Errorf("no intent in %s", changed)
					}
					if _, err := w.kv("sites-status").Put(t.Context(), "_nagi.intents.home", []byte(changed)); err != nil {
						t.Error(err)
					}
				})
			}
		})
		w.run(w.c)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "the reconcile fails", func() bool {
			for _, r := range told.all() {
				if r.Err != nil && strings.Contains(r.Err.Error(), "somebody else has changed") {
					return true
				}
			}
			return false
		})
		natstest.Eventually(t, "it is reconciled after all", func() bool { return w.reconciled("home") })
		if n := w.cloud.CreatedFor("home"); n != 1 {
			t.Errorf("%d disks were created, want one", n)
		}
	})
}
