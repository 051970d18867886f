package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// TestALastKnownDocumentIsTheDocumentAsItWas, without what the runtime notes on its copy.
func TestALastKnownDocumentIsTheDocumentAsItWas(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		last := make(chan *site, 1)
		var c *Controller[*site]
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if !req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			s, err := c.LastKnown(ctx, req.Key)
			last <- s
			return Result{}, err
		}), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		want, err := sites.Get(t.Context(), "home")
		must(t, err)
		must(t, sites.Delete(t.Context(), "home"))
		got := receive(t, "the last known document", last)
		if got.ResourceVersion != want.ResourceVersion || len(got.Annotations) > 0 || got.Spec != want.Spec {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

type panickingRecorder struct{ record.FakeRecorder }

func (*panickingRecorder) Event(runtime.Object, string, string, string) { panic("no recorder") }

// explosive is a spec that cannot be encoded when it is armed.
type explosive struct {
	Armed bool `json:"armed,omitempty"`
}

var exploded atomic.Int64 // a method of a value that the runtime copies can tell in no other way

func (e explosive) MarshalJSON() ([]byte, error) {
	if e.Armed {
		exploded.Add(1)
		panic("cannot be encoded")
	}
	return []byte(`{}`), nil
}

// TestAPanicInTheUsersRecorderOrTypesDoesNotEndTheProcess.
func TestAPanicInTheUsersRecorderOrTypesDoesNotEndTheProcess(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client, err := entity.NewClient[*entity.Object[explosive, siteStatus]](t.Context(), w.js,
			entity.Config{Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage})
		must(t, err)
		t.Cleanup(client.Close)
		var seen calls
		c, err := New("sites", client, seen.reconciler(nil), WithResyncInterval(0), WithEventRecorder(&panickingRecorder{}))
		must(t, err)
		w.run(c)
		w.put("sites", "armed", `{"spec":{"armed":true}}`)
		natstest.Eventually(t, "it cannot be encoded", func() bool { return exploded.Load() > 0 })
		w.put("sites", "invalid", `{`)
		w.put("sites", "home", `{"spec":{}}`)
		natstest.Eventually(t, "others are reconciled", func() bool { return seen.count("home") == 1 })
		natstest.Eventually(t, "the invalid one is noted", func() bool {
			record, err := client.Record(t.Context(), "invalid")
			return err == nil && len(record.Conditions) > 0
		})
	})
}
