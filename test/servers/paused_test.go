//go:build unix

package servers

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
)

// paused are the keys of the member that is stopped, by what it does at each as it is stopped.
type paused struct {
	// Reconciles that have read, and are about to write.
	changed   string // shelves that its next owner changes
	unchanged string // shelves that its next owner finds as they are to be
	pruned    string // a shop without shelves, until it has them again
	gone      string // a shop that is deleted, until it is there again
	// Writes of records that it is about to send.
	before  string // last written before the slot came to it, and by its next owner not at all
	written string // last written by itself, and then by its next owner
	lands   string // last written by itself, and by its next owner not at all
	// What waits for a worker.
	queued []string
}

func (p *paused) held() []string { return []string{p.changed, p.unchanged, p.pruned, p.gone} }
func (p *paused) kept() []string { return []string{p.before, p.written, p.lands} }

// TestAPausedProcessCanDoNoMoreThanIsSaid, in real time: SIGSTOP stops a member for twice as long as its lease lasts, with
// reconciles and writes of records under way. What it still does is what docs/scaling.md says of a paused process.
func TestAPausedProcessCanDoNoMoreThanIsSaid(t *testing.T) {
	t.Parallel()
	p := newProcess(t, version{server.VERSION, "current", true}, "-js", "-sd", t.TempDir())
	f := newFleet(t, []*process{p}, memberConfig{Replicas: 1, Lease: shortLease})
	a, b := f.start("a"), f.start("b")
	f.share(a, b)
	keys := f.fill(90)
	c := f.start("c")
	f.share(a, b, c)
	mine := f.keysOf("c", keys)
	if len(mine) < 12 {
		t.Fatalf("it has the keys %q", mine)
	}
	at := &paused{mine[0], mine[1], mine[2], mine[3], mine[4], mine[5], mine[6], mine[7:]}
	before := f.owners()
	f.beginAt(at, c)
	c.signal(syscall.SIGSTOP)
	stopped := time.Now()
	f.changeAt(at)
	time.Sleep(2 * shortLease.Duration)
	f.tookOver(at, before, stopped, a, b)

	done := c.send("go")
	resumed := time.Now()
	c.signal(syscall.SIGCONT)
	done()
	f.didNoMore(at, resumed)
	took := f.share(a, b, c)
	t.Logf("it has slots again %v after it went on, %v after that was seen", time.Since(resumed), took)
	f.text("four", keys...)
	f.reconciled(keys...)
	f.share(a, b, c)
	for _, key := range keys {
		f.texts(key, "four")
	}
	attempts := f.attempts(func(a attempt) bool { return a.member == "c" && slices.Contains(at.held(), a.key) })
	f.judge(attempts)
	f.judgePaused(at, attempts, stopped, resumed)
}

// beginAt has c begin all that is under way when it is stopped.
func (f *fleet) beginAt(at *paused, c *member) {
	f.Helper()
	f.text("late one", at.unchanged)
	f.text("two", at.written, at.lands)
	f.reconciled(at.unchanged, at.written, at.lands)
	c.do("hold", at.held()...)
	c.do("keep", at.kept()...)
	f.text("late two", at.changed)
	c.do("enqueue", at.unchanged)
	must(f.T, f.shops.Patch(f.Context(), at.pruned, []byte(`{"spec":{"shelves":[]}}`)))
	must(f.T, f.shops.Delete(f.Context(), at.gone))
	for _, key := range at.held() {
		c.says("held " + key)
	}
	c.do("mark", at.before)
	c.says("kept " + at.before)
	f.text("", at.written)
	c.says("kept " + at.written)
	c.do("mark", at.lands)
	c.says("kept " + at.lands)
	f.text("three", at.queued...)
}

