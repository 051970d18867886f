package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tenants is a world in which somebody may publish documents of the namespace ns1 and nothing else.
func tenants(t *testing.T) (w *world, writer *nats.Conn) {
	t.Helper()
	s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "x"},
			{Username: "ns1", Password: "x", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"$KV.sites.ns1.>", "$KV.pages.ns1.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	}))
	_, js := natstest.Connect(t, s.URL(), nats.UserInfo("admin", "x"))
	writer, _ = natstest.Connect(t, s.URL(), nats.UserInfo("ns1", "x"))
	return &world{t: t, server: s, js: js}, writer
}

func namespaced(cfg *entity.Config) { cfg.Namespaced = true }

// ofNS1 is a page of the namespace ns1 that names the site of ns2 as its owner, in annotations or in labels.
func ofNS1(instance string, labels bool) []byte {
	marks := map[string]string{"kumori/ownerkind": "Site", "kumori/ownerkey": "ns2/site",
		"nagi/ownerinstance": instance}
	where := "annotations"
	if labels {
		where = "labels"
		marks["kumori/ownerkey"] = entity.OwnerLabelValue("ns2/site")
	}
	var pairs []string
	for name, value := range marks {
		pairs = append(pairs, `"`+name+`":"`+value+`"`)
	}
	return []byte(`{"metadata":{"` + where + `":{` + strings.Join(pairs, ",") + `}}}`)
}

// TestAPageOfOneNamespaceIsNotOwnedInAnother: who may write in ns1 alone has neither a site of ns2 reconciled nor a
// page deleted with it. The option lets him.
func TestAPageOfOneNamespaceIsNotOwnedInAnother(t *testing.T) {
	for name, open := range map[string]bool{"by default": false, "with the option": true} {
		for _, labels := range []bool{false, true} {
			if labels {
				name += ", named in labels"
			}
			t.Run(name, func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					testNamespaces(t, open, labels)
				})
			})
		}
	}
}

func testNamespaces(t *testing.T, open, labels bool) {
	w, writer := tenants(t)
	ctx := t.Context()
	sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
	var opts []SourceOption
	if open {
		opts = append(opts, WithOwnersInOtherNamespaces())
	}
	var seen calls
	c, err := New("sites", sites, seen.reconciler(nil), Owns(pages, opts...), WithResyncInterval(time.Second))
	must(t, err)
	w.run(c)
	s := newSite("site", "")
	s.Namespace = "ns2"
	must(t, sites.Create(ctx, s))
	eventuallyReason(t, sites, "ns2/site", entity.ReasonSynced)
	must(t, writer.Publish("$KV.pages.ns1.page", ofNS1(c.Instance(), labels)))
	must(t, writer.Flush())
	natstest.Eventually(t, "the page is in the cache", func() bool {
		_, err := pages.Lister().Get("ns1/page")
		return err == nil
	})
	own := w.ownedPageOf(c, "ns2/page", "ns2/site")
	must(t, pages.Create(ctx, own))
	natstest.Eventually(t, "the page of its own namespace is told", func() bool {
		return seen.with("ns2/site", OperationSecondary) > 0
	})
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+3 })
	stats := c.Stats()
	if crossing := stats.CrossNamespace == 1; crossing == open {
		t.Errorf("%d objects cross namespaces", stats.CrossNamespace)
	}
	if !open && !labels && stats.Foreign == 0 {
		t.Error("its event was taken for one of ours")
	}
	must(t, sites.Delete(ctx, "ns2/site"))
	natstest.Eventually(t, "it is torn down", noRecord(t, sites, "ns2/site"))
	sweeps = c.Stats().Sweeps
	natstest.Eventually(t, "sweeps go by after the teardown", func() bool { return c.Stats().Sweeps > sweeps+3 })
	if exists(t, pages, "ns2/page") {
		t.Error("the page of its own namespace is left")
	}
	if exists(t, pages, "ns1/page") == open {
		t.Errorf("the page of ns1 exists: %v", !open)
	}
}

// ownedPageOf is a page that the site of that key owns.
func (w *world) ownedPageOf(c *Controller[*site], key, owner string) *page {
	namespace, name, _ := strings.Cut(key, "/")
	p := newPage(name, "")
	p.Namespace = namespace
	c.SetOwner(p, owner)
	return p
}

