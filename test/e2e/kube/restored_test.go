package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inSilence is eventually for an informer to which nothing comes: nobody wonders before 90 s are over.
func inSilence(t testing.TB, what string, holds func() bool) {
	t.Helper()
	const patience = 4 * time.Minute
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

// relister ends watches as an API server does that has forgotten their resource version, so that informers list again.
type relister struct {
	mu   sync.Mutex
	open []io.Closer
	gone int // how many watches to answer with 410
}

// relisting makes the clients of the world anew.
func (w *world) relisting() *relister {
	w.t.Helper()
	r := &relister{}
	cfg := w.server.Config()
	cfg.Wrap(w.requests.count)
	cfg.Wrap(r.wrap)
	w.use(cfg)
	return r
}

func (r *relister) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Query().Get("watch") == "" {
			return next.RoundTrip(req)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone > 0 {
			r.gone--
			return gone(req), nil
		}
		res, err := next.RoundTrip(req)
		if err == nil {
			r.open = append(r.open, res.Body)
		}
		return res, err
	})
}

// relist has all informers list again.
func (r *relister) relist() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.open {
		r.gone++
		_ = body.Close()
	}
	r.open = nil
}

func gone(req *http.Request) *http.Response {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
		`"reason":"Expired","code":410,"message":"too old resource version"}`
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
	}
}

// mapsOfSites is a controller that applies a ConfigMap for each site, with its title.
func (w *world) mapsOfSites(
	maps *kube.Handle[*corev1.ConfigMap], seen *calls, opts ...controller.Option,
) *controller.Controller[*site] {
	w.t.Helper()
	return w.applied(func(ctx context.Context, key string) error {
		s, err := w.sites.Lister().Get(key)
		if err == nil {
			_, err = maps.Apply(ctx, w.configMap(key, s.Spec.Title))
		}
		return err
	}, seen, append([]controller.Option{maps.Owns()}, opts...)...)
}

func (w *world) title(key, title string) {
	w.t.Helper()
	must(w.t, w.sites.Patch(w.t.Context(), key, fmt.Appendf(nil, `{"spec":{"title":%q}}`, title)))
}

// agrees reports how many ConfigMaps are missing, wrong and left over, as the API server has them.
func (w *world) agrees(titles map[string]string) (missing, wrong, left int) {
	w.t.Helper()
	list, err := w.clientset.CoreV1().ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{
		LabelSelector: "kumori/ownerkind=Site",
	})
	must(w.t, err)
	there := map[string]string{}
	for _, m := range list.Items {
		there[m.Name] = m.Data["value"]
		if _, wanted := titles[m.Name]; !wanted {
			left++
		}
	}
	for key, title := range titles {
		value, ok := there[key]
		switch {
		case !ok:
			missing++
		case value != title:
			wrong++
		}
	}
	return missing, wrong, left
}

// restored is a world whose etcd has gone back to before the last changes, which the informer has seen.
type restored struct {
	*world
	*relister
	maps   *kube.Handle[*corev1.ConfigMap]
	c      *controller.Controller[*site]
	seen   calls
	titles map[string]string
}

// restore makes and changes sites, and restores etcd to a moment in between: of what the sites want 6 are missing then,
// 10 wrong and 4 left.
func restore(t *testing.T) *restored {
	t.Helper()
	w := &restored{world: newWorldOn(t, kubetest.Start(t)), titles: map[string]string{}}
	w.relister = w.relisting()
	w.maps = w.world.maps()
	w.c = w.mapsOfSites(w.maps, &w.seen, controller.WithResyncInterval(2*time.Second))
	w.run(w.c)
	for i := range 14 {
		key := fmt.Sprint("site-", i)
		must(t, w.sites.Create(t.Context(), newSite(key)))
		w.titles[key] = key
	}
	natstest.Eventually(t, "all is there", func() bool { return w.wrong() == [3]int{} })
	backup := w.server.Backup(t)
	w.noise(300) // so that the API server does not come to the old version again by itself
	for i := range 20 {
		key := fmt.Sprint("site-", i)
		switch {
		case i < 10:
			w.titles[key] = "new"
			w.title(key, "new")
		case i < 14:
			delete(w.titles, key)
			must(t, w.sites.Delete(t.Context(), key))
		default:
			w.titles[key] = key
			must(t, w.sites.Create(t.Context(), newSite(key)))
		}
	}
	natstest.Eventually(t, "all is there", func() bool { return w.wrong() == [3]int{} && w.c.Stats().TornDown == 4 })
	natstest.Eventually(t, "the cache shows it", func() bool {
		shown := w.maps.Informer().GetStore().ListKeys()
		return len(shown) >= len(w.titles) && w.c.Stats().Running == 0
	})
	must(t, w.server.Restore(backup))
	if wrong := w.wrong(); wrong != [3]int{6, 10, 4} {
		t.Fatalf("%v are missing, wrong and left", wrong)
	}
	return w
}

