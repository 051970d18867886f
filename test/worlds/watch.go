package worlds

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go/jetstream"
)

// watchLease keeps who holds the lease. While it cannot be watched that is not known.
func (w *world) watchLease(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.watchOneLease(ctx); err != nil && ctx.Err() == nil {
			w.note("world", "watching the lease: %v", err)
		}
		w.holds(tenure{})
		sleep(ctx, 500*time.Millisecond)
	}
}

func (w *world) watchOneLease(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := w.js.Stream(ctx, "KV_"+w.subject.status())
	if err != nil {
		return err
	}
	created := s.CachedInfo().Created
	kv, err := w.js.KeyValue(ctx, w.subject.status())
	if err != nil {
		return err
	}
	watch, err := kv.Watch(ctx, leaseKey)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var seen, missed uint64 // revisions
	written := false        // what was there before says who held the lease in whatever backup it is from
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-watch.Updates():
			switch {
			case !ok:
				return nil
			case e == nil:
				written = true
				continue
			}
			if seen = e.Revision(); written { // a holder whose lease is deleted believes in it until it renews it
				w.holds(tenure{e.Created(), holderOf(e.Value()), e.Operation() == jetstream.KeyValuePut})
			}
		case <-tick.C: // a stream that was made anew ends a watch of KV without a word
			info, err := w.js.Stream(ctx, "KV_"+w.subject.status())
			if err != nil {
				return err
			}
			now, err := kv.Get(ctx, leaseKey)
			if err == nil && now.Revision() != seen && now.Revision() == missed {
				return nil // a stream that came back from a backup, as old as the one that was watched
			}
			if missed = 0; err == nil {
				missed = now.Revision()
			}
			if !info.CachedInfo().Created.Equal(created) {
				return nil
			}
		}
	}
}

func (w *world) holds(t tenure) {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.holder); n > 0 {
		if last := w.holder[n-1]; last.identity == t.identity && last.known == t.known {
			return
		}
		if !w.holder[n-1].known { // since when is not known, only that it is so now
			t.since = time.Now()
		}
	}
	w.holder = append(w.holder, t)
}

// standstill is a key whose record does not follow its document.
type standstill struct {
	document, record uint64
	silent           time.Duration // without a word of why
	told             bool
}

// watchKeys is the rule that a standstill shows.
func (w *world) watchKeys(ctx context.Context) {
	still := map[string]*standstill{}
	last := map[string]Document{}
	for ctx.Err() == nil {
		each := 2 * time.Second
		if w.quiet.Load() {
			each = 6 * time.Second // a look is most of the cost of a quiet world
		}
		sleep(ctx, each)
		reading, cancel := context.WithTimeout(ctx, 5*time.Second)
		s, err := w.documentsAndRecords(reading)
		cancel()
		if err != nil {
			clear(still)
			continue
		}
		degraded, leader := w.degraded(), w.leader()
		for _, key := range w.keys() {
			doc, there := s.Primaries[key]
			rec, recorded := s.Records[key]
			r := recordOf(rec)
			w.holdOrder(key, last[key], rec)
			last[key] = rec
			if !there && !recorded || there && r.ObservedRevision == doc.Revision {
				delete(still, key)
				continue
			}
			st := still[key]
			if st == nil || st.document != doc.Revision || st.record != rec.Revision {
				still[key] = &standstill{document: doc.Revision, record: rec.Revision}
				continue
			}
			says, why := w.explains(w.worksAt(key, leader), key)
			if len(degraded) > 0 || why || isFailing(r) {
				st.silent = 0
				continue
			}
			if st.silent += each; st.silent > w.longestSilence(leader) && !st.told {
				st.told = true
				w.breaks(Told, "%s stands still for %v without a word: document %d, record %d, observed %d: %s",
					key, st.silent, doc.Revision, rec.Revision, r.ObservedRevision, says)
			}
		}
	}
}

// holdOrder holds that what a record has observed does not go back, unless records were restored.
func (w *world) holdOrder(key string, before, now Document) {
	was, is := recordOf(before), recordOf(now)
	if w.plan.Has(losses...) {
		return // a restored stream may have the name of the one before
	}
	if now.Revision > before.Revision && was.Stream == is.Stream && is.ObservedRevision < was.ObservedRevision &&
		is.ObservedRevision > 0 {
		w.breaks(InOrder, "the record of %s has observed %d, and then %d", key, was.ObservedRevision, is.ObservedRevision)
	}
}

// longestSilence is how long a standstill may go without a word. What no message told of is found by comparing.
func (w *world) longestSilence(leader *Process) time.Duration {
	limit := 20 * time.Second
	if leader == nil {
		limit = 45 * time.Second
	}
	if w.plan.Has(lostNews, vanishDoc, vanishedRec) {
		return w.plan.Compare*11/10 + 30*time.Second
	}
	return limit
}

func recordOf(d Document) (r entity.Record) {
	_ = json.Unmarshal(d.Value, &r)
	return r
}

func isFailing(r entity.Record) bool {
	switch r.Phase() {
	case entity.PhaseRetrying, entity.PhaseInvalid, entity.PhaseTerminal, entity.PhaseDeleting:
		return true
	}
	return false
}

