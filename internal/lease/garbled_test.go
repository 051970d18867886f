package lease

import (
	"strings"
	"testing"
	"time"
)

// garbled are values that are no record. Each of the JSON objects decodes to a record without a holder.
var garbled = map[string]string{
	"answer":         `{"stream":"KV_sites-status","seq":12}`,
	"refusal":        `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 2"},"stream":"s","seq":0}`,
	"text":           "mine",
	"nothing":        "",
	"null":           "null",
	"other":          `{"holder":"me"}`,
	"no duration":    `{"holderIdentity":""}`,
	"over at once":   `{"holderIdentity":"thief","leaseDurationSeconds":0}`,
	"wrong duration": `{"holderIdentity":"thief","leaseDurationSeconds":-3}`,
	"no time":        `{"holderIdentity":"thief","leaseDurationSeconds":600,"renewTime":"soon"}`,
}

func eachGarbled(t *testing.T, f func(t *testing.T, k *key, value string)) {
	t.Helper()
	for name, value := range garbled {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *key) { f(t, k, value) })
		})
	}
}

func TestAHolderWritesOverWhatIsNoRecord(t *testing.T) {
	eachGarbled(t, func(t *testing.T, k *key, value string) {
		first, second := firstLeads(t, k), k.join("second").run(t)
		after(10 * time.Second)
		first.reported()
		for range 20 {
			k.put(value)
			after(3 * time.Second)
		}
		if !first.leads() || len(first.served()) != 1 || len(second.served()) != 0 {
			t.Errorf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
		if got := k.record(t).HolderIdentity; got != "first" {
			t.Errorf("the holder is %q", got)
		}
		wantReported(t, first)
	})
}

// wantReported checks that somebody who reads the reports of a replica knows what the key held, and what to do.
func wantReported(t *testing.T, r *replica) {
	t.Helper()
	for _, err := range r.reported() {
		if err != nil && strings.Contains(err.Error(), "bucket/lease holds no lease") &&
			strings.Contains(err.Error(), "delete the key") {
			return
		}
	}
	t.Errorf("%s did not report it", r.id)
}

// TestWhatIsNoRecordFreesNoLease: the holder is cut off and leads on until its term ends. Another takes the lease no
// earlier than it would have without the garbage.
func TestWhatIsNoRecordFreesNoLease(t *testing.T) {
	eachGarbled(t, func(t *testing.T, k *key, value string) {
		first, second := firstLeads(t, k), k.join("second").run(t)
		after(10 * time.Second)
		first.use(lost, lost)
		second.reported()
		k.put(value)
		put := time.Now()
		after(time.Minute)
		if first.leads() || !second.leads() {
			t.Fatalf("terms of the first %+v, of the second %+v", first.served(), second.served())
		}
		began := second.last(t).began
		if began.Before(first.last(t).ended) {
			t.Error("two lead at once")
		}
		if wait := began.Sub(put); wait < usual.Duration || wait > usual.Duration+2*usual.retry(1) {
			t.Errorf("taken after %v, want %v and at most two pauses", wait, usual.Duration)
		}
		wantReported(t, second)
	})
}

// TestTheLongestDurationThatWasSeenHolds, also for what is no record any more.
func TestTheLongestDurationThatWasSeenHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		k.put(`{"holderIdentity":"patient","leaseDurationSeconds":60}`)
		second := k.join("second").run(t)
		after(10 * time.Second)
		k.put(garbled["answer"])
		put := time.Now()
		after(2 * time.Minute)
		if wait := second.last(t).began.Sub(put); wait < time.Minute {
			t.Errorf("taken after %v, want a minute", wait)
		}
	})
}

// TestAHolderWhoseTermIsOverWritesOverNothing: another may hold the lease by then, under what somebody wrote over it.
func TestAHolderWhoseTermIsOverWritesOverNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *key) {
		first := firstLeads(t, k)
		held := version{record: k.record(t), revision: 1, at: time.Now().Add(-usual.term())}
		k.put(garbled["answer"])
		e := elector{Config: Config{Store: first.link, Name: "bucket/lease", Identity: "late", Timing: usual}}
		if _, err := e.renew(t.Context(), held); err == nil {
			t.Error("it took the lease")
		}
	})
}
