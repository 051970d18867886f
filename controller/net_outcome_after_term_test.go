package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestAReconcileCutShortByTheLossOfTheLeaseRecordsNoFailure: it fails because its context was cancelled. That is no
// fault of the primary, and the next leader writes the record.
func TestAReconcileCutShortByTheLossOfTheLeaseRecordsNoFailure(t *testing.T) {
	for name, failure := range map[string]func(error) error{
		"an error":         func(err error) error { return err },
		"a terminal error": TerminalError, // which does not park the key either
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) { cutShort(t, failure) })
		})
	}
}

func cutShort(t *testing.T, failure func(error) error) {
	w := newWorld(t)
	sites := w.sites()
	home := newStubborn(t)
	home.free()
	c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if _, err := home.reconcile(ctx, req); err != nil {
			return Result{}, err
		}
		return Result{}, failure(ctx.Err())
	}), slowRenewal)
	must(t, err)
	w.run(c)
	sent := w.sent("home")
	must(t, sites.Create(t.Context(), newSite("home", "")))
	receive(t, "it is being reconciled", home.begun)
	w.leaseTo("another", 5*time.Minute)
	<-home.ended
	natstest.Eventually(t, "it has given up", func() bool {
		s := c.Stats()
		return !s.Leading && s.Running == 0 && s.Reconciles == 1
	})
	w.leaseTo("", time.Second)
	eventuallyReason(t, sites, "home", entity.ReasonSynced)
	for _, m := range sent() {
		if strings.Contains(string(m.Data), entity.ReasonRetrying) {
			t.Errorf("a failure was recorded: %s", m.Data)
		}
	}
}

// TestAReconcileThatEndsAfterItsTermDoesNotWriteOverItsSuccessor: it ignores the end of its context and succeeds,
// with a revision that is old by now. The record that the next leader wrote meanwhile stays as it is.
func TestAReconcileThatEndsAfterItsTermDoesNotWriteOverItsSuccessor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites := w.sites()
		home := newStubborn(t)
		first, err := New("sites", sites, ReconcilerFunc(home.reconcile), slowRenewal)
		must(t, err)
		r := w.run(first)
		natstest.Eventually(t, "the first leads", func() bool { return first.Stats().Leading })
		must(t, sites.Create(ctx, newSite("home", "")))
		receive(t, "it is being reconciled", home.begun)
		w.leaseTo("another", 5*time.Minute)
		<-home.ended

		theirs := w.away().sites()
		second, err := New("sites", theirs, (&calls{}).reconciler(nil), slowRenewal)
		must(t, err)
		w.run(second)
		must(t, theirs.Patch(ctx, "home", []byte(`{"spec":{"pages":2}}`)))
		w.leaseTo("", time.Second)
		newer, err := theirs.Get(ctx, "home")
		must(t, err)
		natstest.Eventually(t, "the second has reconciled what is newer", func() bool {
			record, err := theirs.Record(ctx, "home")
			return err == nil && int64(record.ObservedRevision) == newer.Generation
		})
		before, err := theirs.Record(ctx, "home")
		must(t, err)
		home.free()
		r.halt() // it waits for what the first still writes
		after, err := theirs.Record(ctx, "home")
		must(t, err)
		if after.Revision != before.Revision {
			t.Errorf("the record at revision %d was written over: it observed %d and now %d, %v",
				before.Revision, before.ObservedRevision, after.ObservedRevision, after.Conditions)
		}
	})
}