// TestAPageOfAnotherNamespaceMakesNobodyDue: it is the events of the page that are not taken for the site's.
func TestAPageOfAnotherNamespaceMakesNobodyDue(t *testing.T) {
	for name, open := range map[string]bool{"by default": false, "with the option": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w, writer := tenants(t)
				sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
				var opts []SourceOption
				if open {
					opts = append(opts, WithOwnersInOtherNamespaces())
				}
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), Owns(pages, opts...), WithResyncInterval(0))
				must(t, err)
				w.run(c)
				for _, namespace := range []string{"ns1", "ns2"} {
					s := newSite("site", "")
					s.Namespace = namespace
					must(t, sites.Create(t.Context(), s))
					eventuallyReason(t, sites, namespace+"/site", entity.ReasonSynced)
				}
				must(t, writer.Publish("$KV.pages.ns1.page", ofNS1(c.Instance(), false)))
				must(t, writer.Publish("$KV.pages.ns1.last",
					[]byte(strings.Replace(string(ofNS1(c.Instance(), false)), "ns2/site", "ns1/site", 1))))
				natstest.Eventually(t, "the page after it is told", func() bool {
					return seen.with("ns1/site", OperationSecondary) > 0
				})
				if told := seen.with("ns2/site", OperationSecondary) > 0; told != open {
					t.Errorf("the site of ns2 was reconciled for the page of ns1: %v", told)
				}
			})
		})
	}
}

// TestCreateOrUpdateRefusesAPageInAnotherNamespace before it is written: it would be ignored for ever.
func TestCreateOrUpdateRefusesAPageInAnotherNamespace(t *testing.T) {
	for name, tt := range map[string]struct {
		sources func(pages entity.IEntityClient[*page]) []Option
		refused bool
	}{
		"a source": {func(p entity.IEntityClient[*page]) []Option { return []Option{Owns(p)} }, true},
		"an open source": {func(p entity.IEntityClient[*page]) []Option {
			return []Option{Owns(p, WithOwnersInOtherNamespaces())}
		}, false},
		"no source": {func(entity.IEntityClient[*page]) []Option { return nil }, false},
		"one that is only watched": {func(p entity.IEntityClient[*page]) []Option {
			return []Option{Watches(p, func(context.Context, *page) ([]string, error) { return nil, nil })}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
				outcome := make(chan error, 1000)
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
					p := newPage("page", "")
					p.Namespace = "ns2"
					_, err := CreateOrUpdate(ctx, pages, p, titled("ours"))
					outcome <- err
					return Result{}, nil
				}), tt.sources(pages)...)
				must(t, err)
				w.run(c)
				s := newSite("site", "")
				s.Namespace = "ns1"
				must(t, sites.Create(t.Context(), s))
				err = receive(t, "the reconcile", outcome)
				if !tt.refused {
					must(t, err)
					return
				}
				says(t, err, "ns2/page", "ns1/site", "WithOwnersInOtherNamespaces")
				if _, err := w.kv("pages").Get(t.Context(), "ns2.page"); err != jetstream.ErrKeyNotFound {
					t.Errorf("it was written: %v", err)
				}
			})
		})
	}
}

// TestOnlySourcesOfSecondariesAreOpened.
func TestOnlySourcesOfSecondariesAreOpened(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k := newCluster(t)
		open := WithOwnersInOtherNamespaces()
		for _, where := range []Option{
			WithPrimary(open),
			Watches(w.pages(), func(context.Context, *page) ([]string, error) { return nil, nil }, open),
			WatchesKube(k.informer, func(context.Context, metav1.Object) ([]string, error) { return nil, nil }, open),
		} {
			_, err := New("sites", w.sites(), noReconciler, where)
			says(t, err, "WithOwnersInOtherNamespaces", "Owns")
		}
	})
}

