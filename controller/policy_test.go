package controller

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const orphanPatch = `{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}}}`

// TestADeletionPolicyCountsAlthoughTheDocumentIsNotReconciled, because it is suspended or its events are filtered, also
// for a delete that nobody saw.
func TestADeletionPolicyCountsAlthoughTheDocumentIsNotReconciled(t *testing.T) {
	filter := WithPrimary(WithPredicate(PredicateFuncs{UpdateFunc: func(_, _ metav1.Object) bool { return false }}))
	silent := WithPrimary(WithPredicate(ObjectPredicate(func(metav1.Object) bool { return false })))
	tests := map[string]struct {
		opts  []Option // of the controller that runs when the policy is set
		patch string
		down  bool // nobody runs when the policy is set; the next one filters all events
	}{
		"suspended": {patch: `{"metadata":{"annotations":{"nagi/suspend":"true","nagi/deletion-policy":"orphan"}}}`},
		"filtered":  {opts: []Option{filter}, patch: orphanPatch},
		"missed":    {opts: []Option{filter}, patch: orphanPatch, down: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx, w := t.Context(), newWorld(t)
				start := func(opts ...Option) (*entity.Client[*site], *entity.Client[*page], *Controller[*site], *running) {
					sites, pages := w.sites(), w.pages()
					c, err := New("sites", sites, onePage(sites, pages),
						append(opts, Owns(pages), WithResyncInterval(0))...)
					must(t, err)
					return sites, pages, c, w.run(c)
				}
				sites, _, c, r := start(test.opts...)
				must(t, sites.Create(ctx, newSite("home", "one")))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				if test.down {
					r.halt()
				}
				must(t, sites.Patch(ctx, "home", []byte(test.patch)))
				if test.down {
					sites, _, c, r = start(silent)
				}
				natstest.Eventually(t, "the anchor knows the policy", func() bool {
					record, err := sites.Record(ctx, "home")
					return err == nil && record.DeletionPolicy == DeletionPolicyOrphan
				})
				idle(t, c)
				r.halt()
				must(t, sites.Delete(ctx, "home"))
				sites, pages, _, _ := start()
				natstest.Eventually(t, "it is torn down", noRecord(t, sites, "home"))
				if !exists(t, pages, "home") {
					t.Error("its page was deleted although the document said to leave it")
				}
			})
		})
	}
}
