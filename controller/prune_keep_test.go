package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/cache"
)

// TestAKeyThatCannotBeThereIsAnError of the reconcile, and prevents the prune: who keeps "old" for "shop/old" means to
// keep it.
func TestAKeyThatCannotBeThereIsAnError(t *testing.T) {
	for _, test := range []struct {
		namespaced bool
		keys       []string
	}{
		{true, []string{"shop.old", "old", "shop/old/", "shop/", "/old", "", "a.b/old"}},
		{false, []string{"shop/old", "old/", "/old", "", "o ld", ".old"}},
	} {
		t.Run(fmt.Sprintf("namespaced %v", test.namespaced), func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				k := newKept(t, test.namespaced)
				for _, key := range test.keys {
					k.keep(func(ctx context.Context) { Keep(ctx, k.pages, key) })
					k.refused(fmt.Sprintf("%q", key), "Keep", "bucket pages")
				}
				k.keep(func(ctx context.Context) { Keep(ctx, k.pages, k.key("old")) })
				k.result.eventually(t)
				k.keep(func(ctx context.Context) { Keep(ctx, k.pages) })
				natstest.Eventually(t, "what nobody keeps goes", func() bool {
					return !exists(t, k.pages, k.key("old"))
				})
			})
		})
	}
}

// TestAKeyThatNoKubernetesObjectCanHaveIsAnError: that objects are namespaced is known from what there is.
func TestAKeyThatNoKubernetesObjectCanHaveIsAnError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, cluster, result := w.sites(), newCluster(t), &lastResult{}
		_, same := kubeInformer(t)
		var key atomic.Value
		key.Store("shop/old")
		var informer atomic.Value
		informer.Store(cluster.informer)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			KeepKube(ctx, informer.Load().(cache.SharedIndexInformer), key.Load().(string))
			return Result{}, nil
		}), OwnsKube(cluster.informer, WithDeleter(cluster), WithPrune()), result.option(), quickRetries)
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		cluster.Add(w.ownedMap("old", "home"))
		natstest.Eventually(t, "it is there", func() bool { return cluster.has("old") })
		refused := func(says ...string) {
			t.Helper()
			c.Enqueue("home", OperationManual)
			result.eventually(t, says...)
		}
		key.Store("old")
		refused(`"old"`, "KeepKube")
		key.Store("shop/old")
		informer.Store(same)
		refused("KeepKube: the informer is none of this controller's", "OwnsKube")
		informer.Store(cluster.informer)
		refused()
		if !cluster.has("old") || len(cluster.asked()) > 0 {
			t.Errorf("%d deletes; what was kept is there: %v", len(cluster.asked()), cluster.has("old"))
		}
		key.Store("shop/new")
		c.Enqueue("home", OperationManual)
		natstest.Eventually(t, "what nobody keeps goes", func() bool { return !cluster.has("old") })
	})
}

// kept is a site "home" that has a page "new", and owns "old" that it does not write any more.
type kept struct {
	*world
	namespaced bool
	sites      *entity.Client[*site]
	pages      *entity.Client[*page]
	c          *Controller[*site]
	result     lastResult

	mu   sync.Mutex
	says func(context.Context)
}

func newKept(t *testing.T, namespaced bool) *kept {
	k := &kept{world: newWorld(t), namespaced: namespaced}
	in := func(cfg *entity.Config) { cfg.Namespaced = namespaced }
	k.sites, k.pages = k.client("Site", "sites", in), k.client("Page", "pages", in)
	k.says = func(ctx context.Context) { Keep(ctx, k.pages, k.key("old")) }
	c, err := New("sites", k.sites, ReconcilerFunc(k.reconcile), Owns(k.pages, WithPrune()), k.result.option(),
		quickRetries)
	must(t, err)
	k.c = c
	k.run(c)
	must(t, k.sites.Create(t.Context(), k.object("home")))
	k.reconciled()
	old := k.object("old")
	c.SetOwner(old, k.key("home"))
	must(t, k.pages.Create(t.Context(), old))
	k.reconciled()
	return k
}

func (k *kept) key(name string) string {
	if k.namespaced {
		return "shop/" + name
	}
	return name
}

func (k *kept) object(name string) *site {
	s := newSite(name, "")
	if k.namespaced {
		s.Namespace = "shop"
	}
	return s
}

func (k *kept) reconcile(ctx context.Context, _ Request) (Result, error) {
	_, err := CreateOrUpdate(ctx, k.pages, k.object("new"), func(*page) error { return nil })
	k.mu.Lock()
	says := k.says
	k.mu.Unlock()
	says(ctx)
	return Result{}, err
}

// keep has the next reconcile say what it keeps.
func (k *kept) keep(says func(context.Context)) {
	k.mu.Lock()
	k.says = says
	k.mu.Unlock()
	k.c.Enqueue(k.key("home"), OperationManual)
}

// refused waits until the record says what is wrong, and finds everything as it was.
func (k *kept) refused(says ...string) {
	k.t.Helper()
	k.result.eventually(k.t, says...)
	if n := k.c.Stats().Pruned; n > 0 || !exists(k.t, k.pages, k.key("old")) {
		k.t.Errorf("%v: pruned %d; the page is there: %v", says, n, exists(k.t, k.pages, k.key("old")))
	}
}

func (k *kept) reconciled() {
	k.t.Helper()
	eventuallyReason(k.t, k.sites, k.key("home"), entity.ReasonSynced)
}

// quickRetries has an attempt follow soon on one that failed.
var quickRetries = WithBackoff(5*time.Millisecond, 50*time.Millisecond)

// lastResult is how the last reconcile ended.
type lastResult struct{ err atomic.Value }

func (l *lastResult) option() Option {
	return WithOnResult(func(r ReconcileResult) { l.err.Store(fmt.Sprint(r.Err)) })
}

// eventually waits until a reconcile ends with an error that says all that; without an error if it is to say nothing.
func (l *lastResult) eventually(t *testing.T, says ...string) {
	t.Helper()
	message := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last error is %q", message)
		}
	}()
	natstest.Eventually(t, fmt.Sprintf("the error says %q", says), func() bool {
		message, _ = l.err.Load().(string)
		lacks := func(text string) bool { return !strings.Contains(message, text) }
		if len(says) == 0 {
			return message == fmt.Sprint(error(nil))
		}
		return !slices.ContainsFunc(says, lacks)
	})
}
