package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
)

// late holds one request back, beyond the end of its sender: the network has it, and delivers it when the test says.
type late struct {
	t      *testing.T
	method string

	mu   sync.Mutex
	next http.RoundTripper
	held *http.Request
	body []byte
}

// lateClient is a client of its own whose first request with this method is held back.
func (w *world) lateClient(t *testing.T, method string) (dynamic.Interface, *late) {
	t.Helper()
	l := &late{t: t, method: method}
	cfg := w.server.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		l.next = next
		return roundTripper(l.send)
	})
	client, err := dynamic.NewForConfig(cfg)
	must(t, err)
	return client, l
}

func (l *late) send(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	if req.Method != l.method || l.held != nil {
		l.mu.Unlock()
		return l.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	l.held, l.body = req.Clone(context.Background()), body
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func (l *late) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil
}

// deliver sends what was held back, and returns the status of the answer.
func (l *late) deliver() int {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.Body = io.NopCloser(bytes.NewReader(l.body))
	answer, err := l.next.RoundTrip(l.held)
	must(l.t, err)
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	must(l.t, err)
	return answer.StatusCode
}

// mapsOver returns a handle that writes over a client of its own.
func (w *world) mapsOver(client dynamic.Interface, opts ...kube.Option) *kube.Handle[*corev1.ConfigMap] {
	w.t.Helper()
	informer := w.typed()
	maps, err := kube.New[*corev1.ConfigMap](client, configMaps, informer, opts...)
	must(w.t, err)
	w.awaitSync(w.start(informer))
	return maps
}

// titled makes a controller that gives each site a ConfigMap with its title, over these. If it hesitates it first comes
// back later.
func (w *world) titled(
	maps *kube.Handle[*corev1.ConfigMap], write func(context.Context, *corev1.ConfigMap) error, seen *calls,
	hesitates bool, opts ...controller.Option,
) *controller.Controller[*site] {
	w.t.Helper()
	sites := w.newSites()
	c, err := controller.New("sites", sites, seen.reconciler(
		func(ctx context.Context, req controller.Request) (controller.Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if isNotFound(err) {
				return controller.Result{}, nil
			}
			if err != nil {
				return controller.Result{}, err
			}
			if hesitates && seen.count(req.Key) == 1 {
				return controller.Result{RequeueAfter: 10 * time.Millisecond}, nil
			}
			return controller.Result{}, write(ctx, w.configMap(req.Key, s.Spec.Title))
		}), append([]controller.Option{maps.Owns(), controller.WithBackoff(5*time.Millisecond, 200*time.Millisecond),
		controller.WithResyncInterval(0), controller.WithGracePeriod(100 * time.Millisecond)}, opts...)...)
	must(w.t, err)
	return c
}

// writers write a ConfigMap in the two ways that there are.
var writers = map[string]func(*kube.Handle[*corev1.ConfigMap]) func(context.Context, *corev1.ConfigMap) error{
	"Apply": func(maps *kube.Handle[*corev1.ConfigMap]) func(context.Context, *corev1.ConfigMap) error {
		return func(ctx context.Context, m *corev1.ConfigMap) error {
			_, err := maps.Apply(ctx, m)
			return err
		}
	},
	"CreateOrUpdate": func(maps *kube.Handle[*corev1.ConfigMap]) func(context.Context, *corev1.ConfigMap) error {
		return func(ctx context.Context, m *corev1.ConfigMap) error {
			data := m.Data
			_, err := maps.CreateOrUpdate(ctx, m, func(m *corev1.ConfigMap) error {
				m.Data = data
				return nil
			})
			return err
		}
	},
}

// TestALateWriteOfAFormerLeaderIsRefused: it was on its way when the lease went, and arrives after the next leader has
// written.
func TestALateWriteOfAFormerLeaderIsRefused(t *testing.T) {
	t.Parallel()
	for name, writer := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client, late := w.lateClient(t, http.MethodPatch)
			first, second := w.maps(manager), w.mapsOver(client, manager)
			must(t, writer(first)(t.Context(), w.mine("settings", "one")))
			w.shows(first, "settings", w.liveMap("settings").ResourceVersion)
			w.shows(second, "settings", w.liveMap("settings").ResourceVersion)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- writer(second)(ctx, w.mine("settings", "two, too late")) }()
			natstest.Eventually(t, "it is on its way", late.isHeld)
			cancel()
			if err := <-ended; err == nil {
				t.Error("a write that was not answered succeeded")
			}
			must(t, writer(first)(t.Context(), w.mine("settings", "three")))
			if status := late.deliver(); status != http.StatusConflict {
				t.Errorf("it is answered %d, want a conflict", status)
			}
			if m := w.liveMap("settings"); m.Data["value"] != "three" {
				t.Errorf("the value is %q", m.Data["value"])
			}
		})
	}
}

