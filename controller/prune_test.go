package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// pruned is a controller whose sites name their pages in their titles: "a,b" has the pages home.a and home.b.
type pruned struct {
	*world
	sites  *entity.Client[*site]
	pages  *entity.Client[*page]
	prefix atomic.Value // of the pages' names
	c      *Controller[*site]
	r      *running
	also   atomic.Value // func(ctx, req) (Result, error), at the end of a reconcile

	transform cache.TransformFunc // of the pages' informer; nil: none
}

func newPruned(t *testing.T, opts ...Option) *pruned { return newPrunedThrough(t, nil, opts...) }

// newPrunedThrough is newPruned with a transform of the pages' informer.
func newPrunedThrough(t *testing.T, transform cache.TransformFunc, opts ...Option) *pruned {
	p := &pruned{world: newWorld(t), transform: transform}
	p.prefix.Store("")
	p.also.Store(func(context.Context, Request) (Result, error) { return Result{}, nil })
	p.begin(opts...)
	return p
}

// begin runs a controller of a new process.
func (p *pruned) begin(opts ...Option) {
	p.t.Helper()
	p.sites, p.pages = p.world.sites(), p.world.pages()
	if p.transform != nil {
		must(p.t, p.pages.Informer().SetTransform(p.transform))
	}
	c, err := New("sites", p.sites, ReconcilerFunc(p.reconcile), slices.Concat([]Option{
		Owns(p.pages, WithPrune()), WithBackoff(5*time.Millisecond, 50*time.Millisecond),
	}, opts)...)
	must(p.t, err)
	p.c, p.r = c, p.run(c)
}

func (p *pruned) reconcile(ctx context.Context, req Request) (Result, error) {
	s, err := p.sites.Lister().Get(req.Key)
	if err != nil {
		return Result{}, nil
	}
	for _, title := range strings.Split(s.Spec.Title, ",") {
		if title == "" {
			continue
		}
		wanted := newSite(p.prefix.Load().(string)+req.Key+"."+title, "")
		if _, err := CreateOrUpdate(ctx, p.pages, wanted, func(*page) error { return nil }); err != nil {
			return Result{}, err
		}
	}
	return p.also.Load().(func(context.Context, Request) (Result, error))(ctx, req)
}

func (p *pruned) retitle(name, title string) {
	p.t.Helper()
	must(p.t, p.sites.Patch(p.t.Context(), name, []byte(fmt.Sprintf(`{"spec":{"title":%q}}`, title))))
}

func (p *pruned) names() []string {
	p.t.Helper()
	list, err := p.pages.List(p.t.Context())
	must(p.t, err)
	names := make([]string, 0, len(list))
	for _, obj := range list {
		names = append(names, obj.Name)
	}
	slices.Sort(names)
	return names
}

func (p *pruned) eventuallyPages(what string, names ...string) {
	p.t.Helper()
	natstest.Eventually(p.t, what, func() bool { return slices.Equal(p.names(), names) })
}

// reconciled waits until the site is reconciled as it is now, and everything is quiet.
func (p *pruned) reconciled(name string) {
	p.t.Helper()
	obj, err := p.sites.Get(p.t.Context(), name)
	must(p.t, err)
	must(p.t, entity.WaitReconciled(p.t.Context(), p.sites, name, uint64(obj.Generation)))
}

// resync reconciles a site once more, without a reason.
func (p *pruned) resync(name string) {
	p.t.Helper()
	before := p.c.Stats().Reconciles
	p.c.Enqueue(name, OperationRetry)
	natstest.Eventually(p.t, "it is reconciled again", func() bool {
		s := p.c.Stats()
		return s.Reconciles > before && s.Running == 0 && s.Ready == [3]int{}
	})
}

// TestASecondaryUnderItsOldNameGoes, and nothing else does.
func TestASecondaryUnderItsOldNameGoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPruned(t)
		ctx := t.Context()
		must(t, p.sites.Create(ctx, newSite("home", "a,b")))
		must(t, p.sites.Create(ctx, newSite("shop", "a")))
		p.eventuallyPages("they have their pages", "home.a", "home.b", "shop.a")
		must(t, p.pages.Create(ctx, newSite("somebodys", "")))
		must(t, p.pages.Create(ctx, foreignPage("theirs", "home")))
		p.retitle("home", "b,c")
		p.eventuallyPages("the old name goes", "home.b", "home.c", "shop.a", "somebodys", "theirs")
		p.reconciled("home")
		natstest.Eventually(t, "it is counted", func() bool { return p.c.Stats().Pruned > 0 })
		if s := p.c.Stats(); s.Pruned != 1 || s.Cascaded != 0 || s.Failures != 0 || s.Brake.Engaged {
			t.Errorf("pruned %d, cascaded %d, %d failures, brake %+v", s.Pruned, s.Cascaded, s.Failures, s.Brake)
		}
		p.resync("home")
		if s := p.c.Stats(); s.Pruned != 1 {
			t.Errorf("a calm reconcile pruned: %d", s.Pruned)
		}
		must(t, p.sites.Delete(ctx, "home"))
		p.eventuallyPages("the teardown goes on as ever", "shop.a", "somebodys", "theirs")
	})
}

