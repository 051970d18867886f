package servers

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recovery is how long after a server answers again a change may take. What watches with a consumer of the server's
// heartbeats alone, as kv.Watch does, takes twenty seconds.
const recovery = 8 * time.Second

// TestAKilledServerComesBack with its store while the controller runs. Nothing that exists is torn down, and changes go
// through soon.
func TestAKilledServerComesBack(t *testing.T) {
	onEach(t, func(w *world) {
		r := w.lead()
		names := []string{"a", "b", "c"}
		w.make(names...)
		for round := range 3 {
			w.server.kill()
			w.server.start()
			began := time.Now()
			natstest.Eventually(w.t, "the user is connected", w.js.Conn().IsConnected)
			name := fmt.Sprint("d", round)
			names = append(names, name)
			w.make(name)
			s, err := w.sites.Get(w.t.Context(), "a")
			must(w.t, err)
			s.Spec.Title = fmt.Sprint("after kill ", round)
			must(w.t, w.sites.Update(w.t.Context(), s))
			w.reconciled(s)
			if took := time.Since(began); took > recovery {
				w.t.Errorf("a change took %v after the server answered", took)
			}
		}
		must(w.t, w.sites.Delete(w.t.Context(), "b"))
		w.tornDown("b")
		w.left(append(names[:1:1], names[2:]...)...)
		if s := r.Stats(); s.BrakeEngaged > 0 || s.TornDown != 1 {
			w.t.Errorf("the brake engaged %d times, %d were torn down", s.BrakeEngaged, s.TornDown)
		}
		natstest.Eventually(w.t, "nothing is degraded", func() bool { return len(r.Stats().Degraded) == 0 })
	})
}

// TestTheBrakeHoldsWhenTheBucketIsMadeAnew while the controller runs, and while it does not, until it is released.
func TestTheBrakeHoldsWhenTheBucketIsMadeAnew(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			onEach(t, func(w *world) {
				const few = 3
				ctx := w.t.Context()
				r := w.lead()
				w.make("a", "b", "c")
				if !running {
					r.halt()
				}
				must(w.t, w.js.DeleteStream(ctx, "KV_sites"))
				w.client(w.js, "Site", "sites") // makes it
				if !running {
					r = w.lead()
				}
				natstest.Eventually(w.t, "the brake holds all", func() bool {
					b := r.Stats().Brake
					return b.Engaged && b.Held == few
				})
				w.make("d") // others go on
				w.left("a", "b", "c", "d")
				must(w.t, r.ReleaseBrake(ctx))
				w.tornDown("a", "b", "c")
				w.left("d")
			})
		})
	}
}

// TestAnAcknowledgedDocumentOutlivesAKill right after the acknowledgement, and is reconciled.
func TestAnAcknowledgedDocumentOutlivesAKill(t *testing.T) {
	onEach(t, func(w *world) {
		w.lead()
		for _, name := range []string{"a", "b", "c"} {
			s := &site{ObjectMeta: metav1.ObjectMeta{Name: name}}
			must(w.t, w.sites.Create(w.t.Context(), s))
			w.server.kill()
			w.server.start()
			natstest.Eventually(w.t, "the user is connected", w.js.Conn().IsConnected)
			w.reconciled(s)
		}
		w.left("a", "b", "c")
	})
}