// worksAt is the replica that works at a key, where all share the keys: else the one that leads, which may be nil.
func (w *world) worksAt(key string, leader *Process) *Process {
	if w.plan.Shards == 0 {
		return leader
	}
	for _, p := range w.living() {
		if p.c.Explain(key).Leading {
			return p
		}
	}
	return leader
}

// explains is what the replica says of a key that works at it, and whether that is a reason for a standstill.
func (w *world) explains(leader *Process, key string) (says string, why bool) {
	if leader == nil {
		says = "no replica leads"
		for _, p := range w.living() {
			says += fmt.Sprintf("; %s: %s", p.Name, p.c.Explain(key).Says)
		}
		return says, false
	}
	e := leader.c.Explain(key)
	switch e.State {
	case controller.StateCalm, controller.StateUnreconciled, controller.StateUnknown:
		return string(e.State) + ": " + e.Says, false // also where news is missing: Degraded has to say so
	}
	return string(e.State) + ": " + e.Says, true
}

// degraded is what the replicas say does not work.
func (w *world) degraded() (all []string) {
	for _, p := range w.living() {
		for name, err := range p.c.Stats().Degraded {
			all = append(all, p.Name+" "+name+": "+err.Error())
		}
	}
	return all
}

// holdSettled is what holds in the quiet.
func (w *world) holdSettled(when string) {
	var s Snapshot
	w.patiently("a look at all", func(ctx context.Context) (err error) {
		s, err = w.snapshot(ctx)
		return err
	})
	leader := w.leader()
	for key, doc := range s.Primaries {
		r := recordOf(s.Records[key])
		worker := w.worksAt(key, leader)
		says, why := w.explains(worker, key)
		for range 5 {
			if !why {
				break
			}
			sleep(context.Background(), time.Second) // the turn of a resync ends
			says, why = w.explains(worker, key)
		}
		if r.ObservedRevision != doc.Revision {
			w.breaks(Settled, "%s: %s at %d is observed at %d: %s", when, key, doc.Revision, r.ObservedRevision, says)
		} else if why || worker != nil && len(worker.c.Explain(key).Missing) > 0 {
			w.breaks(Well, "%s: %s is reconciled, and Explain says: %s", when, key, says)
		}
	}
	wrong, left := w.subject.Agrees(s)
	if (leader == nil || len(left) > leader.c.Stats().NeverWas) && w.wasSwept() {
		wrong = append(wrong, left...)
	}
	for _, says := range wrong {
		w.breaks(Settled, "%s: %s", when, says)
	}
	leads := 0
	for _, p := range w.living() {
		if p.c.Stats().Leading {
			leads++
		}
	}
	if leads != 1 {
		w.breaks(OneLeader, "%s: %d replicas lead", when, leads)
	}
	for _, says := range w.degraded() {
		if time.Since(w.calm) < denials.Forgotten && strings.Contains(says, "the user may not write") {
			continue // nothing was written since that would show that the right is back
		}
		if w.plan.Has(losses...) && strings.Contains(says, " restore (bucket") {
			continue // it stays until an operator has looked at what is left
		}
		w.breaks(Well, "%s: degraded: %s", when, says)
	}
}

// onlySwept are the deeds after which nothing but a sweep may find what is left of owners that are gone: a record goes
// while the teardown is owed, or what was owned comes back after it. Where documents go, their records tell of them.
var onlySwept = []deed{noRecord, vanishedRec, backupRecords, noRecords, empty, backup, sealed}

// wasSwept reports whether sweeps, which come as often as the resync, have had the time to find what only they do.
func (w *world) wasSwept() bool {
	return !w.plan.Has(onlySwept...) || time.Since(w.calm) > w.plan.Resync*11/10
}

// holdGone is that records go with their documents.
func (w *world) holdGone() {
	var s Snapshot
	w.patiently("a look at all", func(ctx context.Context) (err error) {
		s, err = w.snapshot(ctx)
		return err
	})
	leader := w.leader()
	if leader != nil {
		w.holdForgotten(leader)
	}
	for _, p := range w.living() {
		if w.plan.Shards > 0 && p != leader {
			w.holdForgotten(p)
		}
	}
	for key, rec := range s.Records {
		if _, there := s.Primaries[key]; !there && !strings.HasPrefix(key, "_nagi") {
			says, _ := w.explains(leader, key)
			w.breaks(NothingLeft, "the record of %s, which is gone: %s: %.500s", key, says, rec.Value)
		}
	}
}

// holdForgotten is that the leader remembers nothing of keys, but for moments. Others remember what they will do when they
// lead.
func (w *world) holdForgotten(leader *Process) {
	for range 20 {
		if leader.c.Stats().Remembered == 0 {
			return
		}
		sleep(context.Background(), 700*time.Millisecond)
	}
	what := ""
	for e := range leader.c.Keys() {
		rests := e.State == controller.StateCalm || e.State == controller.StateElsewhere && e.DueAt.IsZero()
		if !rests || e.NotOK() || e.AwaitsWrites || e.Looping { // a calm key may have failed before
			all, _ := json.Marshal(e)
			what += fmt.Sprintf("; %s", all)
		}
	}
	w.breaks(NothingLeft, "%s remembers something of %d keys%s", leader.Name, leader.c.Stats().Remembered, what)
}
