package natstest_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestAKeyExpiresOnTime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		w, err := kv.Watch(t.Context(), ">", jetstream.UpdatesOnly())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		began := time.Now()
		if _, err := kv.Create(t.Context(), "k", nil, jetstream.KeyTTL(10*time.Second)); err != nil {
			t.Fatal(err)
		}
		<-w.Updates()
		<-w.Updates()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it expired after %v", took)
		}
	})
}
