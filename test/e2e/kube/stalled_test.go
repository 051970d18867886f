package kube

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gate holds back the watches' events, as a half-open connection or an API server that lags does.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

// gated makes the clients of the world anew, with an open gate.
func (w *world) gated() *gate {
	w.t.Helper()
	g := &gate{open: make(chan struct{})}
	close(g.open)
	cfg := w.server.Config()
	cfg.Wrap(w.requests.count)
	cfg.Wrap(g.wrap)
	w.use(cfg)
	w.t.Cleanup(g.lift)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) await() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(req)
		if err == nil && req.URL.Query().Get("watch") != "" {
			res.Body = gatedBody{res.Body, g}
		}
		return res, err
	})
}

type gatedBody struct {
	io.ReadCloser
	gate *gate
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.await()
	return n, err
}

// TestATeardownDeletesWhatTheCacheDoesNotShow: the watch stalls, and a site is made and deleted before the cache shows
// its ConfigMap. A handle knows that it wrote it. A plain deleter, for which others write, asks the API server.
func TestATeardownDeletesWhatTheCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	for name, owns := range map[string]func(*world, *kube.Handle[*corev1.ConfigMap]) controller.Option{
		"handle": func(_ *world, maps *kube.Handle[*corev1.ConfigMap]) controller.Option {
			return maps.Owns()
		},
		"plain deleter": func(w *world, maps *kube.Handle[*corev1.ConfigMap]) controller.Option {
			return controller.OwnsKube(maps.Informer(), controller.WithDeleter(kube.Deleter(w.dynamic, configMaps)))
		},
	} {
		for _, key := range []string{
			"home", "a-site-whose-name-is-far-too-long-to-be-the-value-of-a-label-so-it-is-hashed",
		} {
			t.Run(fmt.Sprint(name, " ", len(key)), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				g := w.gated()
				maps := w.maps()
				var seen calls
				c := w.applied(func(ctx context.Context, _ string) error {
					_, err := maps.Apply(ctx, w.configMap("settings", "one"))
					return err
				}, &seen, owns(w, maps))
				w.run(c)
				w.createMap(of(w.configMap("others", "one"), key, "another-installation"))
				g.shut()
				must(t, w.sites.Create(t.Context(), newSite(key)))
				natstest.Eventually(t, "it is there", func() bool { return w.liveMap("settings") != nil })
				must(t, w.sites.Delete(t.Context(), key))
				natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
				if w.liveMap("settings") != nil {
					t.Error("what it owned is left, and nothing will ever delete it")
				}
				if w.liveMap("others") == nil {
					t.Error("another installation's object went with it")
				}
			})
		}
	}
}

// TestAStalledWatchHoldsUpNobodyElse: keys whose last writes the cache does not show wait for it without a worker.
func TestAStalledWatchHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gated()
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		if key == "fine" {
			return nil
		}
		_, err := maps.Apply(ctx, w.configMap(key, fmt.Sprint(seen.count(key))))
		return err
	}, &seen, maps.Owns(), controller.WithWorkers(2))
	w.run(c)
	g.shut()
	const stalled = 4 // more than there are workers; many of them take so long that the first gives up waiting
	for i := range stalled {
		must(t, w.sites.Create(t.Context(), newSite(fmt.Sprint("site-", i))))
	}
	for i := range stalled {
		natstest.Eventually(t, "all have written", func() bool { return seen.count(fmt.Sprint("site-", i)) == 1 })
	}
	for i := range stalled {
		must(t, w.sites.Patch(t.Context(), fmt.Sprint("site-", i), []byte(`{"spec":{"title":"new"}}`)))
	}
	must(t, w.sites.Create(t.Context(), newSite("fine")))
	natstest.Eventually(t, "the other one is reconciled", func() bool { return seen.count("fine") > 0 })
	for i := range stalled {
		if n := seen.count(fmt.Sprint("site-", i)); n != 1 {
			t.Errorf("site-%d was reconciled %d times: by then the others had given up waiting, so this shows nothing",
				i, n)
		}
	}
	g.lift()
	for i := range stalled {
		natstest.Eventually(t, "all go on", func() bool { return seen.count(fmt.Sprint("site-", i)) > 1 })
	}
}

// TestAReconcileDoesNotWaitForeverForACache that is cut off: it runs with the old objects.
func TestAReconcileDoesNotWaitForeverForACache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gated()
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap(key, fmt.Sprint(seen.count(key))))
		return err
	}, &seen, maps.Owns())
	w.run(c)
	g.shut()
	begin := time.Now() // before the write, from which on the cache is waited for
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it has written", func() bool { return seen.count("home") == 1 && w.liveMap("home") != nil })
	must(t, w.sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"new"}}`)))
	natstest.Eventually(t, "it runs all the same", func() bool { return seen.count("home") == 2 })
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("after %v: it did not wait for the cache", took)
	}
}

// TestWhatTheInformerDoesNotCoverIsDeletedWithItsOwner by the process that wrote it. The process also reports that the
// informer does not show it.
func TestWhatTheInformerDoesNotCoverIsDeletedWithItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := w.namespace + "-elsewhere"
	_, err := w.clientset.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: elsewhere},
	}, metav1.CreateOptions{})
	must(t, err)
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, _ string) error {
		m := w.configMap("settings", "one")
		m.Namespace = elsewhere
		_, err := maps.Apply(ctx, m)
		return err
	}, &seen, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	there := func() bool {
		_, err := w.clientset.CoreV1().ConfigMaps(elsewhere).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil && !isNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	natstest.Eventually(t, "it is there", there)
	noise := w.createMap(w.configMap("noise", "one"))
	w.shows(maps, "noise", noise.ResourceVersion) // so the cache is no longer behind
	c.Enqueue("home", controller.OperationManual)
	natstest.Eventually(t, "it is counted", func() bool { return c.Stats().Uncovered > 0 })
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	if there() {
		t.Error("it is left")
	}
}