func (w *restored) wrong() [3]int {
	missing, wrong, left := w.agrees(w.titles)
	return [3]int{missing, wrong, left}
}

// noise makes the API server's version go on.
func (w *world) noise(writes int) {
	w.t.Helper()
	w.createMap(w.configMap("noise", "0"))
	for n := range writes {
		w.updateMap("noise", func(m *corev1.ConfigMap) { m.Data["value"] = fmt.Sprint(n + 1) })
	}
}

const mapsSource = "OwnsKube configmaps/v1 (informer 1)"

// TestAnEtcdThatWasRestoredIsNoticed in a quiet world: the informer goes on watching from a version that is yet to
// come, and is told nothing. Nothing is torn down on its word until it has listed again; then all is mended.
func TestAnEtcdThatWasRestoredIsNoticed(t *testing.T) {
	t.Parallel()
	w := restore(t)
	inSilence(t, "the source is degraded", func() bool { return w.c.Stats().Degraded[mapsSource] != nil })
	says(t, w.c.Stats().Degraded[mapsSource], "older state", "restart the process", "a new informer")
	w.holdsATeardown("site-0")
	w.relist()
	natstest.Eventually(t, "all is mended", func() bool { return w.wrong() == [3]int{} && w.liveMap("site-0") == nil })
	natstest.Eventually(t, "all is calm", func() bool { return len(w.c.Stats().Degraded) == 0 && w.c.Stats().Orphaned == 0 })
}

// holdsATeardown deletes a site, and checks that its teardown waits and says for what.
func (w *restored) holdsATeardown(key string) {
	w.t.Helper()
	before, sweeps := w.c.Stats().TornDown, w.c.Stats().Sweeps
	must(w.t, w.sites.Delete(w.t.Context(), key))
	delete(w.titles, key)
	natstest.Eventually(w.t, "it is said why the teardown waits", func() bool {
		err := w.c.Stats().Degraded["teardown"]
		return err != nil && strings.Contains(err.Error(), "older state") && strings.Contains(err.Error(), key)
	})
	natstest.Eventually(w.t, "some sweeps have passed", func() bool { return w.c.Stats().Sweeps >= sweeps+2 })
	if n := w.c.Stats().TornDown; n != before || w.liveMap(key) == nil {
		w.t.Errorf("%d teardowns have ended by the word of the old cache", n-before)
	}
}

// TestAnOwnWriteShowsThatEtcdWasRestored at once, before anybody wonders at the silence: the API server gives it a
// version that the informer has passed.
func TestAnOwnWriteShowsThatEtcdWasRestored(t *testing.T) {
	t.Parallel()
	w := restore(t)
	w.titles["newest"] = "newest"
	must(t, w.sites.Create(t.Context(), newSite("newest")))
	natstest.Eventually(t, "the source is degraded", func() bool { return w.c.Stats().Degraded[mapsSource] != nil })
	says(t, w.c.Stats().Degraded[mapsSource], "older state", "restart the process", "a new informer")
	w.relist()
	natstest.Eventually(t, "all is mended", func() bool { return w.wrong() == [3]int{} })
	natstest.Eventually(t, "all is calm", func() bool { return len(w.c.Stats().Degraded) == 0 })
}

// TestARestoredEtcdThatCatchesUpIsNotTakenForMended: the API server comes to the informer's version, and the watch goes
// on. What lies between has never been shown.
func TestARestoredEtcdThatCatchesUpIsNotTakenForMended(t *testing.T) {
	t.Parallel()
	w := restore(t)
	must(t, w.sites.Create(t.Context(), newSite("newest")))
	w.titles["newest"] = "newest"
	natstest.Eventually(t, "the source is degraded", func() bool { return w.c.Stats().Degraded[mapsSource] != nil })
	before := w.maps.Informer().LastSyncResourceVersion()
	w.noise(600)
	natstest.Eventually(t, "the watch goes on", func() bool { return w.maps.Informer().LastSyncResourceVersion() != before })
	w.holdsATeardown("site-0")
	stays(t, 15*time.Second, "it is degraded", func() bool { return w.c.Stats().Degraded[mapsSource] != nil })
	w.relist()
	inSilence(t, "all is mended", func() bool {
		return w.wrong() == [3]int{} && len(w.c.Stats().Degraded) == 0
	})
}
