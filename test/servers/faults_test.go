package servers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
			eventually(w.t, "the user is connected", w.js.Conn().IsConnected)
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
		eventually(w.t, "nothing is degraded", func() bool { return len(r.Stats().Degraded) == 0 })
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
				eventually(w.t, "the brake holds all", func() bool {
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

// TestAReconcileSurvivesTheServer: a document that is written right before a SIGKILL is reconciled, or was never
// stored; what the controller knew of it is not torn down by mistake.
func TestADocumentWrittenBeforeAKillIsReconciledOrWasNeverStored(t *testing.T) {
	onEach(t, func(w *world) {
		r := w.lead()
		w.make("before")
		for i := range 3 {
			name := fmt.Sprint("s", i)
			must(w.t, w.sites.Create(w.t.Context(), &site{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			w.server.kill()
			w.server.start()
			ctx, cancel := context.WithTimeout(w.t.Context(), patience)
			s, err := w.sites.Get(ctx, name)
			switch {
			case apierrors.IsNotFound(err):
				w.t.Logf("%s was acknowledged, and is lost by the server", name)
			case err != nil:
				w.t.Error(err)
			default:
				must(w.t, entity.WaitReconciled(ctx, w.sites, name, uint64(s.Generation)))
			}
			cancel()
		}
		s, err := w.sites.Get(w.t.Context(), "before")
		must(w.t, err)
		w.reconciled(s)
		_ = r
	})
}