// TestALateDeleteOfAFormerLeaderSparesWhatIsWantedAgain: the delete was on its way when the lease went. The primary was
// put again meanwhile, and its object is as the next leader wants it.
func TestALateDeleteOfAFormerLeaderSparesWhatIsWantedAgain(t *testing.T) {
	t.Parallel()
	for name, writer := range writers {
		for _, hesitates := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hesitates: %v", name, hesitates), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				client, late := w.lateClient(t, http.MethodDelete)
				maps := w.mapsOver(client)
				former := w.run(w.titled(maps, writer(maps), &calls{}, false))
				must(t, w.sites.Create(t.Context(), newSite("home")))
				natstest.Eventually(t, "the object is there", func() bool { return w.liveMap("home") != nil })
				must(t, w.sites.Delete(t.Context(), "home"))
				natstest.Eventually(t, "its delete is on its way", late.isHeld)
				must(t, w.sites.Create(t.Context(), newSite("home")))
				former.halt()
				w.sparesFrom(late, writer, hesitates)
			})
		}
	}
}

// TestALateDeleteOfASweepSparesWhatIsWanted: its primary did not exist when the sweep began.
func TestALateDeleteOfASweepSparesWhatIsWanted(t *testing.T) {
	t.Parallel()
	for name, writer := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.were("home")
			client, late := w.lateClient(t, http.MethodDelete)
			maps := w.mapsOver(client, kube.WithFieldManager("sites"))
			c := w.titled(maps, writer(maps), &calls{}, false, controller.WithResyncInterval(50*time.Millisecond))
			former := w.run(c)
			natstest.Eventually(t, "its id is known", func() bool { return c.Instance() != "" })
			must(t, writer(maps)(t.Context(), of(w.configMap("home", "home"), "home", c.Instance())))
			natstest.Eventually(t, "its delete is on its way", late.isHeld)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			former.halt()
			w.sparesFrom(late, writer, false)
		})
	}
}

// sparesFrom starts the next leader, which reconciles the site, and checks that the late delete of its object is
// refused and that the object was not written more than once.
func (w *world) sparesFrom(
	late *late, writer func(*kube.Handle[*corev1.ConfigMap]) func(context.Context, *corev1.ConfigMap) error,
	hesitates bool,
) {
	w.t.Helper()
	var seen calls
	before := w.liveMap("home")
	maps := w.maps()
	next := w.titled(maps, writer(maps), &seen, hesitates)
	w.run(next)
	runs := 1
	if hesitates {
		runs = 2 // between them, while the outcome of the first is written, nothing is to be done either
	}
	w.quiet(next, &seen, "home", runs)
	if status := late.deliver(); status != http.StatusConflict {
		w.t.Errorf("it is answered %d, want a conflict", status)
	}
	after := w.liveMap("home")
	if after == nil || after.UID != before.UID {
		w.t.Fatal("the object is gone, though its site exists")
	}
	// Once is enough: nothing is written for what comes after.
	next.Enqueue("home", controller.OperationManual)
	natstest.Eventually(w.t, "it is reconciled once more", func() bool {
		return seen.with("home", controller.OperationManual) > 0 && next.Stats().Running == 0
	})
	if now := w.liveMap("home").ResourceVersion; now != after.ResourceVersion {
		w.t.Errorf("it was written again: %s, then %s", after.ResourceVersion, now)
	}
}

// quiet waits until a key was reconciled so often and nothing is to be done.
func (w *world) quiet(c *controller.Controller[*site], seen *calls, key string, runs int) {
	w.t.Helper()
	natstest.Eventually(w.t, "it is reconciled, and nothing is to be done", func() bool {
		record, err := w.sites.Record(w.t.Context(), key)
		s := c.Stats()
		return err == nil && record.Anchor() && seen.count(key) >= runs && s.Running == 0 && s.Ready == [3]int{} &&
			s.Delayed == 0
	})
}
