package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// halfOpenable returns a handle whose informer has a way of its own to the API server, over HTTP/1.1: client-go pings
// idle connections of HTTP/2 only. The proxy can make it half-open.
func (w *world) halfOpenable() (*kube.Handle[*corev1.ConfigMap], *natstest.Proxy) {
	w.t.Helper()
	cfg := w.server.Config()
	proxy := natstest.StartProxy(w.t, cfg.Host)
	cfg.Host = "https://" + strings.TrimPrefix(proxy.URL(), "nats://")
	cfg.NextProtos = []string{"http/1.1"}
	clientset, err := kubernetes.NewForConfig(cfg)
	must(w.t, err)
	informer := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithNamespace(w.namespace)).Core().V1().ConfigMaps().Informer()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
	must(w.t, err)
	w.start(informer)
	w.awaitSync(informer)
	return maps, proxy
}

// awaitShown waits until the informer itself shows an object.
func (w *world) awaitShown(maps *kube.Handle[*corev1.ConfigMap], name string) {
	w.t.Helper()
	natstest.Eventually(w.t, "the informer shows it", func() bool {
		_, shown, err := maps.Informer().GetStore().GetByKey(w.key(name))
		return shown && err == nil
	})
}

// TestAHalfOpenWatchIsNoticedByOwnWrites that it does not show, before anybody wonders at the silence. Nothing is torn
// down on the informer's word until the watch goes on.
func TestAHalfOpenWatchIsNoticedByOwnWrites(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*world){
		"update": func(w *world) { w.title("home", "new") },
		"create": func(w *world) { must(w.t, w.sites.Create(w.t.Context(), newSite("away"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps, proxy := w.halfOpenable()
			var seen calls
			c := w.mapsOfSites(maps, &seen, controller.WithResyncInterval(2*time.Second))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			w.awaitShown(maps, "home")
			proxy.Blackhole()
			write(w)
			natstest.Eventually(t, "the source is degraded", func() bool { return c.Stats().Degraded[mapsSource] != nil })
			says(t, c.Stats().Degraded[mapsSource], "stands still", "restart the process", "a new informer")
			must(t, w.sites.Delete(t.Context(), "home"))
			natstest.Eventually(t, "it is said why the teardown waits", func() bool {
				err := c.Stats().Degraded["teardown"]
				return err != nil && strings.Contains(err.Error(), "stands still")
			})
			if c.Stats().TornDown > 0 || w.liveMap("home") == nil {
				t.Error("the teardown has ended by the word of the old cache")
			}
			proxy.Resume()
			natstest.Eventually(t, "all is calm", func() bool {
				return len(c.Stats().Degraded) == 0 && c.Stats().TornDown == 1 && w.liveMap("home") == nil
			})
		})
	}
}

// TestTheSweepLeavesAloneWhatAHalfOpenWatchShows, and takes it when the watch goes on.
func TestTheSweepLeavesAloneWhatAHalfOpenWatchShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps, proxy := w.halfOpenable()
	w.were("nobody")
	var seen calls
	c := w.mapsOfSites(maps, &seen, controller.WithResyncInterval(45*time.Second))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	w.awaitShown(maps, "home")
	natstest.Eventually(t, "the first sweep is over", func() bool { return c.Stats().Sweeps == 1 })
	orphan := w.configMap("orphan", "one")
	c.SetOwner(orphan, "nobody")
	w.createMap(orphan)
	w.awaitShown(maps, "orphan")
	proxy.Blackhole()
	w.title("home", "new")
	natstest.Eventually(t, "the source is degraded", func() bool { return c.Stats().Degraded[mapsSource] != nil })
	natstest.Eventually(t, "the next sweep is over", func() bool { return c.Stats().Sweeps == 2 })
	if n := c.Stats().Orphaned; n != 1 {
		t.Errorf("the sweep found %d orphans, so this shows nothing", n)
	}
	stays(t, 3*time.Second, "the orphan is there", func() bool { return w.liveMap("orphan") != nil })
	proxy.Resume()
	natstest.Eventually(t, "the source works again", func() bool { return c.Stats().Degraded[mapsSource] == nil })
	natstest.Eventually(t, "the orphan is swept", func() bool { return w.liveMap("orphan") == nil })
}

// TestAHalfOpenWatchIsNoticedWhereOthersWrite: the informer is silent for longer than bookmarks allow, and the API
// server has gone on.
func TestAHalfOpenWatchIsNoticedWhereOthersWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps, proxy := w.halfOpenable()
	var seen calls
	c := w.mapsOfSites(maps, &seen)
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	w.awaitShown(maps, "home")
	proxy.Blackhole()
	w.updateMap("home", func(m *corev1.ConfigMap) { m.Data["value"] = "drifted" })
	inSilence(t, "the source is degraded", func() bool { return c.Stats().Degraded[mapsSource] != nil })
	says(t, c.Stats().Degraded[mapsSource], "stands still", w.key("home"))
	proxy.Resume()
	natstest.Eventually(t, "all is mended", func() bool {
		return len(c.Stats().Degraded) == 0 && w.liveMap("home").Data["value"] == "home"
	})
}

// TestAQuietInformerIsNotTakenForAHalfOpenOne while others write in other namespaces. It costs a probe at times, and
// never a list of all.
func TestAQuietInformerIsNotTakenForAHalfOpenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	news := make(chan error, 100)
	var seen calls
	c := w.mapsOfSites(maps, &seen, newsOfKube(news))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	w.awaitShown(maps, "home")
	elsewhere := newWorld(t)
	before, n := w.requests.of("GET configmaps"), 0
	stays(t, 3*time.Minute, "nothing is degraded", func() bool {
		if n++; n%50 == 0 {
			m := elsewhere.configMap(fmt.Sprint("map-", n), "one")
			c.SetOwner(m, "home")
			elsewhere.createMap(m)
		}
		return len(news) == 0
	})
	if n := w.requests.of("GET configmaps") - before; n > 2 {
		t.Errorf("%d requests to read ConfigMaps, want a probe after each 90 s of silence", n)
	}
}

// TestAnOwnWriteThatTheInformerDoesNotCoverIsNotTakenForAHalfOpenWatch.
func TestAnOwnWriteThatTheInformerDoesNotCoverIsNotTakenForAHalfOpenWatch(t *testing.T) {
	t.Parallel()
	w, elsewhere := newWorld(t), newWorld(t)
	maps := w.maps()
	news := make(chan error, 100)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		m := w.configMap(key, "one")
		if key == "away" {
			m.Namespace = elsewhere.namespace
		}
		_, err := maps.Apply(ctx, m)
		return err
	}, &seen, maps.Owns(), newsOfKube(news))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	w.awaitShown(maps, "home")
	must(t, w.sites.Create(t.Context(), newSite("away")))
	natstest.Eventually(t, "it is there", func() bool { return elsewhere.liveMap("away") != nil })
	before := w.requests.of("GET configmaps")
	stays(t, 30*time.Second, "nothing is degraded", func() bool { return len(news) == 0 })
	if n := w.requests.of("GET configmaps") - before; n > 2 {
		t.Errorf("%d requests to read ConfigMaps, want at most two comparisons", n)
	}
}
