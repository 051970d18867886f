package controller

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// acknowledged has the server put an acknowledgement into a key, as anybody can who may write to some stream.
func (w *world) acknowledged(bucket, key string) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "others"})
	must(w.t, err)
	msg := nats.NewMsg("$KV.others.mine")
	msg.Data, msg.Reply = []byte("{}"), "$KV."+bucket+"."+key
	must(w.t, w.js.Conn().PublishMsg(msg))
	must(w.t, w.js.Conn().Flush())
}

// TestAnAcknowledgementDoesNotReleaseTheBrake, put while the controller runs and while it does not. What does is
// told with the refusal.
func TestAnAcknowledgementDoesNotReleaseTheBrake(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		m.emptied("sites")
		m.holds(many)
		const degraded = "release (bucket sites-status)"
		attack := func() { m.acknowledged("sites-status", "_nagi.release") }
		refused := func() {
			t.Helper()
			natstest.Eventually(t, "it is reported", func() bool {
				err := m.c.Stats().Degraded[degraded]
				return err != nil && strings.Contains(err.Error(), "an answer of the server")
			})
			natstest.Eventually(t, "it is removed", func() bool {
				_, err := m.kv("sites-status").Get(t.Context(), "_nagi.release")
				return err != nil
			})
			m.holds(many)
		}
		attack()
		refused()
		m = m.restarted(attack)
		refused()
		_, command, ok := strings.Cut(m.c.Stats().Degraded[degraded].Error(), "nats kv put sites-status _nagi.release ")
		if !ok {
			t.Fatalf("%v", m.c.Stats().Degraded[degraded])
		}
		m.put("sites-status", "_nagi.release", strings.Trim(command, `"`))
		m.tornDown()
		natstest.Eventually(t, "nothing is degraded", func() bool { return len(m.c.Stats().Degraded) == 0 })
	})
}
