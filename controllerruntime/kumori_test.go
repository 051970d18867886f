package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/retry"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

func TestKumoriControllerThatOnlySyncsWorks(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		var c *custom
		c = kumori{sites: sites, pages: pages}.custom(func(key string) error {
			s, err := sites.Lister().Get(key)
			if apierrors.IsNotFound(err) {
				if err := pages.Delete(ctx, key); !apierrors.IsNotFound(err) {
					return err
				}
				return nil
			}
			if err != nil {
				return err
			}
			_, err = controller.CreateOrUpdate(ctx, pages, newPage(key, ""), func(p *page) error {
				c.SetOwner(p, key)
				p.Spec.Title = s.Spec.Title
				return nil
			})
			return err
		})
		runKumori(t, c)

		titled := func(title string) func() bool {
			return func() bool {
				p, err := pages.Get(ctx, "home")
				return err == nil && p.Spec.Title == title
			}
		}
		must(t, sites.Create(ctx, newSite("home", "one")))
		natstest.Eventually(t, "a page for the new site", titled("one"))
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
		natstest.Eventually(t, "the page follows its site", titled("two"))
		must(t, pages.Delete(ctx, "home"))
		natstest.Eventually(t, "the page is made again", titled("two"))
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "the page and the record go with the site", func() bool {
			_, err1 := pages.Get(ctx, "home")
			_, err2 := sites.Record(ctx, "home")
			return apierrors.IsNotFound(err1) && apierrors.IsNotFound(err2)
		})
		if n := c.seen.with("home", controller.OperationDelete); n != 1 {
			t.Errorf("%d calls with Delete, want 1: %v", n, c.seen.of("home"))
		}
	})
}

func TestKumoriNeverDeletesWhatSyncHandlerLeaves(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		c := kumori{sites: sites, pages: pages}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") > 0 })
		p := newPage("home", "one")
		c.SetOwner(p, "home")
		must(t, pages.Create(t.Context(), p))
		natstest.Eventually(t, "the page is seen", func() bool {
			return c.seen.with("home", controller.OperationSecondary) > 0
		})
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the teardown is done", func() bool { return c.Stats().TornDown == 1 })
		if _, err := pages.Get(t.Context(), "home"); err != nil {
			t.Errorf("the page of a site that is gone: %v", err)
		}
	})
}

func TestKumoriRetriesWithRateLimitAndForgetsOnSuccess(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		const failures = 6
		var at []time.Time // the handler runs for one key at a time
		c := kumori{sites: sites}.custom(func(string) error {
			if at = append(at, time.Now()); len(at) <= failures {
				return errors.New("not yet")
			}
			return nil
		})
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it is tried until it succeeds", func() bool { return c.seen.count("home") == failures+1 })
		natstest.Eventually(t, "the failures are forgotten", func() bool {
			return c.engine.Explainer().Explain("home").Failures == 0 && c.Stats().Failing == 0
		})
		r.halt()

		// The delay after failure n is at least 2^(n-1) times the smallest.
		for n := 1; n <= failures; n++ {
			if got, least := at[n].Sub(at[n-1]), retry.DefaultMin<<(n-1); got < least {
				t.Errorf("attempt %d came %v after the one before, want at least %v", n+1, got, least)
			}
		}
		ops := c.seen.of("home")
		if !ops[failures].Has(controller.OperationPut) || !ops[failures].Has(controller.OperationRetry) {
			t.Errorf("operations of the attempt that succeeded are %s, want what it was retried for and Retry",
				ops[failures])
		}
		if len(ops) != failures+1 {
			t.Errorf("%d calls, want none after the success: %v", len(ops), ops)
		}
	})
}

func TestKumoriEnqueueKeyAndEnqueueKeyAfter(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		c.EnqueueKey("early", controller.OperationManual) // before Run: kept
		must(t, sites.Create(t.Context(), newSite("early", "one")))
		runKumori(t, c)
		natstest.Eventually(t, "what was enqueued before Run is synced", func() bool {
			return c.seen.with("early", controller.OperationManual) == 1
		})
		start := time.Now()
		c.EnqueueKeyAfter("early", controller.OperationExternal, 100*time.Millisecond)
		natstest.Eventually(t, "the delayed one too", func() bool {
			return c.seen.with("early", controller.OperationExternal) == 1
		})
		if took := time.Since(start); took < 100*time.Millisecond {
			t.Errorf("it came after %v, want 100ms at least", took)
		}
	})
}

