package controller

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// relay stands before one process and makes its caches late: it drops or delays the messages that consumers deliver of
// one bucket. Requests and their answers pass.
type relay struct{ *natstest.Proxy }

// behindRelay is another process that reaches the server through a relay.
func (w *world) behindRelay() (*world, relay) {
	w.t.Helper()
	r := relay{natstest.StartProxy(w.t, w.server.URL())}
	_, js := natstest.Connect(w.t, r.URL())
	return &world{t: w.t, server: w.server, js: js}, r
}

// mute makes the deliveries of a bucket vanish until the next call; "" lets all pass.
func (r relay) mute(bucket string) {
	if bucket == "" {
		r.Tamper(nil)
		return
	}
	r.Tamper(natstest.Each(deliveriesOf(bucket), natstest.Fate{Lost: true}))
}

// muteAnswers makes the answers to requests vanish until the next call of mute. Deliveries pass.
func (r relay) muteAnswers() {
	r.Tamper(natstest.Each(func(m *natstest.Message) bool {
		return m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "_INBOX.")
	}, natstest.Fate{Lost: true}))
}

// late makes the deliveries of a bucket come d later, and so what else their pulls are answered: the status of a pull
// must not overtake its messages.
func (r relay) late(bucket string, d time.Duration) {
	delivered, pulled := deliveriesOf(bucket), natstest.AnswersTo("$JS.API.CONSUMER.MSG.NEXT.KV_"+bucket+".>")
	r.Tamper(natstest.Each(func(m *natstest.Message) bool { return delivered(m) || pulled(m) }, natstest.Fate{Late: d}))
}

func deliveriesOf(bucket string) func(*natstest.Message) bool {
	return func(m *natstest.Message) bool {
		return m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "$KV."+bucket+".")
	}
}

// throughout checks for a while that a condition holds.
func throughout(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if !holds() {
			t.Fatalf("no longer: %s", what)
		}
	}
}

// leaseInBucket is the value of the lease's key.
type leaseInBucket struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
	AcquireTime          time.Time `json:"acquireTime"`
	RenewTime            time.Time `json:"renewTime"`
	LeaderTransitions    int       `json:"leaderTransitions"`
}

// leaseTo writes a lease with that holder over the one that is there. "" frees it.
func (w *world) leaseTo(holder string, d time.Duration) {
	w.t.Helper()
	now := time.Now().UTC()
	data, err := json.Marshal(leaseInBucket{holder, int(d / time.Second), now, now, 1})
	must(w.t, err)
	_, err = w.kv("sites-status").Put(w.t.Context(), "_nagi.lease", data)
	must(w.t, err)
}

// lease reads the lease; the zero value if the key is absent.
func (w *world) lease() (lease leaseInBucket) {
	w.t.Helper()
	entry, err := w.kv("sites-status").Get(w.t.Context(), "_nagi.lease")
	if err == nil {
		must(w.t, json.Unmarshal(entry.Value(), &lease))
	}
	return lease
}
