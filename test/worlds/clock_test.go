package worlds

import (
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAReplicaSeesTheClockOfTheServerJump: what was before keeps its time, and what comes after has the other one, in
// deliveries, in direct gets, and in what the API says of a stream.
func TestAReplicaSeesTheClockOfTheServerJump(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		p := natstest.StartProxy(t, server.URL())
		var c serverClock
		p.Tamper(func(m *natstest.Message) natstest.Fate {
			c.shows(m)
			return natstest.Fate{}
		})
		_, js := natstest.Connect(t, p.URL())
		ctx := t.Context()
		began := time.Now()
		kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b"})
		if err != nil {
			t.Fatal(err)
		}
		write := func(key string) {
			t.Helper()
			if _, err := kv.PutString(ctx, key, `{"created":"2000-01-01T00:00:00Z"}`); err != nil {
				t.Fatal(err)
			}
		}
		write("before")
		sleep(ctx, time.Minute)
		c.jump(2 * time.Hour)
		c.jump(-time.Hour)
		write("after")
		sleep(ctx, time.Minute)
		c.jump(-2 * time.Hour)
		want := map[string]time.Time{"before": began, "after": began.Add(time.Minute + time.Hour)}
		watch, err := kv.WatchAll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range want {
			if e := <-watch.Updates(); !e.Created().Equal(want[e.Key()]) {
				t.Errorf("%s is delivered as of %v, want %v", e.Key(), e.Created(), want[e.Key()])
			}
		}
		_ = watch.Stop()
		for key := range want {
			e, err := kv.Get(ctx, key) // direct
			if err != nil || !e.Created().Equal(want[key]) || string(e.Value()) != `{"created":"2000-01-01T00:00:00Z"}` {
				t.Errorf("%s is read as %q of %v (%v), want %v", key, e.Value(), e.Created(), err, want[key])
			}
		}
		s, err := js.Stream(ctx, "KV_b")
		if err != nil {
			t.Fatal(err)
		}
		info := s.CachedInfo()
		now := began.Add(2*time.Minute - time.Hour)
		if !info.Created.Equal(began) || !info.TimeStamp.Equal(now) || !info.State.LastTime.Equal(want["after"]) {
			t.Errorf("created %v, last %v, now %v; want %v, %v, %v",
				info.Created, info.State.LastTime, info.TimeStamp, began, want["after"], now)
		}
		for reply, want := range map[string]string{
			"$JS.ACK.KV_b.c.1.2.3.1000000000.5":              "$JS.ACK.KV_b.c.1.2.3.1000000000.5",
			"$JS.ACK._.hash.KV_b.c.1.2.3.1000000000.5.token": "$JS.ACK._.hash.KV_b.c.1.2.3.1000000000.5.token",
			"$JS.ACK.short": "$JS.ACK.short",
		} {
			if got := c.inDelivery(reply); got != want {
				t.Errorf("%s becomes %s, want %s", reply, got, want)
			}
		}
		late := c.inDelivery("$JS.ACK._.hash.KV_b.c.1.2.3.4102444800000000000.5.token")
		if late != "$JS.ACK._.hash.KV_b.c.1.2.3.4102441200000000000.5.token" {
			t.Errorf("a delivery of 2100 becomes %s", late)
		}
	})
}
