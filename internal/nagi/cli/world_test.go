package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

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
	page    = entity.Object[pageSpec, entity.None]
)

// world is a server, and a controller "websites" for the kind Website, whose bucket websites has namespaces. It owns
// pages in the bucket pages, and is in the registry and on the services API. A host that begins with "bad" fails for good, one
// with "slow" fails and is tried again, one with "takes" takes an hour, one with "wakes" wakes itself, all others get as
// many pages as they want.
type world struct {
	*testing.T
	srv      *natstest.Server
	nc       *nats.Conn
	js       jetstream.JetStream
	websites *entity.Client[*website]
	pages    *entity.Client[*page]
	stop     func()      // the controller
	back     atomic.Bool // the API of domains
	cluster  OpenCluster
}

// inWorld runs a test in virtual time, with the documents that [world.everyday] puts.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyday()
		test(w)
	})
}

func newWorld(t *testing.T, opts ...natstest.Option) *world {
	t.Helper()
	w := emptyWorld(t, opts...)
	w.startController()
	return w
}

// emptyWorld has no controller yet.
func emptyWorld(t *testing.T, opts ...natstest.Option) *world {
	t.Helper()
	w := &world{T: t, srv: natstest.Start(t, opts...), stop: func() {}}
	w.nc, w.js = natstest.Connect(t, w.srv.URL())
	return w
}

// startController starts a replica with clients and a connection for its service of its own.
func (w *world) startController(opts ...controller.Option) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	nc, js := natstest.Connect(w.T, w.srv.URL())
	var err error
	w.websites, err = entity.NewClient[*website](ctx, js, entity.Config{
		Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites", Namespaced: true, Storage: jetstream.MemoryStorage,
	})
	w.must(err)
	w.pages, err = entity.NewClient[*page](ctx, js, entity.Config{
		Kind: "Page", Bucket: "pages", Namespaced: true, StatusBucket: entity.NoStatusBucket, Storage: jetstream.MemoryStorage,
	})
	w.must(err)
	own, _ := natstest.Connect(w.T, w.srv.URL())
	svc, err := service.New(service.Config{Conn: own})
	w.must(err)
	rec, err := recorder.New(recorder.Config{JetStream: js, Component: "websites", Storage: jetstream.MemoryStorage})
	w.must(err)
	rec.RegisterKind("Website", &website{})
	c, err := controller.New("websites", w.websites, w.reconciler(), append(opts, controller.Owns(w.pages),
		controller.WithPlan(), controller.WithEventRecorder(rec), svc.Controller(), registry.Publish(registry.Options{Version: "v1.2.3"}))...)
	w.must(err)
	stopController, stopService := natstest.Run(w.T, c.Run), natstest.Run(w.T, svc.Run)
	websites, pages := w.websites, w.pages
	w.stop = sync.OnceFunc(func() {
		stopController()
		stopService()
		_ = rec.Close(context.Background())
		websites.Close()
		pages.Close()
		cancel()
		own.Close()
		nc.Close()
	})
	w.Cleanup(w.stop)
}

// member starts a replica that shares the keys with others, and returns how to stop it.
func (w *world) member(name string, opts ...controller.Option) (stop func()) {
	w.Helper()
	w.startController(append(opts, controller.WithShards(64), controller.WithMember(name, 1))...)
	time.Sleep(5 * time.Second)
	return w.stop
}

// inShards runs a test in a world with the members a and b, of which a leads.
func inShards(t *testing.T, test func(w *world, stop map[string]func())) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		w := emptyWorld(t)
		stop := map[string]func(){}
		for _, name := range []string{"a", "b"} {
			stop[name] = w.member(name)
		}
		w.everyday()
		test(w, stop)
	})
}

// stopController stops the replica.
func (w *world) stopController() { w.stop(); w.stop = func() {} }

// reconciler has the clients of the replica that was started last: it works on while a test starts another one.
func (w *world) reconciler() controller.ReconcilerFunc {
	websites, pages := w.websites, w.pages
	return func(ctx context.Context, req controller.Request) (controller.Result, error) {
		site, err := websites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, err
		}
		switch {
		case strings.HasPrefix(site.Spec.Host, "bad"):
			return controller.Result{}, controller.TerminalError(errors.New("no such domain"))
		case strings.HasPrefix(site.Spec.Host, "slow") && !w.back.Load():
			return controller.Result{}, errors.New("the API of domains is away")
		case strings.HasPrefix(site.Spec.Host, "takes"):
			select {
			case <-ctx.Done():
				return controller.Result{}, ctx.Err()
			case <-time.After(time.Hour):
			}
		}
		if strings.HasPrefix(site.Spec.Host, "wakes") {
			site.Spec.Pages = 1 - site.Spec.Pages // there and back, for ever
			return controller.Result{}, websites.Update(ctx, site)
		}
		for i := range site.Spec.Pages {
			p := &page{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: fmt.Sprintf("%s-%d", site.Name, i)}}
			if _, err := controller.CreateOrUpdate(ctx, pages, p, func(p *page) error {
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

// everyday are documents of each sort: well, failing for good, failing, suspended, invalid.
func (w *world) everyday() {
	w.Helper()
	w.put("websites", "shop.home", `{"metadata":{"labels":{"tier":"gold"}},"spec":{"host":"home.example","pages":2,"password":"hunter2"}}`)
	w.put("websites", "shop.blog", `{"metadata":{"labels":{"tier":"tin"}},"spec":{"host":"bad.example","pages":1}}`)
	w.put("websites", "shop.cart", `{"spec":{"host":"slow.example"}}`)
	w.put("websites", "lab.old", `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{"host":"old.example"}}`)
	w.put("websites", "lab.new", `{"spec":{"host":"new.example","pages":"three"}}`)
	time.Sleep(10 * time.Second)
	synctest.Wait()
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

// ran is what a run of the tool has printed, and its exit code.
type ran struct {
	out, err string
	code     int
}

// nagi runs the tool, with nothing on its standard input.
func (w *world) nagi(args ...string) ran { return w.nagiWith("", args...) }

// nagiWith runs the tool with a standard input.
func (w *world) nagiWith(stdin string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr},
		Options: []nats.Option{natstest.Dialer()}, Cluster: w.cluster,
	}
	code := Run(w.Context(), env, append([]string{"--server", w.srv.URL()}, args...))
	return ran{stdout.String(), stderr.String(), code}
}

// ok runs the tool and wants exit code 0.
func (w *world) ok(args ...string) string {
	w.Helper()
	r := w.nagi(args...)
	if r.code != 0 {
		w.Fatalf("nagi %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}