// TestKumoriLosesNoOperation: users have a constant of each, and what EnqueueKey is told is what Operations tells.
func TestKumoriLosesNoOperation(t *testing.T) {
	all := []Operation{
		OperationPut, OperationDelete, OperationPurge, OperationSecondary, OperationTertiary, OperationExternal,
		OperationResync, OperationRetry, OperationRequeue, OperationManual,
	}
	if !slices.Equal(all, operation.All()) {
		t.Fatalf("users have %v, and there are %v", all, operation.All())
	}
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.with("home", OperationPut) == 1 })
		for _, op := range all {
			key := "home"
			if operation.Of(op).Gone() {
				key = "gone-" + strings.ToLower(op.String())
			}
			before := c.seen.with(key, op)
			c.EnqueueKey(key, op)
			natstest.Eventually(t, op.String()+" is told", func() bool { return c.seen.with(key, op) == before+1 })
		}
	})
}

func TestKumoriOperationsTellWhyInsideSyncHandlerOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "Put", func() bool { return c.seen.with("home", controller.OperationPut) == 1 })
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "Delete", func() bool { return c.seen.with("home", controller.OperationDelete) == 1 })
		must(t, sites.Create(t.Context(), newSite("home", "two")))
		natstest.Eventually(t, "Put again", func() bool { return c.seen.with("home", controller.OperationPut) == 2 })
		must(t, sites.Delete(t.Context(), "home", entity.Purge()))
		natstest.Eventually(t, "Purge", func() bool { return c.seen.with("home", controller.OperationPurge) == 1 })
		natstest.Eventually(t, "nothing outside of SyncHandler", func() bool { return c.Operations("home") == 0 })
	})
}

func TestKumoriSyncsDeletesThatItMissedWhileDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		first := kumori{sites: sites}.custom(nil)
		r := runKumori(t, first)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool {
			record, err := sites.Record(t.Context(), "home")
			return err == nil && record.ObservedRevision > 0
		})
		r.halt()
		must(t, sites.Delete(t.Context(), "home", entity.Purge()))
		bucket, err := w.js.KeyValue(t.Context(), "sites")
		must(t, err)
		must(t, bucket.PurgeDeletes(t.Context())) // not even the tombstone is left

		again := w.sites()
		var known atomic.Value
		var second *custom
		second = kumori{sites: again}.custom(func(key string) error {
			s, err := second.LastKnown(context.Background(), key)
			if err == nil {
				known.Store(s.Spec.Title)
			}
			return err
		})
		runKumori(t, second)
		natstest.Eventually(t, "the delete is synced", func() bool {
			return second.seen.with("home", controller.OperationDelete) == 1
		})
		natstest.Eventually(t, "and the last known document with it", func() bool { return known.Load() == "one" })
	})
}

func TestKumoriResyncTouchesEachPrimaryEachInterval(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites, resync: 100 * time.Millisecond}.custom(nil)
		runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "three resyncs", func() bool { return c.seen.with("home", controller.OperationResync) >= 3 })
	})
}

func TestKumoriEventsAboutNatsEntitiesAndKubernetesObjectsArrive(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		clientset := fake.NewClientset()
		var c *custom
		c = kumori{sites: sites, clientset: clientset}.custom(func(key string) error {
			s, err := sites.Lister().Get(key)
			if err != nil {
				return err
			}
			c.Event(s, corev1.EventTypeNormal, ReasonResourceSynced, fmt.Sprintf(MessageResourceSyncedCreated, key))
			m := configMap("settings", "")
			m.UID = "1"
			c.Event(m, corev1.EventTypeWarning, ReasonErrResourceExists, "taken")
			return nil
		})
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
		r.halt()

		events, err := recorder.List(t.Context(), w.js, recorder.Query{Kind: "Site", Key: "home"})
		must(t, err)
		if len(events) != 1 || events[0].Reason != "Synced" ||
			events[0].Message != `"home" synced successfully (created)` || events[0].Source.Component != "sites" {
			t.Errorf("events about the entity: %+v", events)
		}
		kube, err := clientset.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(kube.Items) != 1 || kube.Items[0].InvolvedObject.Name != "settings" {
			t.Errorf("events about the Kubernetes object: %+v", kube.Items)
		}
	})
}

// service is of a kind that Kubernetes has too.
type service = entity.Object[siteSpec, struct{}]

// servicing is a custom controller whose secondaries are services.
type servicing struct {
	*ControllerRuntime[*site, *service, none, none, none, none, none, none, none]
	sync func() error
}

func (s *servicing) SyncHandler(string) error { return s.sync() }

