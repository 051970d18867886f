package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// play starts two replicas and lets users work, until all of the plan has happened and a round more is over. Then the
// world must agree with the primaries, and the history must break no rule. The first site is there before the replicas,
// who find it in their first list.
func (w *world) play() {
	w.t.Helper()
	first := w.put("s0", "new in 0")
	w.start()
	w.start()
	for round, idle, before := 0, 0, -1; ; round++ {
		c, left := w.director.next()
		goesOn := w.director.pausesOne() || w.director.lasts()
		if idle++; goesOn || left != before {
			idle = 0
		}
		if left == 0 && idle > 0 {
			break
		}
		if idle > mostRounds {
			w.t.Fatalf("it does not happen: %s", c)
		}
		if goesOn {
			time.Sleep(300 * time.Millisecond) // users rest, too
		}
		before = left
		if round > 0 {
			w.provoke(c.step, left)
			first = w.put(fmt.Sprint("s", round), fmt.Sprint("new in ", round))
		}
		w.round(round, first)
	}
	w.agree()
	w.handOver()
	w.agree()
	w.judge()
}

// handOver stops the replica that leads. What the faults did to the other one must not keep it from taking over.
func (w *world) handOver() {
	w.t.Helper()
	var leads *replica
	w.eventually("one leads", func() bool {
		leads = w.leader()
		return leads != nil
	})
	leads.stop()
	within(w.t, leads.name+" stops", leads.done)
	w.reconciled("stays", w.put("stays", "handed over"))
}

// mostRounds is how many rounds a fault may not happen.
const mostRounds = 6

// round is the life of a site after its first put: each step of a reconcile and of a teardown.
func (w *world) round(n int, first uint64) {
	w.t.Helper()
	key := fmt.Sprint("s", n)
	w.reconciled(key, first)
	w.reconciled(key, w.put(key, fmt.Sprint("updated in ", n)))
	must(w.t, w.sites.Delete(w.t.Context(), key))
	w.eventually("the teardown of "+key+" is over", func() bool {
		_, recorded := w.history.get(statusBucket, key)
		return !recorded && len(w.history.keys(pagesBucket, key+".")) == 0
	})
	w.reconciled("stays", w.put("stays", fmt.Sprint("round ", n)))
	w.director.roundOver()
}

// provoke does what leads to a step that no primary's life has.
func (w *world) provoke(s step, left int) {
	w.t.Helper()
	ctx := w.t.Context()
	switch s {
	case claimed, installed:
		kv, err := w.js.KeyValue(ctx, statusBucket)
		must(w.t, err)
		key := map[step]string{claimed: claimKey, installed: instanceKey}[s]
		must(w.t, kv.Delete(ctx, key)) // by a mistake
	case leaseTaken, leaseGivenBack, streamKept:
		w.stopLeader()
	case leaseRenewed:
		w.eventually("the lease is renewed", func() bool {
			_, now := w.director.next()
			return now < left || w.director.lasts() || w.director.pausesOne() // which may be of the one that would renew
		})
	}
}

// put writes a site, and returns its revision.
func (w *world) put(key, title string) uint64 {
	w.t.Helper()
	s, err := w.sites.Get(w.t.Context(), key)
	if err != nil {
		s = &site{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: siteSpec{Title: title}}
		must(w.t, w.sites.Create(w.t.Context(), s))
	} else {
		s.Spec.Title = title
		must(w.t, w.sites.Update(w.t.Context(), s))
	}
	revision, err := strconv.ParseUint(s.ResourceVersion, 10, 64)
	must(w.t, err)
	return revision
}

func (w *world) reconciled(key string, revision uint64) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s is reconciled at %d", key, revision), func() bool {
		record, ok := w.history.get(statusBucket, key)
		return ok && parseRecord(record.value).synced(revision)
	})
}

// agree waits until pages and records are as the sites say, and nothing is degraded. It reads live.
func (w *world) agree() {
	w.t.Helper()
	difference := ""
	defer func() {
		if difference != "" {
			w.t.Logf("last difference: %s", difference)
		}
	}()
	w.eventually("the world agrees with the primaries", func() bool {
		difference = w.difference()
		return difference == ""
	})
	difference = ""
}

func (w *world) difference() string {
	ctx := w.t.Context()
	sites, err := w.sites.List(ctx)
	if err != nil {
		return err.Error()
	}
	pages, err := w.pages.List(ctx)
	if err != nil {
		return err.Error()
	}
	var want, have, keys []string
	for _, s := range sites {
		keys = append(keys, s.Name)
		for i := range pagesOfSite {
			want = append(want, pageName(s.Name, i)+" "+s.Spec.Title)
		}
		record, err := w.sites.Record(ctx, s.Name)
		if err != nil || strconv.FormatUint(record.ObservedRevision, 10) != s.ResourceVersion ||
			s.Status.Note != s.Spec.Title {
			return fmt.Sprintf("site %+v, record %+v, %v", s, record, err)
		}
	}
	for _, p := range pages {
		have = append(have, p.Name+" "+p.Spec.Title)
	}
	slices.Sort(keys)
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		return fmt.Sprintf("want the pages %q, have %q", want, have)
	}
	records := slices.DeleteFunc(w.history.keys(statusBucket, ""), func(key string) bool {
		return strings.HasPrefix(key, reservedPrefix)
	})
	if !slices.Equal(records, keys) {
		return fmt.Sprintf("want records of %q, have %q", keys, records)
	}
	for _, key := range []string{claimKey, instanceKey, leaseKey} {
		if _, ok := w.history.get(statusBucket, key); !ok {
			return key + " is missing"
		}
	}
	if degraded := w.degraded(); len(degraded) > 0 || w.leader() == nil {
		return fmt.Sprintf("degraded: %q, one leads: %v", degraded, w.leader() != nil)
	}
	return ""
}

// judge asks the oracle.
func (w *world) judge() {
	w.t.Helper()
	events := w.history.whole(w.t, w.js)
	for _, rule := range broken(events, patience) {
		w.t.Error(rule)
	}
	if w.t.Failed() || os.Getenv("STORY") != "" {
		w.t.Logf("history:\n%s", story(events))
	}
}
