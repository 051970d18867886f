package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// things are behind an API that refuses deletes until it is told not to.
type things struct {
	*cloudtest.Listed
	lets atomic.Bool
}

func (t *things) Delete(ctx context.Context, id string) error {
	if !t.lets.Load() {
		return errors.New("the disk is locked")
	}
	return t.Listed.Delete(ctx, id)
}

// gadgets runs a controller for the kind Gadget, which owns what is behind the API.
func (w *world) gadgets(api external.IExternalClient) {
	w.Helper()
	nc, js := natstest.Connect(w.T, w.srv.URL())
	gadgets, err := entity.NewClient[*page](w.Context(), js, entity.Config{
		Kind: "Gadget", Bucket: "gadgets", Namespaced: true, Storage: jetstream.MemoryStorage,
	})
	w.must(err)
	own, _ := natstest.Connect(w.T, w.srv.URL())
	svc, err := service.New(service.Config{Conn: own})
	w.must(err)
	c, err := controller.New("gadgets", gadgets, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
		controller.OwnsExternal(api), svc.Controller(), registry.Publish(registry.Options{}))
	w.must(err)
	stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
	w.Cleanup(func() {
		stopController()
		stopService()
		gadgets.Close()
		own.Close()
		nc.Close()
	})
}

func TestATreeHasWhatIsStillThereBehindAnAPI(t *testing.T) {
	inWorld(t, func(w *world) {
		api := &things{Listed: cloudtest.NewListed(external.Resource{ID: "disk-1", OwnerKey: "shop/one"},
			external.Resource{ID: "disk-2", OwnerKey: "shop/two"})}
		w.gadgets(api)
		w.put("gadgets", "shop.one", `{"spec":{"title":"one"}}`)
		w.put("gadgets", "shop.two", `{"spec":{"title":"two"}}`)
		w.settle()
		got := w.ok("tree", "Gadget/shop/one")
		w.wantIn(got, "Outside: Thing/disk-1   Listed", "as its controller listed it at 2000-01-01T00:0")
		if strings.Contains(got, "disk-2") {
			t.Errorf("it has what is another's\n%s", got)
		}
		w.wantIn(w.ok("describe", "Gadget/shop/one"), "Thing   1       1 Listed   disk-1")
		w.ui(false).get("/kinds/Gadget/shop%2Fone", "disk-1, Listed", "outside Thing")
		kv, err := w.js.KeyValue(w.Context(), "gadgets")
		w.must(err)
		w.must(kv.Delete(w.Context(), "shop.one"))
		w.settle()
		got = w.ok("tree", "Gadget/shop/one")
		w.wantIn(got, "Outside: Thing/disk-1", "Deleting", "the disk is locked", "its delete is owed")
		if strings.Contains(got, "disk-2") {
			t.Errorf("it has what is another's\n%s", got)
		}
		var root tree.Node
		w.must(json.Unmarshal([]byte(w.ok("tree", "Gadget/shop/one", "-o", "json")), &root))
		if len(root.Owns) != 2 || root.Owns[0].Key != "disk-1" || root.Owns[0].In != registry.InExternal || root.Owns[0].Since.IsZero() {
			t.Errorf("%+v", root)
		}
		api.lets.Store(true)
		time.Sleep(time.Minute) // longer than the pause after as many failures
		w.settle()
		if r := w.nagi("tree", "Gadget/shop/one"); r.code != CodeNotFound {
			t.Errorf("when it is gone: %+v", r)
		}
	})
}

// TestATreeSaysThatAnAPIIsAway, and what was listed there before.
func TestATreeSaysThatAnAPIIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		api := &things{Listed: cloudtest.NewListed(external.Resource{ID: "disk-1", OwnerKey: "shop/one"})}
		w.gadgets(api)
		w.put("gadgets", "shop.one", `{"spec":{"title":"one"}}`)
		w.settle()
		away := errors.New("503")
		api.Fails.Store(&away)
		time.Sleep(2 * time.Minute)
		w.settle()
		w.wantIn(w.ok("tree", "Gadget/shop/one"), "Outside: Thing/disk-1   Listed", "Away", "that API is away since ",
			"as its controller listed it at ")
		w.wantIn(w.ok("describe", "Gadget/shop/one"), "Thing   1       that API is away since ")
	})
}
