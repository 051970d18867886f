package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestARevisionOfAnotherStreamIsNotObserved: after the bucket was made anew its revisions begin at 1 again. Before the
// first reconcile succeeds, the record must not call an old and higher revision observed: who waits for a revision of
// the new stream would be told that it was reconciled.
func TestARevisionOfAnotherStreamIsNotObserved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(ctx, newSite("home", "")))
		for i := range 10 {
			must(t, sites.Patch(ctx, "home", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, i+1)))
		}
		var old *entity.Record
		natstest.Eventually(t, "the last revision is reconciled", func() bool {
			old, err = sites.Record(ctx, "home")
			return err == nil && old.ObservedRevision == 11
		})
		r.halt()

		must(t, w.js.DeleteStream(ctx, "KV_sites"))
		fresh := w.away().sites()
		must(t, fresh.Create(ctx, newSite("home", "")))
		var fails atomic.Bool
		fails.Store(true)
		c, err = New("sites", fresh, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			if fails.Load() {
				return Result{}, errors.New("not yet")
			}
			return Result{}, nil
		}), WithBackoff(time.Millisecond, 50*time.Millisecond))
		must(t, err)
		w.run(c)
		eventuallyReason(t, fresh, "home", entity.ReasonRetrying)
		record, err := fresh.Record(ctx, "home")
		must(t, err)
		if record.Stream == old.Stream || record.ObservedRevision != 0 {
			t.Errorf("observed is revision %d, want none; the stream was %q and is %q",
				record.ObservedRevision, old.Stream, record.Stream)
		}
		fails.Store(false)
		eventuallyReason(t, fresh, "home", entity.ReasonSynced)
		if record, err = fresh.Record(ctx, "home"); err != nil || record.ObservedRevision != 1 {
			t.Errorf("observed is revision %d, want 1: %v", record.ObservedRevision, err)
		}
	})
}

// TestAnOutcomeKeepsTheConditionsOfOthers that were written while the reconcile ran.
func TestAnOutcomeKeepsTheConditionsOfOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, others := w.sites(), w.away().sites()
		var once sync.Once
		c, err := New("sites", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			once.Do(func() {
				record, err := others.Records().Get(t.Context(), "home")
				must(t, err)
				meta.SetStatusCondition(&record.Conditions, metav1.Condition{
					Type: "Audited", Status: metav1.ConditionTrue, Reason: "ByHand", Message: "looks good",
				})
				must(t, others.Records().Put(t.Context(), "home", record))
			})
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		record, err := sites.Record(t.Context(), "home")
		must(t, err)
		if !meta.IsStatusConditionTrue(record.Conditions, "Audited") {
			t.Errorf("conditions are %v, want Audited too", record.Conditions)
		}
	})
}

// TestALostAnchorIsRestoredOnceItCanBeWritten: somebody deletes the record of a suspended primary while the server
// refuses the one that is to replace it. Without an anchor its delete would be lost.
func TestALostAnchorIsRestoredOnceItCanBeWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithBackoff(5*time.Millisecond, 50*time.Millisecond))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", strings.Repeat("x", 8000))))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		must(t, sites.Patch(ctx, "home", []byte(`{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)))
		eventuallyReason(t, sites, "home", entity.ReasonSuspended)

		w.limitMessages("sites-status", 4000)
		must(t, w.kv("sites-status").Delete(ctx, "home"))
		natstest.Eventually(t, "the record cannot be written", func() bool { return c.Stats().RecordErrors > 2 })
		w.limitMessages("sites-status", -1)
		natstest.Eventually(t, "the anchor is there again", func() bool {
			record, err := sites.Record(ctx, "home")
			return err == nil && record.Anchor() && len(record.LastDocument) > 8000
		})
		eventuallyReason(t, sites, "home", entity.ReasonSuspended)
	})
}