// TestAReconcileThatIsNotDoneOrSaysNothingPrunesNothing.
func TestAReconcileThatIsNotDoneOrSaysNothingPrunesNothing(t *testing.T) {
	type result = func(context.Context, Request) (Result, error)
	for name, test := range map[string]struct {
		also  func(p *pruned) result
		title string
		goes  bool
	}{
		"an error": {func(*pruned) result {
			return func(context.Context, Request) (Result, error) { return Result{}, errors.New("not yet") }
		}, "b", false},
		"a requeue": {func(*pruned) result {
			return func(context.Context, Request) (Result, error) { return Result{RequeueAfter: time.Hour}, nil }
		}, "b", false},
		"kept": {func(p *pruned) result {
			return func(ctx context.Context, _ Request) (Result, error) {
				Keep(ctx, p.pages, "home.a")
				return Result{}, nil
			}
		}, "b", false},
		"nothing said": {func(*pruned) result {
			return func(context.Context, Request) (Result, error) { return Result{}, nil }
		}, "", false},
		"nothing wanted": {func(p *pruned) result {
			return func(ctx context.Context, _ Request) (Result, error) {
				Keep(ctx, p.pages)
				return Result{}, nil
			}
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				p := newPruned(t)
				must(t, p.sites.Create(t.Context(), newSite("home", "a")))
				p.eventuallyPages("it has its page", "home.a")
				p.reconciled("home")
				p.also.Store(test.also(p))
				p.retitle("home", test.title)
				if test.goes {
					p.eventuallyPages("it goes")
					return
				}
				if test.title != "" {
					natstest.Eventually(t, "it has the new page", func() bool {
						return slices.Contains(p.names(), "home.b")
					})
				}
				p.resync("home")
				time.Sleep(time.Minute) // longer than the brake takes to decide
				if !slices.Contains(p.names(), "home.a") || p.c.Stats().Pruned != 0 {
					t.Errorf("left are %v, pruned %d", p.names(), p.c.Stats().Pruned)
				}
			})
		})
	}
}

// TestAControllerWithOtherNamesWaitsForARelease: a new version renames the pages of all sites.
func TestAControllerWithOtherNamesWaitsForARelease(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const sites = 30
		p := newPruned(t)
		before, after := map[string]bool{}, map[string]bool{}
		for i := range sites {
			name := fmt.Sprintf("site%02d", i)
			must(t, p.sites.Create(t.Context(), newSite(name, "a")))
			before[name+".a"], after["new."+name+".a"] = true, true
		}
		p.eventuallyPages("all have their pages", slices.Sorted(maps.Keys(before))...)
		p.r.halt()

		p.prefix.Store("new.")
		p.also.Store(func(context.Context, Request) (Result, error) {
			time.Sleep(20 * time.Millisecond) // so that the brake could decide about the first ones meanwhile
			return Result{}, nil
		})
		p.begin()
		natstest.Eventually(t, "the brake engages for all", func() bool { return p.c.Stats().Brake.Pruned == sites })
		if names := p.names(); len(names) != 2*sites || p.c.Stats().Pruned != 0 {
			t.Errorf("%d pages, %d pruned; want all", len(names), p.c.Stats().Pruned)
		}
		natstest.Eventually(t, "the record says what it waits for", func() bool {
			record, err := p.sites.Record(t.Context(), "site00")
			must(t, err)
			condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled)
			return condition != nil && condition.Status == metav1.ConditionFalse &&
				strings.Contains(condition.Message, `the brake, before Owns Page (bucket pages) "site00.a" goes`)
		})
		if e := p.c.Explain("site00"); !e.HoldsPrune || !strings.Contains(e.Says, "no longer wants") {
			t.Errorf("explained: %+v", e)
		}
		if problem := p.c.Stats().Degraded["brake"]; problem == nil ||
			!strings.Contains(problem.Error(), "30 of 30 primaries do not want any more what they own") {
			t.Errorf("degraded: %v", problem)
		}
		must(t, p.c.ReleaseBrake(t.Context()))
		p.eventuallyPages("the old ones go", slices.Sorted(maps.Keys(after))...)
		p.reconciled("site00")
		natstest.Eventually(t, "all are counted", func() bool { return p.c.Stats().Pruned >= sites })
		if s := p.c.Stats(); s.Brake.Engaged || s.Pruned != sites {
			t.Errorf("pruned %d, brake %+v", s.Pruned, s.Brake)
		}
	})
}

