package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(replicaOf); url != "" {
		if err := runReplica(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type spec struct {
	Title string `json:"title,omitempty"`
}

type status struct {
	Ready bool `json:"ready,omitempty"`
}

type site = entity.Object[spec, status]

var (
	sitesConfig = entity.Config{Kind: "Site", Bucket: "sites", Namespaced: true, Storage: jetstream.MemoryStorage}
	flatConfig  = entity.Config{Kind: "Flat", Bucket: "flat", Storage: jetstream.MemoryStorage}
)

// world is a server whose users have rights, and what runs on it.
type world struct {
	*testing.T
	srv *natstest.Server
	js  jetstream.JetStream // the admin's
	log *lines
}

// users are those of the account APP beside the admin and the service. Another account, TENANT, imports from it.
var users = map[string]string{
	"reader":  `publish: { allow: ["nagi.*.read.>"] }, subscribe: { allow: ["_INBOX.>"] }`,
	"shop":    `publish: { allow: ["nagi.*.read.*.shop", "nagi.*.act.*.shop"] }, subscribe: { allow: ["_INBOX.>"] }`,
	"nothing": `publish: { deny: [">"] }, subscribe: { allow: ["_INBOX.>"] }`,
	"pinger":  `publish: { allow: ["$SRV.>"] }, subscribe: { allow: ["_INBOX.>"] }`,
}

func newWorld(t *testing.T, opts ...natstest.Option) *world {
	t.Helper()
	set, err := Config{}.Permissions()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("accounts: {\nAPP: { jetstream: enabled, users: [\n{ user: admin, password: x }\n")
	fmt.Fprintf(&b, "{ user: service, password: x\n%s}\n", set.NATS())
	for user, permissions := range users {
		fmt.Fprintf(&b, "{ user: %s, password: x, permissions: { %s } }\n", user, permissions)
	}
	b.WriteString("], exports: [{ service: \"nagi.>\" }] }\n")
	b.WriteString("TENANT: { users: [{ user: alice, password: x }], imports: [\n" +
		"{ service: { account: APP, subject: \"nagi.>\" }, share: true } ] }\n}\n")
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, append(opts, natstest.WithConfig(func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		o.Accounts, o.Users = parsed.Accounts, parsed.Users
	}))...)
	w := &world{T: t, srv: srv, log: &lines{}}
	_, w.js = w.connect("admin")
	return w
}

func (w *world) connect(user string) (*nats.Conn, jetstream.JetStream) {
	w.Helper()
	return natstest.Connect(w.T, w.srv.URL(), nats.UserInfo(user, "x"), nats.ErrorHandler(
		func(*nats.Conn, *nats.Subscription, error) {}))
}

// conn is a connection of a user.
func (w *world) conn(user string) *nats.Conn {
	w.Helper()
	nc, _ := w.connect(user)
	return nc
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) client(cfg entity.Config) *entity.Client[*site] {
	w.Helper()
	c, err := entity.NewClient[*site](w.Context(), w.js, cfg)
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

// put writes a document as a user would; key is that of NATS.
func (w *world) put(bucket, key, document string) {
	w.Helper()
	_, err := w.js.Publish(w.Context(), "$KV."+bucket+"."+key, []byte(document))
	w.must(err)
}

// value is what a key of a bucket has; "" if it has nothing.
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

// service makes one over the confined user's connection.
func (w *world) service(change ...func(*Config)) *Service {
	w.Helper()
	cfg := Config{Conn: w.conn("service"), ReadRate: 1e6, ActRate: 1e6}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	w.must(err)
	return s
}

// run runs something until stop or the end of the test, without an error.
func (w *world) run(r interface{ Run(context.Context) error }) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), w.log.logger()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("%T: %v", r, err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// reconciles are what the reconciler of the tests was called for.
type reconciles struct {
	mu  sync.Mutex
	all []controller.Request
}

func (r *reconciles) count(key string, op controller.Operation) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.all {
		if req.Key == key && req.Operations.Has(op) {
			n++
		}
	}
	return n
}

// does what the title says.
func (r *reconciles) reconciler(sites *entity.Client[*site]) controller.Reconciler {
	return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		r.mu.Lock()
		r.all = append(r.all, req)
		r.mu.Unlock()
		obj, err := sites.Lister().Get(req.Key)
		if err != nil {
			return controller.Result{}, nil // gone
		}
		switch title, rest, _ := strings.Cut(obj.Spec.Title, " "); title {
		case "terminal":
			return controller.Result{}, controller.TerminalError(errors.New("never " + rest))
		case "fails":
			return controller.Result{}, errors.New("not yet " + rest)
		}
		return controller.Result{}, nil
	})
}

