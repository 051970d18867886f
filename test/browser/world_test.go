package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	websiteSpec struct {
		Host     string `json:"host,omitempty"`
		Pages    int    `json:"pages,omitempty" jsonschema:"minimum=0,maximum=100"`
		Theme    string `json:"theme,omitempty" jsonschema:"enum=light,enum=dark"`
		Password string `json:"password,omitempty" nagi:"secret"`
	}
	websiteStatus struct {
		URL string `json:"url,omitempty"`
	}
	pageSpec struct {
		Title string `json:"title"`
	}
	website = entity.Object[websiteSpec, websiteStatus]
	webpage = entity.Object[pageSpec, entity.None]
)

// world is a server on a real socket, and a controller "websites" for the kind Website, whose bucket websites has
// namespaces. It owns pages. A host that begins with "bad" fails for good, one with "slow" fails and is tried again,
// one with "wakes" changes its own document for ever, all others get as many pages as they want.
type world struct {
	*testing.T
	srv *natstest.Server
	nc  *nats.Conn
	js  jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, srv: natstest.Start(t)}
	w.nc, w.js = natstest.Connect(t, w.srv.URL())
	w.startController()
	natstest.Eventually(t, "the registry has the kind", func() bool {
		kv, err := w.js.KeyValue(w.Context(), registry.Bucket)
		if err != nil {
			return false
		}
		_, err = kv.Get(w.Context(), "Website.example.com")
		return err == nil
	})
	return w
}

// startController starts a replica with a connection of its own.
func (w *world) startController() {
	w.Helper()
	nc, js := natstest.Connect(w.T, w.srv.URL())
	ctx, cancel := context.WithCancel(w.Context())
	websites, err := entity.NewClient[*website](ctx, js, entity.Config{
		Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites", Namespaced: true,
	})
	w.must(err)
	pages, err := entity.NewClient[*webpage](ctx, js, entity.Config{
		Kind: "Page", Bucket: "pages", Namespaced: true, StatusBucket: entity.NoStatusBucket,
	})
	w.must(err)
	own, _ := natstest.Connect(w.T, w.srv.URL())
	svc, err := service.New(service.Config{Conn: own})
	w.must(err)
	rec, err := recorder.New(recorder.Config{JetStream: js, Component: "websites"})
	w.must(err)
	rec.RegisterKind("Website", &website{})
	c, err := controller.New("websites", websites, reconciler(websites, pages), controller.Owns(pages),
		controller.WithEventRecorder(rec), svc.Controller(), registry.Publish(registry.Options{Version: "v1.2.3"}))
	w.must(err)
	stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
	w.Cleanup(func() {
		stopController()
		stopService()
		_ = rec.Close(context.Background())
		websites.Close()
		pages.Close()
		cancel()
		own.Close()
		nc.Close()
	})
}

func reconciler(websites *entity.Client[*website], pages *entity.Client[*webpage]) controller.ReconcilerFunc {
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		site, err := websites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		reason, of, _ := strings.Cut(site.Spec.Host, ".")
		switch reason {
		case "bad":
			return controller.Result{}, controller.TerminalError(errors.New("no such domain: " + of))
		case "slow":
			return controller.Result{}, errors.New("the API of domains does not answer: dial tcp 192.0.2.17:443: i/o timeout")
		case "wakes":
			site.Spec.Pages = 1 - site.Spec.Pages // there and back, for ever
			return controller.Result{}, websites.Update(ctx, site)
		}
		for i := range site.Spec.Pages {
			p := &webpage{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace,
				Name: fmt.Sprintf("%s-%d", site.Name, i)}}
			if _, err := controller.CreateOrUpdate(ctx, pages, p, func(p *webpage) error {
				p.Spec.Title = fmt.Sprintf("page %d of %s", i, site.Spec.Host)
				return nil
			}); err != nil {
				return controller.Result{}, err
			}
		}
		site.Status.URL = "https://" + site.Spec.Host
		return controller.Result{}, controller.SetStatus(ctx, site)
	}
}

