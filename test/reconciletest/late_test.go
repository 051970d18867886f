package reconciletest_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestACacheThatIsLateIsWaitedFor: the delivery of a revision is lost, and the cache has to notice that.
func TestACacheThatIsLateIsWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		_, js := natstest.Connect(t, natstest.Start(t).URL(), natstest.Tamper(func(m *nats.Msg) bool {
			delivery := strings.HasPrefix(m.Reply, "$JS.ACK.") && bytes.Contains(m.Data, []byte(`"late"`))
			return !delivery || !lost.CompareAndSwap(false, true)
		}))
		w := &world{t: t, js: js}
		w.sites = client[*Site](t, js, entity.Config{Kind: "Site", Bucket: "sites"})
		w.pages = client[*Page](t, js, entity.Config{Kind: "Page", Bucket: "pages"})
		w.put("shop", "early")
		run := w.run(w.Reconcile)
		wrote(t, run.Reconcile(t.Context(), "shop"), "created Page shop.early")
		w.raw("sites", "shop", `{"spec":{"pages":["late"]}}`)
		wrote(t, run.Reconcile(t.Context(), "shop"), "created Page shop.late")
		if !lost.Load() {
			t.Error("no delivery was lost")
		}
	})
}

// TestAHandlerThatIsLateIsWaitedFor: what only the event of the delete tells, LastKnown knows.
func TestAHandlerThatIsLateIsWaitedFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites = client[*Site](t, w.js, entity.Config{
			Kind: "Site", Bucket: "secretive", SecretFields: []string{"spec.pages"},
		})
		w.put("shop", "a")
		slow := controller.PredicateFuncs{UpdateFunc: func(_, _ metav1.Object) bool {
			time.Sleep(100 * time.Millisecond) // the news of the delete comes after it
			return true
		}}
		var run *reconciletest.Runner[*Site]
		var last *Site
		run = w.run(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			var err error
			last, err = run.Controller().LastKnown(ctx, req.Key)
			return controller.Result{}, err
		}, controller.WithPrimary(controller.WithPredicate(slow)))
		succeeded(t, run.Reconcile(t.Context(), "shop"))
		w.put("shop", "b")
		got := run.Delete(t.Context(), "shop")
		succeeded(t, got)
		if !slices.Equal(last.Spec.Pages, []string{"b"}) {
			t.Errorf("last known with pages %q", last.Spec.Pages)
		}
	})
}