func TestKumoriEventFindsItsKindAlsoWhereKubernetesHasTheSame(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		services, err := entity.NewClient[*service](t.Context(), w.js,
			entity.Config{Kind: "Service", APIVersion: "v1", Bucket: "services"})
		must(t, err)
		t.Cleanup(services.Close)
		web := &service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		must(t, services.Create(t.Context(), web))
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		c := &servicing{ControllerRuntime: NewControllerRuntime[*site, *service, none, none, none, none, none, none, none](
			"sites", "Site", nil, sites, nil, nil, services, nil, nil, nil, nil, nil, nil, nil, nil, 0)}
		done := make(chan struct{})
		c.sync = func() error {
			web, err := services.Lister().Get("web")
			if err != nil {
				return err
			}
			c.Event(web, corev1.EventTypeNormal, ReasonResourceSynced, "done")
			c.Event(newSite("home", ""), corev1.EventTypeNormal, ReasonResourceSynced,
				"an object that does not say its kind")
			close(done)
			return nil
		}
		c.SetCustomController(c)
		r := runKumori(t, c)
		within(t, "home is synced", done)
		r.halt()
		for kind, key := range map[string]string{"Service": "web", "Site": "home"} {
			events, err := recorder.List(t.Context(), w.js, recorder.Query{Kind: kind, Key: key})
			must(t, err)
			if len(events) != 1 {
				t.Errorf("%d events about %s %s, want 1", len(events), kind, key)
			}
		}
	})
}

func TestKumoriEventWithoutClientsetOrRunIsHarmless(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c := kumori{sites: sites}.custom(nil)
		m := configMap("settings", "")
		c.Event(m, corev1.EventTypeNormal, ReasonResourceSynced, "before Run")
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "it works without a clientset", func() bool { return c.seen.count("home") == 1 })
		c.Event(m, corev1.EventTypeNormal, ReasonResourceSynced, "no clientset")
		r.halt()
		c.Event(m, corev1.EventTypeNormal, ReasonResourceSynced, "after Run")
	})
}

func TestKumoriEventAboutAKubernetesObjectWithoutAClientsetIsNotPutInNATS(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var c *custom
		c = kumori{sites: sites}.custom(func(string) error {
			c.Event(configMap("settings", ""), corev1.EventTypeNormal, ReasonResourceSynced, "done")
			c.Event(newSite("home", ""), corev1.EventTypeNormal, ReasonResourceSynced, "done")
			return nil
		})
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
		r.halt()
		events, err := recorder.List(t.Context(), w.js, recorder.Query{})
		must(t, err)
		if len(events) != 1 || events[0].InvolvedObject.Kind != "Site" {
			t.Errorf("%+v", events)
		}
	})
}

// failing are runtimes whose Run fails, and what their error says.
func failing(t *testing.T, w *world) map[string]struct {
	kumori
	says []string
} {
	t.Helper()
	sites := w.sites()
	type c = struct {
		kumori
		says []string
	}
	return map[string]c{
		"another kind": {kumori{sites: sites, kind: "Page"}, []string{`"Page"`, `"Site"`}},
		"no primary":   {kumori{kind: "Site"}, []string{"client is nil"}},
		"external twice": {kumori{sites: sites, externals: []external.IExternalClient{buckets{}, buckets{}}},
			[]string{"S3Bucket", "a kind of its own"}},
		"external nil": {kumori{sites: sites, externals: []external.IExternalClient{nil}},
			[]string{"secondary external client", "client is needed"}},
		"negative interval": {kumori{sites: sites, resync: -1}, []string{"WithResyncInterval"}},
		"nil informer": {kumori{sites: sites, secondaries: make([]cache.SharedIndexInformer, 1)},
			[]string{"secondary shared informer 0 is nil"}},
		"no status bucket": {kumori{sites: w.client("Site", "bare", func(cfg *entity.Config) {
			cfg.StatusBucket = entity.NoStatusBucket
		})},
			[]string{"StatusBucket"}},
	}
}

// buckets is an external client.
type buckets struct{}

func (buckets) Kind() string                                      { return "S3Bucket" }
func (buckets) List(context.Context) ([]external.Resource, error) { return nil, nil }
func (buckets) Delete(context.Context, string) error              { return nil }

func TestKumoriRunTellsWhatIsWrongWithTheArguments(t *testing.T) {
	for name, test := range failing(t, newWorld(t)) {
		t.Run(name, func(t *testing.T) {
			c := test.custom(nil)
			c.EnqueueKey("home", controller.OperationPut) // and what may be called before Run does no harm
			c.EnqueueKeyAfter("home", controller.OperationPut, time.Hour)
			c.HandleSecondary(newPage("home", ""))
			c.GarbageSecondaries()
			c.SetOwner(newPage("home", ""), "home")
			errs := make(chan error, 1)
			c.Run(1, nil, errs)
			err := <-errs
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}