// everyday are documents of each sort: well, failing for good, failing, suspended, invalid, and one with much text.
func (w *world) everyday() {
	w.Helper()
	w.put("websites", "shop.home",
		`{"metadata":{"labels":{"tier":"gold"}},"spec":{"host":"home.example","pages":3,"password":"hunter2"}}`)
	w.put("websites", "shop.blog", `{"metadata":{"labels":{"tier":"tin"}},"spec":{"host":"bad.example","pages":1}}`)
	w.put("websites", "shop.cart", `{"spec":{"host":"slow.example"}}`)
	w.put("websites", "lab.old",
		`{"metadata":{"annotations":{"nagi/suspend":"true","nagi/suspend-reason":"moves to another host"}},"spec":{"host":"old.example"}}`)
	w.put("websites", "lab.new", `{"spec":{"host":"new.example","pages":"three"}}`)
	w.put("websites", "lab."+longName, `{"spec":{"host":"bad.`+strings.Repeat("averylonglabel.", 20)+`example"}}`)
	for i := range 60 {
		w.put("websites", fmt.Sprintf("many.site-%02d", i),
			fmt.Sprintf(`{"metadata":{"labels":{"tier":"tin"}},"spec":{"host":"site-%02d.example"}}`, i))
	}
	natstest.Eventually(w.T, "all are reconciled", func() bool {
		return strings.Contains(w.value("websites-status", "shop.home"), `"Synced"`) &&
			strings.Contains(w.value("websites-status", "lab."+longName), `"Terminal"`) &&
			strings.Contains(w.value("websites-status", "shop.cart"), `"Retrying"`) &&
			strings.Contains(w.value("websites-status", "many.site-59"), `"Synced"`)
	})
}

// longName is as long as names of people sometimes are.
var longName = strings.Repeat("a-very-long-name-without-a-space-", 4) + "end"

// vanishing is how many documents vanish in [world.engageBrake].
const vanishing = 14

// engageBrake has a second kind and controller, "notes", whose documents vanished while it did not run. Its brake holds
// their deletes.
func (w *world) engageBrake() {
	w.Helper()
	stop := w.startNotes()
	for i := range vanishing {
		w.put("notes", fmt.Sprintf("note-%02d", i), `{"spec":{"title":"a note"}}`)
	}
	natstest.Eventually(w.T, "all notes are reconciled", func() bool {
		for i := range vanishing {
			if !strings.Contains(w.value("notes-status", fmt.Sprintf("note-%02d", i)), `"Synced"`) {
				return false
			}
		}
		return true
	})
	stop()
	stream, err := w.js.Stream(w.Context(), "KV_notes")
	w.must(err)
	w.must(stream.Purge(w.Context()))
	w.Cleanup(w.startNotes())
	natstest.Eventually(w.T, "the brake holds", func() bool {
		msg, err := w.nc.Request("nagi.notes.read.brake-list", nil, time.Second)
		return err == nil && strings.Contains(string(msg.Data), fmt.Sprintf(`"count":%d`, vanishing))
	})
}

func (w *world) startNotes() (stop func()) {
	w.Helper()
	nc, js := natstest.Connect(w.T, w.srv.URL())
	notes, err := entity.NewClient[*webpage](w.Context(), js, entity.Config{Kind: "Note", Bucket: "notes"})
	w.must(err)
	own, _ := natstest.Connect(w.T, w.srv.URL())
	svc, err := service.New(service.Config{Conn: own})
	w.must(err)
	c, err := controller.New("notes", notes, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }),
		svc.Controller(), registry.Publish(registry.Options{Version: "v0.9.0"}))
	w.must(err)
	stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
	return func() {
		stopController()
		stopService()
		notes.Close()
		own.Close()
		nc.Close()
	}
}

// put writes a document as a user would; key is that of NATS.
func (w *world) put(bucket, key, document string) uint64 {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), bucket)
	w.must(err)
	revision, err := kv.Put(w.Context(), key, []byte(document))
	w.must(err)
	return revision
}

// value is what a bucket has under a key; "" for nothing.
func (w *world) value(bucket, key string) string {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), bucket)
	w.must(err)
	entry, err := kv.Get(w.Context(), key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}
	w.must(err)
	return string(entry.Value())
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
