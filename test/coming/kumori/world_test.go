package kumori

import (
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a server with clients, and what the controllers on it were called for.
type world struct {
	*testing.T
	Clients
	mu     sync.Mutex
	synced []string // "home Put"
}

func client[T entity.IEntity](t *testing.T, url, kind, bucket string) *entity.Client[T] {
	t.Helper()
	_, js := natstest.Connect(t, url)
	c, err := entity.NewClient[T](t.Context(), js, entity.Config{Kind: kind, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := natstest.Start(t).URL()
	return &world{T: t, Clients: Clients{
		Sites: client[*Site](t, url, "Site", "sites"),
		Pages: client[*Page](t, url, "Page", "pages"), Themes: client[*Theme](t, url, "Theme", "themes"),
	}}
}

// noting is the page's controller, which notes what it was called for. sync is called in place of its SyncHandler, unless
// it is nil; the world's mutex guards it.
type noting struct {
	*SiteController
	w    *world
	sync func(key string) error
}

func (n *noting) SyncHandler(key string) error {
	n.w.mu.Lock()
	n.w.synced = append(n.w.synced, key+" "+n.Operations(key).String())
	sync := n.sync
	n.w.mu.Unlock()
	if sync != nil {
		return sync(key)
	}
	return n.SiteController.SyncHandler(key)
}

// syncBy has sync called from now on.
func (n *noting) syncBy(sync func(key string) error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.sync = sync
}

func (w *world) controller(sync func(key string) error) *noting {
	n := &noting{SiteController: NewSiteController(w.Clients), w: w, sync: sync}
	n.SetCustomController(n)
	return n
}

// run runs a controller for a second, and on until stop is called or the test ends.
func (w *world) run(c controllerruntime.IController) (stop func()) {
	w.Helper()
	stopCh, errCh, ended := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(2, stopCh, errCh)
	}()
	stop = sync.OnceFunc(func() {
		close(stopCh)
		<-ended
		select {
		case err := <-errCh:
			w.Errorf("Run: %v", err)
		default:
		}
	})
	w.Cleanup(stop)
	time.Sleep(time.Second)
	return stop
}

// since returns what was synced since it was called last.
func (w *world) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.synced
	w.synced = nil
	return all
}

func (w *world) do(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Second)
}

func (w *world) site(name string) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: SiteSpec{Title: name}}
}

func (w *world) page(name string) bool {
	w.Helper()
	_, err := w.Pages.Get(w.Context(), name)
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}