// TestAPruneIsHeldNoLongerThanItsPrimaryIsThere: its teardown deletes what was held, and there is nothing to release.
func TestAPruneIsHeldNoLongerThanItsPrimaryIsThere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const sites = 12
		p := newPruned(t)
		for i := range sites {
			must(t, p.sites.Create(t.Context(), newSite(siteName(i), "a")))
		}
		natstest.Eventually(t, "all have their pages", func() bool { return len(p.names()) == sites })
		p.r.halt()
		p.prefix.Store("new.")
		p.begin(WithResyncInterval(0))
		natstest.Eventually(t, "the brake engages for all", func() bool { return p.c.Stats().Brake.Pruned == sites })
		for i := range sites {
			must(t, p.sites.Delete(t.Context(), siteName(i)))
		}
		natstest.Eventually(t, "all are torn down", func() bool {
			return p.c.Stats().TornDown == sites && len(p.names()) == 0
		})
		natstest.Eventually(t, "the brake holds nothing", func() bool {
			s := p.c.Stats()
			return !s.Brake.Engaged && s.Degraded["brake"] == nil
		})
	})
}

// TestRestoredDocumentsPruneNothing: of a backup that is older than the page, whose document did not want it yet.
func TestRestoredDocumentsPruneNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPruned(t)
		must(t, p.sites.Create(t.Context(), newSite("home", "a")))
		must(t, p.sites.Create(t.Context(), newSite("other", "a")))
		p.eventuallyPages("they have their pages", "home.a", "other.a")
		p.retitle("home", "a,b")
		p.eventuallyPages("it has another", "home.a", "home.b", "other.a")
		p.reconciled("home")
		p.r.halt()

		// The documents as they were, in a stream of another identity; records and pages stay.
		must(t, p.js.DeleteKeyValue(t.Context(), "sites"))
		kv, err := p.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
			Bucket: "sites", Storage: jetstream.MemoryStorage, LimitMarkerTTL: time.Hour,
		})
		must(t, err)
		for _, name := range []string{"home", "other"} {
			_, err := kv.Put(t.Context(), name, []byte(`{"spec":{"title":"a"}}`))
			must(t, err)
		}
		p.begin()
		natstest.Eventually(t, "the brake engages", func() bool { return p.c.Stats().Brake.Pruned == 1 })
		if names := p.names(); !slices.Contains(names, "home.b") {
			t.Errorf("left are %v", names)
		}
		must(t, p.c.ReleaseBrake(t.Context()))
		p.eventuallyPages("it goes when somebody says so", "home.a", "other.a")
	})
}

// TestAPruneThatIsRefusedIsTheReconcilesError, and is tried again.
func TestAPruneThatIsRefusedIsTheReconcilesError(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		p := newPruned(t)
		must(t, p.sites.Create(t.Context(), newSite("home", "a")))
		p.eventuallyPages("it has its page", "home.a")
		p.reconciled("home")
		written, full := make(chan struct{}), make(chan struct{})
		p.also.Store(func(context.Context, Request) (Result, error) {
			select {
			case written <- struct{}{}:
				<-full
			case <-full:
			}
			return Result{}, nil
		})
		p.retitle("home", "b")
		<-written
		p.limitMessages("pages", 1) // no marker fits
		close(full)
		natstest.Eventually(t, "the record names the page that cannot be pruned", func() bool {
			record, err := p.sites.Record(t.Context(), "home")
			must(t, err)
			condition := meta.FindStatusCondition(record.Conditions, entity.ConditionReconciled)
			return condition != nil && strings.Contains(condition.Message, `prune Owns Page (bucket pages) "home.a"`)
		})
		p.limitMessages("pages", -1)
		p.eventuallyPages("it goes", "home.b")
		p.reconciled("home")
	})
}

func TestPruneIsForWhatIsOwnedAndCanBeDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		nothing := ReconcilerFunc(func(context.Context, Request) (Result, error) { return Result{}, nil })
		for want, opt := range map[string]Option{
			"WithPrimary: WithPrune is for Owns and OwnsKube": WithPrimary(WithPrune()),
			"Watches(Page): WithPrune is for Owns": Watches(pages,
				func(context.Context, *page) ([]string, error) { return nil, nil }, WithPrune()),
		} {
			if _, err := New("sites", sites, nothing, opt); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		_, err := New("sites", sites, nothing, Owns(pages, WithPrune()), WithoutTeardown())
		if err == nil || !strings.Contains(err.Error(), "WithPrune would do nothing with WithoutTeardown()") {
			t.Errorf("got %v", err)
		}
	})
}