// TestAKubernetesObjectOfAnotherNamespaceIsNobodys: its events make no site due, and it stays when the site goes.
func TestAKubernetesObjectOfAnotherNamespaceIsNobodys(t *testing.T) {
	for name, open := range map[string]bool{"by default": false, "with the option": true} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				k := newCluster(t)
				sites := w.client("Site", "sites", namespaced)
				opts := []SourceOption{WithDeleter(k)}
				if open {
					opts = append(opts, WithOwnersInOtherNamespaces())
				}
				var seen calls
				c, err := New("sites", sites, seen.reconciler(nil), OwnsKube(k.informer, opts...),
					WithResyncInterval(time.Second))
				must(t, err)
				w.run(c)
				for _, namespace := range []string{"shop", "away"} {
					s := newSite("home", "")
					s.Namespace = namespace
					must(t, sites.Create(t.Context(), s))
					eventuallyReason(t, sites, namespace+"/home", entity.ReasonSynced)
				}
				planted := configMap("planted", "")
				c.SetOwner(planted, "away/home")
				planted.UID = "1"
				k.Add(planted)
				own := configMap("own", "")
				c.SetOwner(own, "shop/home")
				own.UID = "2"
				k.Add(own)
				natstest.Eventually(t, "the object after it is told", func() bool {
					return seen.with("shop/home", OperationSecondary) > 0
				})
				if told := seen.with("away/home", OperationSecondary) > 0; told != open {
					t.Errorf("the site of another namespace was reconciled for it: %v", told)
				}
				sweeps := c.Stats().Sweeps
				natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > sweeps+2 })
				if crosses := c.Stats().CrossNamespace == 1; crosses == open {
					t.Errorf("%d objects cross namespaces", c.Stats().CrossNamespace)
				}
				for _, namespace := range []string{"shop", "away"} {
					must(t, sites.Delete(t.Context(), namespace+"/home"))
					natstest.Eventually(t, "it is torn down", noRecord(t, sites, namespace+"/home"))
				}
				if k.has("own") || k.has("planted") == open {
					t.Errorf("its own is there: %v; the planted one: %v", k.has("own"), k.has("planted"))
				}
			})
		})
	}
}

// TestErrorsDoNotTellStrangersNames: they end in conditions and events. The fields tell them to programs.
func TestErrorsDoNotTellStrangersNames(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		hash := entity.OwnerLabelValue(strings.Repeat("long", 30))
		maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		for name, test := range map[string]struct {
			err         error
			says, hides []string
		}{
			"another installation": {&AlreadyOwnedError{
				Object: "page", OwnerKind: "Site", OwnerKey: "other", OwnerInstance: "secret-id",
				WantedKind: "Site", WantedKey: "home", WantedInstance: "our-id",
			}, []string{`Site "other"`, "another installation", `Site "home"`}, []string{"secret-id", "our-id"}},
			"this installation": {&AlreadyOwnedError{
				Object: "page", OwnerKind: "Site", OwnerKey: "other", OwnerInstance: "our-id",
				WantedKind: "Site", WantedKey: "home", WantedInstance: "our-id",
			}, []string{`Site "other" already`}, []string{"another installation", "our-id"}},
			"another namespace": {&AlreadyOwnedError{
				Object: "ns1/page", OwnerKind: "Site", OwnerKey: "ns2/secret", OwnerInstance: "our-id",
				WantedKind: "Site", WantedKey: "ns1/home", WantedInstance: "our-id",
			}, []string{"a Site in another namespace"}, []string{"ns2", "secret"}},
			"the same namespace": {&AlreadyOwnedError{
				Object: "ns1/page", OwnerKind: "Site", OwnerKey: "ns1/other", WantedKind: "Site", WantedKey: "ns1/home",
			}, []string{`Site "ns1/other"`}, nil},
			"a hash": {&AlreadyOwnedError{
				Object: "page", OwnerKind: "Site", OwnerKey: hash, WantedKind: "Site", WantedKey: "home",
			}, []string{"another Site"}, []string{hash}},
			"an object of another installation": {&ResourceExistsError{
				Resource: maps, Key: "ns1/settings", OwnerKind: "Site", OwnerKey: "ns1/other", OwnerInstance: "secret-id",
			}, []string{`Site "ns1/other"`, "use another name"}, []string{"secret-id"}},
			"an object of another namespace's": {&ResourceExistsError{
				Resource: maps, Key: "ns1/settings", OwnerKind: "Site", OwnerKey: "ns2/secret", OwnerInstance: "our-id",
			}, []string{"a Site in another namespace"}, []string{"ns2", "secret", "our-id"}},
			"an object of the cluster": {&ResourceExistsError{
				Resource: maps, Key: "settings", OwnerKind: "Site", OwnerKey: "ns2/secret",
			}, []string{"a Site in another namespace"}, []string{"ns2", "secret"}},
		} {
			says(t, test.err, test.says...)
			for _, hidden := range test.hides {
				if strings.Contains(test.err.Error(), hidden) {
					t.Errorf("%s: %q tells %q", name, test.err, hidden)
				}
			}
		}
	})
}

