package controller

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// labelled is a page with the label colour.
func labelled(name, colour string) *page {
	p := named(name)
	p.Labels = map[string]string{"colour": colour}
	return p
}

var red = LabelPredicate(labels.SelectorFromSet(labels.Set{"colour": "red"}))

// only lets events of one kind pass.
func only(kind string) Predicate {
	return PredicateFuncs{
		CreateFunc: func(metav1.Object) bool { return kind == "create" },
		UpdateFunc: func(metav1.Object, metav1.Object) bool { return kind == "update" },
		DeleteFunc: func(metav1.Object) bool { return kind == "delete" },
	}
}

func TestPredicatesDecideAboutEachKindOfEvent(t *testing.T) {
	isHome := ObjectPredicate(func(obj metav1.Object) bool { return obj.GetName() == "home" })
	r, b := labelled("home", "red"), labelled("home", "blue")
	for _, test := range []struct {
		name      string
		predicate Predicate
		// of create red, update blue to red, update red to blue, update blue to blue, delete red, delete blue
		passes string
	}{
		{"funcs that are nil", PredicateFuncs{}, "yyyyyy"},
		{"create only", only("create"), "ynnnnn"},
		{"update only", only("update"), "nyyynn"},
		{"delete only", only("delete"), "nnnnyy"},
		{"label, before or after", red, "yyynyn"},
		{"not", Not(red), "nnnyny"},
		{"not of one kind", Not(only("update")), "ynnnyy"},
		{"or", Or(only("create"), only("delete")), "ynnnyy"},
		{"or of label and kind", Or(red, only("delete")), "yyynyy"},
		{"or of nothing", Or(), "nnnnnn"},
		{"object", isHome, "yyyyyy"},
		{"not object", Not(isHome), "nnnnnn"},
		{"object, the new one", ObjectPredicate(
			func(obj metav1.Object) bool { return obj.GetLabels()["colour"] == "red" }), "yynnyn"},
		{"several", source.Predicates{red, only("update")}, "nyynnn"},
		{"several with or and not", source.Predicates{Or(red, only("delete")), Not(only("create"))}, "nyynyy"},
		{"none", source.Predicates{}, "yyyyyy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.predicate
			got := ""
			for _, pass := range []bool{p.Create(r), p.Update(b, r), p.Update(r, b), p.Update(b, b), p.Delete(r),
				p.Delete(b)} {
				got += map[bool]string{true: "y", false: "n"}[pass]
			}
			if got != test.passes {
				t.Errorf("passes %s, want %s", got, test.passes)
			}
		})
	}
}

// TestPredicatesFilterTheQueueAndNotTheCache lets one kind of event of secondaries pass, and looks for the others in
// the cache.
func TestPredicatesFilterTheQueueAndNotTheCache(t *testing.T) {
	for kind, want := range map[string]int{"create": 1, "update": 2, "delete": 1, "none": 0} {
		t.Run(kind, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				pages := w.pages()
				k := newCluster(t)
				var seen calls
				c, _, _ := w.runningSites(&seen, Owns(pages, WithPredicate(only(kind))),
					OwnsKube(k.informer, WithPredicate(only(kind))))
				ctx := t.Context()
				must(t, pages.Create(ctx, w.ownedPage("page", "home")))
				m := w.ownedMap("settings", "home")
				k.Add(m)
				for n := range 2 {
					must(t, pages.Patch(ctx, "page", fmt.Appendf(nil, `{"spec":{"pages":%d}}`, n+1)))
					natstest.Eventually(t, "the cache has the update", func() bool {
						p, err := pages.Lister().Get("page")
						return err == nil && p.Spec.Pages == n+1
					})
					m = m.DeepCopy()
					m.Data["value"] = fmt.Sprint(n)
					k.Modify(m)
					natstest.Eventually(t, "the informer has the update", func() bool {
						obj, exists, err := k.informer.GetStore().GetByKey("shop/settings")
						return err == nil && exists && obj.(metav1.Object).GetResourceVersion() == m.ResourceVersion
					})
					natstest.Eventually(t, "updates are handled", func() bool {
						return kind != "update" || seen.with("home", OperationSecondary) >= 1
					})
					idle(t, c)
				}
				must(t, pages.Delete(ctx, "page"))
				k.FakeControllerSource.Delete(m.DeepCopy())
				// The first events of another owner come after these, and the same predicate lets them pass or not.
				natstest.Eventually(t, "the caches have the deletes", func() bool {
					_, err := pages.Lister().Get("page")
					return err != nil && !k.has("settings")
				})
				natstest.Eventually(t, "all that pass have come", func() bool {
					return seen.with("home", OperationSecondary) >= want
				})
				idle(t, c)
				got := seen.with("home", OperationSecondary)
				// Events of the two sources may have come together, and then made one run.
				if got < want || got > 2*want {
					t.Errorf("woken %d times, want %d to %d", got, want, 2*want)
				}
			})
		})
	}
}

// TestPredicatesOfThePrimaryFilterItsEvents, but not what is owed, nor what is asked for by other means.
func TestPredicatesOfThePrimaryFilterItsEvents(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		ctx := t.Context()
		must(t, sites.Create(ctx, labelled("old-red", "red")))
		must(t, sites.Create(ctx, labelled("old-blue", "blue")))
		var seen calls
		c, err := New("sites", sites, seen.reconciler(nil), WithPrimary(WithPredicate(red)), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		for _, name := range []string{"a-blue", "b-red"} {
			must(t, sites.Create(ctx, labelled(name, name[2:])))
		}
		reconciled := func(key string, n int) {
			t.Helper()
			natstest.Eventually(t, fmt.Sprintf("%s is reconciled %d times", key, n), func() bool {
				return seen.count(key) == n
			})
		}
		reconciled("old-red", 1)
		reconciled("b-red", 1)
		must(t, sites.Patch(ctx, "a-blue", []byte(`{"spec":{"title":"two"}}`)))
		must(t, sites.Patch(ctx, "b-red", []byte(`{"spec":{"title":"two"}}`)))
		reconciled("b-red", 2)
		if n := seen.count("a-blue") + seen.count("old-blue"); n != 0 {
			t.Errorf("blue ones were reconciled %d times", n)
		}
		if s, err := sites.Lister().Get("a-blue"); err != nil || s.Spec.Title != "two" {
			t.Errorf("the cache has not what was filtered: %v", err)
		}
		must(t, sites.Patch(ctx, "a-blue", []byte(`{"metadata":{"labels":{"colour":"red"}}}`)))
		reconciled("a-blue", 1)
		must(t, sites.Patch(ctx, "a-blue", []byte(`{"metadata":{"labels":{"colour":"blue"}}}`)))
		reconciled("a-blue", 2) // it was red before
		c.Enqueue("old-blue", OperationManual)
		reconciled("old-blue", 1)
		// Its delete does not pass, but it was reconciled, and so a teardown is owed.
		must(t, sites.Delete(ctx, "a-blue"))
		natstest.Eventually(t, "it is torn down", func() bool {
			return seen.with("a-blue", OperationDelete) == 1 && c.Stats().TornDown == 1
		})
	})
}