// changeAt makes again what c is about to delete.
func (f *fleet) changeAt(at *paused) {
	f.Helper()
	again := shopOf(at.pruned)
	must(f.T, f.shops.Patch(f.Context(), at.pruned,
		[]byte(`{"spec":{"shelves":["`+strings.Join(again.Spec.Shelves, `","`)+`"]}}`)))
	must(f.T, f.shops.Create(f.Context(), shopOf(at.gone)))
}

// tookOver fails unless a and b have taken all slots of c in time, and work at its keys.
func (f *fleet) tookOver(at *paused, before map[int]string, stopped time.Time, a, b *member) {
	f.Helper()
	f.share(a, b)
	for _, m := range f.messages(slotKey) {
		if took := m.at.Sub(stopped); took > shortLease.Duration+2*time.Second {
			f.Errorf("slot %d came to %s after %v", slotOf(m), ownerIn(m), took)
		}
		if nameOf(before[slotOf(m)]) == "c" && m.at.After(stopped) && m.at.Sub(stopped) < time.Second {
			f.Errorf("slot %d of a member that has its lease came to %s", slotOf(m), ownerIn(m))
		}
	}
	f.reconciled(at.changed, at.unchanged, at.pruned, at.gone, at.written)
	f.reconciled(at.queued...)
}

// didNoMore fails unless what c sends of records, now that it goes on, is stored where it had written last, and nowhere
// else.
func (f *fleet) didNoMore(at *paused, resumed time.Time) {
	f.Helper()
	natstest.Eventually(f, "the record is stored that c alone had written", func() bool {
		last := f.record(at.lands)
		return last.writer == "c" && last.at.After(resumed)
	})
	natstest.Eventually(f, "c is a member again, under another id", func() bool { return len(f.joined("c", resumed)) > 0 })
	for _, key := range []string{at.before, at.written} { // it had sent them before the one that is stored
		if len(f.sent("$KV.shops-status."+key, "c", resumed)) == 0 {
			f.Errorf("c has sent no record of %s", key)
		}
		for _, m := range f.written(key) {
			if m.writer == "c" && m.at.After(resumed) {
				f.Errorf("the record of %s is of c, which had lost its slot", key)
			}
		}
	}
}

// joined are the keys that a member wrote of itself after a time.
func (f *fleet) joined(name string, after time.Time) []message {
	return slices.DeleteFunc(f.messages(memberKey+name+"-"), func(m message) bool {
		return m.at.Before(after) || m.value == nil
	})
}

// written are the writes of a record.
func (f *fleet) written(key string) []message {
	return slices.DeleteFunc(f.messages(key), func(m message) bool { return m.key != key })
}

// record is the last write of a record.
func (f *fleet) record(key string) message {
	all := f.written(key)
	return all[len(all)-1]
}

// judgePaused looks at what c began, wrote and deleted after it had gone on.
func (f *fleet) judgePaused(at *paused, all []*attempt, stopped, resumed time.Time) {
	f.Helper()
	again := f.joined("c", resumed)[0].at
	late := map[string][]string{}
	for _, a := range all {
		switch {
		case a.member != "c":
		case a.begin.After(stopped) && a.begin.Before(again):
			f.Errorf("c began with %s %v after it went on, and joined again after %v", a.key, a.begin.Sub(resumed),
				again.Sub(resumed))
		case a.begin.Before(stopped) && a.end.After(resumed):
			late[a.key] = append(late[a.key], a.late...)
		}
	}
	ended := strings.ReplaceAll(shards.ErrLeaseOver.Error(), " ", "_")
	for key, want := range map[string][]string{
		at.changed: {"conflict", "conflict", ended}, at.unchanged: {"written", "written", ended},
		at.pruned: nil, at.gone: nil, // after them the engine would delete
	} {
		if got := late[key]; !slices.Equal(got, want) {
			f.Errorf("what came of its reconcile of %s: %q, want %q", key, got, want)
		}
	}
	if deletes := f.sent("$KV.shelves.", "", stopped); len(deletes) > 0 {
		f.Errorf("shelves are deleted, which are wanted: %+v", deletes)
	}
}