// TestWhatATeardownLeavesInAnotherNamespaceIsTold; and what a deletion policy left there stays when the source is
// opened to such owners later.
func TestWhatATeardownLeavesInAnotherNamespaceIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx := t.Context()
		sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
		var log logLines
		start := func(opts ...SourceOption) (*Controller[*site], *running) {
			c, err := New("sites", sites, noReconciler, Owns(pages, opts...), WithResyncInterval(time.Second))
			must(t, err)
			return c, w.run(logging{c, log.logger()})
		}
		sweeps := func(c *Controller[*site]) {
			before := c.Stats().Sweeps
			natstest.Eventually(t, "sweeps go by", func() bool { return c.Stats().Sweeps > before+4 })
		}
		c, r := start()
		for name, policy := range map[string]string{"goes": "", "leaves": DeletionPolicyOrphan} {
			s := newSite(name, "")
			s.Namespace = "ns1"
			s.Annotations = map[string]string{DeletionPolicyAnnotation: policy}
			must(t, sites.Create(ctx, s))
			eventuallyReason(t, sites, "ns1/"+name, entity.ReasonSynced)
			must(t, pages.Create(ctx, w.ownedPageOf(c, "ns2/"+name, "ns1/"+name)))
		}
		sweeps(c)
		for _, name := range []string{"goes", "leaves"} {
			must(t, sites.Delete(ctx, "ns1/"+name))
			natstest.Eventually(t, "it is torn down", noRecord(t, sites, "ns1/"+name))
		}
		sweeps(c)
		r.halt()
		told := log.with("The teardown has left objects that name this owner from other namespaces: open their source " +
			"to such owners (WithOwnersInOtherNamespaces) if they are the owner's, or delete them by hand")
		if len(told) != 1 || told[0]["key"] != "ns1/goes" {
			t.Errorf("the log says %v", told)
		}
		if !exists(t, pages, "ns2/goes") || !exists(t, pages, "ns2/leaves") {
			t.Error("what is in another namespace was deleted")
		}
		c, _ = start(WithOwnersInOtherNamespaces())
		natstest.Eventually(t, "what was owned is swept", func() bool { return !exists(t, pages, "ns2/goes") })
		sweeps(c)
		if !exists(t, pages, "ns2/leaves") {
			t.Error("what the deletion policy left was deleted")
		}
	})
}

// TestABrakeThatOneObjectEngagesSaysWhose: somebody may have made up the revision that it carries, for an owner that
// was.
func TestABrakeThatOneObjectEngagesSaysWhose(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w, writer := tenants(t)
		sites, pages := w.client("Site", "sites", namespaced), w.client("Page", "pages", namespaced)
		c, err := New("sites", sites, noReconciler, Owns(pages), WithResyncInterval(time.Second))
		must(t, err)
		w.run(c)
		s := newSite("site", "")
		s.Namespace = "ns2"
		must(t, sites.Create(t.Context(), s))
		eventuallyReason(t, sites, "ns2/site", entity.ReasonSynced)
		was := newSite("was", "")
		was.Namespace = "ns1"
		must(t, sites.Create(t.Context(), was))
		eventuallyReason(t, sites, "ns1/was", entity.ReasonSynced)
		must(t, sites.Delete(t.Context(), "ns1/was"))
		natstest.Eventually(t, "it is torn down", noRecord(t, sites, "ns1/was"))
		forged := strings.Replace(string(ofNS1(c.Instance(), false)), "ns2/site", "ns1/was", 1)
		forged = strings.Replace(forged, `{"kumori`, `{"nagi/ownerrevision":"999@another","kumori`, 1)
		forged = strings.Replace(forged, `{"nagi/ownerinst`, `{"nagi/ownerrevision":"999@another","nagi/ownerinst`, 1)
		must(t, writer.Publish("$KV.pages.ns1.page", []byte(forged)))
		natstest.Eventually(t, "the brake is engaged", func() bool { return c.Stats().Brake.Engaged })
		if reason := c.Stats().Brake.Reason; !strings.Contains(reason, `as "ns1/was"`) {
			t.Errorf("it says %q", reason)
		}
	})
}