// quickLease is taken over at once where it is given back, as it always is here. It is long, so that nobody loses it who
// only was slow to renew it.
var quickLease = controller.WithLeaseTiming(controller.LeaseTiming{
	Duration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 50 * time.Millisecond,
})

// controlled is a controller that runs.
type controlled struct {
	*controller.Controller[*site]
	*reconciles
	service *Service
	client  *entity.Client[*site]
	halt    func()
}

// served is the controller as the service has it.
func (c *controlled) served() *served {
	for _, s := range c.service.controllers() {
		if s.name() == c.Name() {
			return s
		}
	}
	panic("not served")
}

func (w *world) controller(name string, s *Service, cfg entity.Config, opts ...controller.Option) *controlled {
	w.Helper()
	c := &controlled{reconciles: &reconciles{}, service: s, client: w.client(cfg)}
	opts = append([]controller.Option{s.Controller(), quickLease, controller.WithBackoff(time.Hour, time.Hour)}, opts...)
	made, err := controller.New(name, c.client, c.reconciler(c.client), opts...)
	w.must(err)
	c.Controller = made
	return c
}

// sites runs a service with the controller of sites, and waits until it answers.
func (w *world) sites(opts ...controller.Option) (*Service, *controlled) {
	w.Helper()
	s := w.service()
	c := w.controller("sites", s, sitesConfig, opts...)
	c.halt = w.run(c)
	w.run(s)
	w.answers("nagi.sites.read.stats")
	return s, c
}

// answers waits until something answers the admin.
func (w *world) answers(subject string) {
	w.Helper()
	natstest.Eventually(w, subject+" is answered", func() bool {
		msg, err := w.js.Conn().Request(subject, nil, time.Second)
		return err == nil && msg.Header.Get("Nats-Service-Error-Code") == ""
	})
}

// ask sends a request, and reads the answer into answer, which may be nil.
func ask[A any](w *world, nc *nats.Conn, subject, body string) (answer A) {
	w.Helper()
	msg, err := nc.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		w.Fatalf("%s %s: %v", subject, body, err)
	}
	if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" {
		w.Fatalf("%s %s: %s %s", subject, body, code, msg.Data)
	}
	w.must(json.Unmarshal(msg.Data, &answer))
	return answer
}

// refused sends a request that is answered with an error.
func refused(w *world, nc *nats.Conn, subject, body string, code int) (e Error) {
	w.Helper()
	msg, err := nc.Request(subject, []byte(body), 10*time.Second)
	if err != nil {
		w.Fatalf("%s %s: %v", subject, body, err)
	}
	w.must(json.Unmarshal(msg.Data, &e))
	if got := msg.Header.Get("Nats-Service-Error-Code"); got != fmt.Sprint(code) || e.Code != code ||
		msg.Header.Get("Nats-Service-Error") == "" {
		w.Fatalf("%s %s: code %q, want %d: %v %s", subject, body, got, code, msg.Header, msg.Data)
	}
	return e
}

// lines are those of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.NewJSON(func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, line)
	}, funcr.Options{})
}

func (l *lines) have(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.all, "\n"), text)
}

// events are what a controller recorded.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Event(object runtime.Object, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := object.(metav1.Object)
	e.all = append(e.all, fmt.Sprintf("%s %s/%s %s: %s",
		object.GetObjectKind().GroupVersionKind().Kind, o.GetNamespace(), o.GetName(), reason, message))
}

func (e *events) have(parts ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(event, part)
		}
		if all {
			return true
		}
	}
	return false
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.all, "\n")
}

// pageMaker makes a page of the same key for each site.
func pageMaker(sites, pages *entity.Client[*site]) controller.Reconciler {
	return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		obj, err := sites.Lister().Get(req.Key)
		if err != nil {
			return controller.Result{}, nil // gone: the runtime deletes the page
		}
		page := &site{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
		_, err = controller.CreateOrUpdate(ctx, pages, page, func(page *site) error {
			page.Spec.Title = obj.Spec.Title
			return nil
		})
		return controller.Result{}, err
	})
}
