package follow_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABucketIsFollowed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		docs, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "sites", Storage: jetstream.MemoryStorage})
		must(t, err)
		records, err := js.CreateKeyValue(t.Context(),
			jetstream.KeyValueConfig{Bucket: "sites-status", Storage: jetstream.MemoryStorage})
		must(t, err)
		put := func(kv jetstream.KeyValue, key, value string) {
			_, err := kv.PutString(t.Context(), key, value)
			must(t, err)
		}
		put(docs, "shop.home", `{"metadata":{"namespace":"shop","labels":{"a":"b"},"annotations":{"kumori/ownerkind":"Shop",
			"kumori/ownerkey":"one","other":"is not kept"}},"spec":{"much":"text"}}`)
		put(docs, "bad", `no JSON`)
		put(records, "_nagi.lease", `{}`)
		put(records, "gone", `{"schemaVersion":1,"controller":"sites","phase":"Synced"}`)
		put(records, "bad", `[]`)
		var changes atomic.Int64
		b, err := follow.Open(js, follow.Place{Bucket: "sites", StatusBucket: "sites-status"}, func() { changes.Add(1) })
		must(t, err)
		defer b.Close()
		must(t, b.Wait(t.Context()))
		if n := len(b.Keys()); n != 3 {
			t.Errorf("keys %v", b.Keys())
		}
		home, ok := b.Get("shop.home")
		if !ok || home.Namespace != "shop" || home.Marks.GetLabels()["a"] != "b" || len(home.Marks.GetAnnotations()) != 2 ||
			home.Gone() || home.State != nil {
			t.Errorf("%+v", home)
		}
		if bad, _ := b.Get("bad"); !bad.Unreadable || bad.State == nil || !bad.State.Unreadable || bad.State.OK() {
			t.Errorf("%+v", bad)
		}
		if gone, _ := b.Get("gone"); !gone.Gone() || gone.State.Controller != "sites" {
			t.Errorf("%+v", gone)
		}
		if owned, err := b.OwnedBy("Shop", "one"); err != nil || len(owned) != 1 {
			t.Errorf("owned %v, %v", owned, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := changes.Load()
		put(records, "shop.home", `{"schemaVersion":1,"observedRevision":1,"documentRevision":1,"conditions":[
			{"type":"Reconciled","status":"True","reason":"Synced","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`)
		time.Sleep(time.Second)
		synctest.Wait()
		if home, _ := b.Get("shop.home"); home.State == nil || home.State.Phase != entity.PhaseSynced || !home.State.OK() {
			t.Errorf("its record is not followed: %+v", home.State)
		}
		if changes.Load() != before+1 {
			t.Errorf("told %d times of one change", changes.Load()-before)
		}
	})
}

func TestABucketThatCannotBeReadSaysWhy(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		set := follow.Set{JS: js}
		defer set.Close()
		if _, err := set.Bucket(t.Context(), follow.Place{Bucket: "none"}); err == nil || !strings.Contains(err.Error(), "none") {
			t.Errorf("no bucket: %v", err)
		}
		if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "there", Storage: jetstream.MemoryStorage}); err != nil {
			t.Fatal(err)
		}
		srv.Stop()
		began := time.Now()
		if _, err := set.Bucket(context.Background(), follow.Place{Bucket: "there"}); err == nil || time.Since(began) > time.Minute {
			t.Errorf("no server: %v after %v", err, time.Since(began))
		}
	})
}
