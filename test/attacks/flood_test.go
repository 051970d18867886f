package attacks

import (
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// flood is how many keys or revisions an attack writes that tries to drown the controller.
const flood = 2000

// floods are attacks by number, and those with the marks of another installation.
func floods() []attack {
	return []attack{
		{name: "a flood of invalid documents", may: "tenant1 writer operator", do: func(a *attempt) {
			for i := range a.many(flood) {
				a.send(fmt.Sprintf("$KV.sites.ns1.flood%d", i), "", `{"spec":`)
			}
		}, after: func(a *attempt) {
			a.fewLines()
			a.allRecorded("ns1.flood")
			a.fewRecords(3 * flood) // of each key that it is invalid, what may be written twice
		}},
		{name: "a flood of invalid revisions", may: "tenant1 writer operator", do: func(a *attempt) {
			for range a.many(flood) {
				a.send("$KV.sites.ns1.mine", "", `{"spec":`)
			}
		}, after: func(a *attempt) {
			a.fewLines()
			a.fewRecords(flood / 20)
		}},
		{name: "a flood of invalid pages", may: "pagewriter", do: func(a *attempt) {
			for i := range a.many(flood) {
				a.send(fmt.Sprintf("$KV.pages.ns1.flood%d", i), "", `{"spec":`)
			}
		}, after: func(a *attempt) {
			for _, r := range a.replicas { // or nothing is shown
				natstest.Eventually(a.t, "all have come", func() bool { return len(r.pages.Informer().Invalid()) >= flood })
			}
			a.fewLines()
			a.fewRecords(flood / 20)
		}},
		{name: "marks of another installation", may: "pagewriter", do: func(a *attempt) {
			a.deleted("ns1.was")                // of this installation, its marks would have them swept
			for i := range a.many(flood / 10) { // many more than the installation has
				owner := []string{fmt.Sprintf("ns1/s%d", i), "ns1/was"}[i%2]
				a.send(fmt.Sprintf("$KV.pages.ns1.foreign%d", i), "", claiming(owner, "another"))
			}
		}, after: func(a *attempt) {
			if left := len(a.keys("pages", "ns1.foreign")); left != flood/10 {
				a.t.Errorf("%d pages of another installation are left, want all %d", left, flood/10)
			}
			a.restarts()
		}},
		{name: "marks of another installation on a page of ours", may: "pagewriter", do: func(a *attempt) {
			a.send("$KV.pages.ns1.s0", "", claiming("ns1/s0", "another"))
		}, after: func(a *attempt) {
			if page := a.value("pages", "ns1.s0"); page != claiming("ns1/s0", "another") {
				a.t.Errorf("the page of another installation is %q now", page)
			}
			a.restarts()
			a.put("$KV.pages.ns1.s0", "{}") // or no other attack on it would show
		}},
	}
}

// many is how often something is tried: where the server refuses it, a few times will do.
func (a *attempt) many(times int) int {
	if !a.allowed {
		return 3
	}
	return times
}

// deleted has an administrator make a site and delete it, so that its owner is one that was.
func (a *attempt) deleted(key string) {
	a.t.Helper()
	kv, err := a.admin.KeyValue(a.t.Context(), "sites")
	must(a.t, err)
	_, err = kv.PutString(a.t.Context(), key, "{}")
	must(a.t, err)
	must(a.t, kv.Delete(a.t.Context(), key))
}

// note notes how things are before the attack.
func (a *attempt) note() {
	a.began = time.Now()
	a.logged, a.records = len(a.log.String()), a.recordsWritten()
	a.mu.Lock()
	a.calls = len(a.world.calls)
	a.mu.Unlock()
}

func (a *attempt) recordsWritten() uint64 {
	stream, err := a.admin.Stream(a.t.Context(), "KV_sites-status")
	must(a.t, err)
	return stream.CachedInfo().State.LastSeq
}

// nothingOfNS2IsReconciled for a secondary: what somebody of another namespace says is no reason to.
func (a *attempt) nothingOfNS2IsReconciled() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, call := range a.world.calls[a.calls:] {
		if strings.HasPrefix(call.Key, "ns2/") && call.Operations.Has(controller.OperationSecondary) {
			a.t.Errorf("reconciled %q with %v", call.Key, call.Operations)
		}
	}
}

// fewLines checks that both replicas have logged no more lines about keys than the limits allow.
func (a *attempt) fewLines() {
	lines := strings.Count(a.log.String()[a.logged:], "\n")
	seconds := int(time.Since(a.began).Seconds()) + 1
	const sources, others = 2, 50 // pages and sites; what is logged anyway
	most := len(a.replicas) * (sources*(notify.LinesAtOnce+notify.LinesPerSecond*seconds) + others)
	if lines > most {
		a.t.Errorf("%d lines of the log in %d s, want at most %d", lines, seconds, most)
	}
}

// allRecorded waits until the replica that leads has nothing to do, and so has written all records of a flood: they are
// not to count as those of the next attack.
func (a *attempt) allRecorded(prefix string) {
	if !a.allowed {
		return
	}
	most := 0
	for grew := time.Now(); most < flood; time.Sleep(50 * time.Millisecond) {
		if n := a.recorded(prefix); n > most {
			most, grew = n, time.Now()
		}
		if time.Since(grew) > patience {
			a.t.Fatalf("of %d keys that are invalid %d are recorded, and no more within %v", flood, most, patience)
		}
	}
	natstest.Eventually(a.t, "nothing is left to do", func() bool {
		for _, r := range a.replicas {
			if s := r.Stats(); s.Leading {
				return s.Ready == [3]int{} && s.Running == 0
			}
		}
		return false
	})
}

// recorded says how many keys with a prefix have a record. The server counts them, as a list would be slow.
func (a *attempt) recorded(prefix string) int {
	a.t.Helper()
	const bucket = "$KV.sites-status."
	stream, err := a.admin.Stream(a.t.Context(), "KV_sites-status")
	must(a.t, err)
	info, err := stream.Info(a.t.Context(), jetstream.WithSubjectFilter(bucket+">"))
	must(a.t, err)
	n := 0
	for subject := range info.State.Subjects {
		if strings.HasPrefix(subject, bucket+prefix) {
			n++
		}
	}
	return n
}

// fewRecords checks that no more than most records were written, beside what renews the lease.
func (a *attempt) fewRecords(most uint64) {
	const others = 100
	if wrote := a.recordsWritten() - a.records; wrote > most+others {
		a.t.Errorf("%d records were written, want at most %d", wrote, most+others)
	}
}

// restarts checks that a replica which starts now works.
func (a *attempt) restarts() {
	for _, r := range a.world.replicas {
		r.stop()
	}
	a.world.replicas = nil
	a.start()
	a.start()
	a.unharmed(a.t)
}
