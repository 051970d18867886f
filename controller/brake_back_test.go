package controller

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPredicatesDoNotHideFromTheBrakeWhatCameBack: a key that a predicate keeps from the queue is no longer held
// either.
func TestPredicatesDoNotHideFromTheBrakeWhatCameBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		m := newWorld(t).filled(WithPrimary(WithPredicate(PredicateFuncs{CreateFunc: func(metav1.Object) bool {
			return !armed.Load()
		}})))
		m.emptied("sites")
		m.holds(many)
		armed.Store(true)
		m.make(m.sites, many)
		natstest.Eventually(t, "the brake is off", func() bool { return !m.c.Stats().Brake.Engaged })
		if n := count(t, m.pages); n != many || m.c.Stats().TornDown != 0 {
			t.Errorf("%d pages, %d torn down", n, m.c.Stats().TornDown)
		}
	})
}

// TestATeardownThatNoEventTellsOfIsFoundByTheSweep: the record did not decode when the controller began, and was mended
// later.
func TestATeardownThatNoEventTellsOfIsFoundByTheSweep(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		w.put("sites-status", "ghost", `{"controller":`)
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it has swept", func() bool { return c.Stats().Sweeps > 2 })
		mended, err := json.Marshal(entity.Record{SchemaVersion: 1, Controller: "sites"})
		must(t, err)
		w.put("sites-status", "ghost", string(mended))
		natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 1 })
		if seen.with("ghost", OperationDelete) != 1 {
			t.Errorf("reconciled for %v, want one delete", seen.of("ghost"))
		}
	})
}
