package servers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type spec struct {
	Title string `json:"title,omitempty"`
}

type status struct {
	Ready bool `json:"ready,omitempty"`
}

// site is the primary of these tests, page its secondary.
type (
	site = entity.Object[spec, status]
	page = entity.Object[spec, status]
)

// world is a server, and a user of it.
type world struct {
	t        *testing.T
	v        version
	server   *process // nil for a cluster
	url      string
	domain   string // of JetStream, "" if it is the server's
	replicas int    // of buckets
	js       jetstream.JetStream
	sites    *entity.Client[*site]
	pages    *entity.Client[*page]
}

func newWorld(t *testing.T, v version) *world {
	t.Helper()
	p := newProcess(t, v, "-js", "-sd", t.TempDir())
	w := &world{t: t, v: v, server: p, url: p.url(), replicas: 1}
	_, w.js = natstest.Connect(t, w.url)
	w.sites, w.pages = w.client(w.js, "Site", "sites"), w.client(w.js, "Page", "pages")
	return w
}

func (w *world) client(js jetstream.JetStream, kind, bucket string) *entity.Client[*site] {
	w.t.Helper()
	c, err := entity.NewClient[*site](w.t.Context(), js,
		entity.Config{Kind: kind, Bucket: bucket, Replicas: w.replicas})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// replica is a controller of sites over a connection of its own. Each site owns a page with its title.
type replica struct {
	*controller.Controller[*site]
	t            *testing.T
	nc           *nats.Conn
	sites, pages *entity.Client[*site]
	stop         context.CancelFunc
	done         chan struct{}
	err          error

	mu   sync.Mutex
	seen map[string]controller.Operations // what reconciles of a key were told
}

// run starts a replica, and stops it at the end of the test.
func (w *world) run(opts ...controller.Option) *replica {
	w.t.Helper()
	nc, js := natstest.Connect(w.t, w.url)
	if w.domain != "" {
		var err error
		js, err = jetstream.NewWithDomain(nc, w.domain)
		must(w.t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{t: w.t, nc: nc, stop: cancel, done: make(chan struct{}), seen: map[string]controller.Operations{},
		sites: w.client(js, "Site", "sites"), pages: w.client(js, "Page", "pages")}
	opts = append([]controller.Option{controller.Owns(r.pages), controller.WithWorkers(4),
		controller.WithBackoff(5*time.Millisecond, 200*time.Millisecond)}, opts...)
	var err error
	r.Controller, err = controller.New("sites", r.sites, controller.ReconcilerFunc(r.reconcile), opts...)
	must(w.t, err)
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
	w.t.Cleanup(r.halt)
	return r
}

// lead starts a replica, and returns when it leads.
func (w *world) lead(opts ...controller.Option) *replica {
	w.t.Helper()
	r := w.run(opts...)
	natstest.Eventually(w.t, "it leads", func() bool { return r.Stats().Leading })
	return r
}

func (r *replica) reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	r.mu.Lock()
	r.seen[req.Key] |= req.Operations
	r.mu.Unlock()
	s, err := r.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	p := &page{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	if _, err := controller.CreateOrUpdate(ctx, r.pages, p, func(p *page) error {
		p.Spec.Title = s.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	s.Status.Ready = true
	return controller.Result{}, controller.SetStatus(ctx, s)
}

// told reports whether a reconcile of the key was told the operation.
func (r *replica) told(key string, op controller.Operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[key].Has(op)
}

// halt stops the replica gracefully.
func (r *replica) halt() {
	r.t.Helper()
	r.stop()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.t.Fatal("the controller did not stop within a minute")
	}
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
	r.err = nil
}

// make creates sites, and waits until they are reconciled.
func (w *world) make(names ...string) {
	w.t.Helper()
	made := make([]*site, len(names))
	for i, name := range names {
		made[i] = &site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec{Title: "first"}}
		must(w.t, w.sites.Create(w.t.Context(), made[i]))
	}
	for _, s := range made {
		w.reconciled(s)
	}
}

// reconciled waits until the page, the status and the record of a site are as its revision wants them.
func (w *world) reconciled(s *site) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	must(w.t, entity.WaitReconciled(ctx, w.sites, s.Name, uint64(s.Generation)))
	p, err := w.pages.Get(ctx, s.Name)
	must(w.t, err)
	read, err := w.sites.Get(ctx, s.Name)
	must(w.t, err)
	if p.Spec != s.Spec || !read.Status.Ready {
		w.t.Errorf("%s is reconciled: its page has %+v, want %+v, its status is %+v", s.Name, p.Spec, s.Spec, read.Status)
	}
}

// tornDown waits until neither page nor record of a site is left.
func (w *world) tornDown(names ...string) {
	w.t.Helper()
	for _, name := range names {
		natstest.Eventually(w.t, name+" is torn down", func() bool {
			_, pageErr := w.pages.Get(w.t.Context(), name)
			_, recordErr := w.sites.Record(w.t.Context(), name)
			return apierrors.IsNotFound(pageErr) && apierrors.IsNotFound(recordErr)
		})
	}
}

// left checks that exactly these sites have their page and their record.
func (w *world) left(names ...string) {
	w.t.Helper()
	var found []string
	natstest.Eventually(w.t, "the pages are listed", func() bool {
		all, err := w.pages.List(w.t.Context()) // which may fail while a member of a cluster comes back
		for _, p := range all {
			found = append(found, p.Name)
		}
		return err == nil
	})
	slices.Sort(found)
	if !slices.Equal(found, names) {
		w.t.Errorf("the pages %q are left, want %q", found, names)
	}
	for _, name := range names {
		if _, err := w.sites.Record(w.t.Context(), name); err != nil {
			w.t.Errorf("the record of %s: %v", name, err)
		}
	}
}

// put writes a document as any program does, with headers.
func (w *world) put(key string, document spec, header nats.Header) uint64 {
	w.t.Helper()
	data, err := json.Marshal(map[string]spec{"spec": document})
	must(w.t, err)
	ack, err := w.js.PublishMsg(w.t.Context(), &nats.Msg{Subject: "$KV.sites." + key, Header: header, Data: data})
	must(w.t, err)
	return ack.Sequence
}

// header returns a header of the last message of a key, also if that is a marker.
func (w *world) header(bucket, key, name string) string {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	last, err := stream.GetLastMsgForSubject(w.t.Context(), "$KV."+bucket+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ""
	}
	must(w.t, err)
	return last.Header.Get(name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for what has to happen. It promises nothing about speed.
const patience = 30 * time.Second
