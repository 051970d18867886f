package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// member is a replica that shares the keys with others.
func (w *world) member(name string, opts ...controller.Option) *replica {
	w.Helper()
	s := w.service()
	opts = append(opts, controller.WithShards(16), controller.WithMember(name, 1))
	return w.runs(s, w.controller("sites", s, sitesConfig, opts...))
}

// TestTheMemberThatHasAKeyAnswers what is asked about it, and the one that leads the rest, for all.
func TestTheMemberThatHasAKeyAnswers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		members := map[string]*replica{}
		for _, name := range []string{"a", "b", "c"} {
			members[name] = w.member(name)
		}
		w.answers("nagi.sites.read.stats")
		const n = 20
		for i := range n {
			w.put("sites", fmt.Sprintf("shop.s%02d", i), `{}`)
		}
		time.Sleep(30 * time.Second)
		admin, by := w.js.Conn(), map[string]int{}
		for i := range n {
			key := fmt.Sprintf("shop/s%02d", i)
			body := fmt.Sprintf(`{"key":%q}`, key)
			e := ask[controller.Explanation](w, admin, "nagi.sites.read.explain", body)
			m := members[e.Member]
			if !e.Leading || e.State != controller.StateCalm || m == nil {
				t.Fatalf("%+v", e)
			}
			if told := ask[controller.Explanation](w, admin, "nagi.sites.read.explain.shop", body); told.Member != "" {
				t.Errorf("who may ask about one namespace is told %+v", told)
			}
			by[e.Member]++
			before := m.count(key, controller.OperationManual)
			ask[Done](w, admin, "nagi.sites.act.reconcile", body)
			time.Sleep(100 * time.Millisecond)
			if got := m.count(key, controller.OperationManual) - before; got != 1 {
				t.Errorf("%s reconciled %s %d times", e.Member, key, got)
			}
		}
		if len(by) != 3 {
			t.Errorf("answered by %v", by)
		}
		if all := ask[Keys](w, admin, "nagi.sites.read.keys", ""); len(all.Keys) != n {
			t.Errorf("%d keys are listed", len(all.Keys))
		}
		if not := ask[Keys](w, admin, "nagi.sites.read.notok", ""); len(not.Keys) != 0 {
			t.Errorf("not well are %+v", not.Keys)
		}
		time.Sleep(5 * time.Second) // what they say of their work goes along with their leases
		before := ask[Stats](w, admin, "nagi.sites.read.stats", "")
		if s := before.Shards; s == nil || len(s.Members) != 3 || before.Workers != 3 || s.Unowned+s.Moving > 0 {
			t.Fatalf("stats are %+v", before)
		}
		if got := ask[Resynced](w, admin, "nagi.sites.act.resync", ""); got.Count != n {
			t.Errorf("a resync of %d keys", got.Count)
		}
		time.Sleep(5 * time.Second)
		after := ask[Stats](w, admin, "nagi.sites.read.stats", "")
		if after.Reconciles != before.Reconciles+n {
			t.Errorf("a resync of %d keys came to %d reconciles", n, after.Reconciles-before.Reconciles)
		}
	})
}

// TestTheLeaderAnswersAboutAKeyWhoseMemberIsCutOff, in time for a caller that waits five seconds.
func TestTheLeaderAnswersAboutAKeyWhoseMemberIsCutOff(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		near := w.member("near", controller.WithLeaseTiming(defaultLease))
		w.answers("nagi.sites.read.stats") // it leads
		far, wire := w.far(controller.WithShards(16), controller.WithMember("far", 1))
		for i := range 20 {
			w.put("sites", fmt.Sprintf("shop.s%02d", i), `{}`)
		}
		time.Sleep(30 * time.Second)
		key := ""
		for i := 0; key == ""; i++ {
			if k := fmt.Sprintf("shop/s%02d", i); far.Explain(k).Leading {
				key = k
			}
		}
		wire.Blackhole()
		defer wire.Refuse() // so that the service behind it can stop
		e := ask[controller.Explanation](w, w.js.Conn(), "nagi.sites.read.explain", fmt.Sprintf(`{"key":%q}`, key))
		if e.Leading || e.State != controller.StateElsewhere || e.Member != "far" {
			t.Errorf("%+v", e)
		}
		natstest.Eventually(w, "the other has it", func() bool { return near.Explain(key).Leading })
	})
}
