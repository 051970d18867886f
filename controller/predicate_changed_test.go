package controller

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// odd is a document of everything that a comparison may stumble over.
type odd struct {
	metav1.ObjectMeta `json:"metadata"`
	oddities                         // embedded
	When              metav1.Time    `json:"when"`
	Count             int64          `json:"count"`
	Free              map[string]any `json:"free,omitempty"`
	Masked            masked         `json:"masked"`
	State             string         `json:"status,omitempty"`
	inside            int            // is in no document
}

type oddities struct {
	Embedded []string `json:"embedded,omitempty"`
}

// masked is written as it pleases.
type masked struct{ secret int }

func (m masked) MarshalJSON() ([]byte, error) { return json.Marshal(m.secret % 10) }

// unwritable has no JSON.
type unwritable struct {
	metav1.ObjectMeta
	Broken chan int `json:"broken"`
}

func TestGenerationChangedComparesWhatIsWanted(t *testing.T) {
	day := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	someOdd := func(change func(*odd)) metav1.Object {
		o := &odd{ObjectMeta: metav1.ObjectMeta{Name: "odd", ResourceVersion: "7", Generation: 7},
			When: metav1.NewTime(day), Count: math.MaxInt64, Free: map[string]any{"a": nil}, Masked: masked{secret: 11}}
		change(o)
		return o
	}
	asIs := someOdd(func(*odd) {})
	deployment := func(generation int64, change func(*appsv1.Deployment)) metav1.Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: generation, ResourceVersion: "900", UID: "u"}}
		change(d)
		return d
	}
	third := deployment(3, func(*appsv1.Deployment) {})
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	untyped := func(status, spec string) metav1.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "home"}, "status": map[string]any{"is": status},
			"spec": map[string]any{"title": spec},
		}}
	}
	for name, test := range map[string]struct {
		before, after metav1.Object
		changed       bool
	}{
		"labels": {&site{Spec: siteSpec{Title: "one"}},
			&site{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: siteSpec{Title: "one"}}, false},
		"status":               {&site{}, &site{Status: siteStatus{Ready: true}}, false},
		"spec":                 {newSite("home", "one"), newSite("home", "two"), true},
		"the same":             {asIs, someOdd(func(*odd) {}), false},
		"another time zone":    {asIs, someOdd(func(o *odd) { o.When.Time = day.In(time.FixedZone("", 3600)) }), false},
		"a second later":       {asIs, someOdd(func(o *odd) { o.When.Time = day.Add(time.Second) }), true},
		"beyond a float":       {asIs, someOdd(func(o *odd) { o.Count-- }), true},
		"embedded":             {asIs, someOdd(func(o *odd) { o.Embedded = []string{"a"} }), true},
		"free":                 {asIs, someOdd(func(o *odd) { o.Free = map[string]any{"a": false} }), true},
		"nil and empty":        {someOdd(func(o *odd) { o.Free = nil }), someOdd(func(o *odd) { clear(o.Free) }), false},
		"own JSON, same":       {asIs, someOdd(func(o *odd) { o.Masked.secret = 21 }), false},
		"own JSON":             {asIs, someOdd(func(o *odd) { o.Masked.secret = 12 }), true},
		"what is not written":  {asIs, someOdd(func(o *odd) { o.inside = 1 }), false},
		"a plain status":       {asIs, someOdd(func(o *odd) { o.State = "ok" }), false},
		"that has no JSON":     {&unwritable{}, &unwritable{}, true},
		"no type, status":      {untyped("a", "one"), untyped("b", "one"), false},
		"no type, spec":        {untyped("a", "one"), untyped("a", "two"), true},
		"an API server counts": {third, deployment(3, paused), false},
		"it has counted":       {third, deployment(4, paused), true},
		"its status":           {third, deployment(3, func(d *appsv1.Deployment) { d.Status.Replicas = 1 }), false},
		"made anew":            {third, deployment(3, func(d *appsv1.Deployment) { d.UID = types.UID("v") }), true},
		"it begins to be deleted": {&corev1.ConfigMap{},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}, true},
		"only metadata, written": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}}, true},
		"only metadata, shown again": {&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}, false},
		"no generation":         {configMap("a", "one"), configMap("a", "two"), true},
		"no generation, labels": {configMap("a", "one"), withLabel(configMap("a", "one")), false},
	} {
		if got := GenerationChanged().Update(test.before, test.after); got != test.changed {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func withLabel(m *corev1.ConfigMap) *corev1.ConfigMap {
	m.Labels = map[string]string{"a": "b"}
	return m
}

// TestWhatComesAndGoesPassesThePredicatesOfChanges.
func TestWhatComesAndGoesPassesThePredicatesOfChanges(t *testing.T) {
	for name, p := range map[string]Predicate{
		"generation": GenerationChanged(), "labels": LabelsChanged(), "annotations": AnnotationsChanged(),
		"version": ResourceVersionChanged(),
	} {
		if o := newSite("home", ""); !p.Create(o) || !p.Delete(o) || p.Update(o, o.DeepCopyObject().(*site)) {
			t.Errorf("%s: it drops what comes or goes, or lets pass what stays", name)
		}
	}
}

// TestAnEventFilterIsForAllSources that have events with objects: each of them has an update of its labels and one of
// its spec.
func TestAnEventFilterIsForAllSources(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages, themes, k := w.pages(), w.client("Theme", "themes"), newCluster(t)
		home := func(context.Context, *theme) ([]string, error) { return []string{"home"}, nil }
		var seen calls
		_, sites, _ := w.runningSites(&seen, WithEventFilter(GenerationChanged()), Owns(pages), Watches(themes, home),
			OwnsKube(k.informer))
		ctx := t.Context()
		must(t, pages.Create(ctx, w.ownedPage("page", "home")))
		must(t, themes.Create(ctx, newSite("theme", "")))
		m := w.ownedMap("settings", "home")
		k.Add(m)
		update := func(patch string, change func(*corev1.ConfigMap)) map[Operation]int {
			time.Sleep(time.Second) // what came before is reconciled
			before := seen.count("home")
			must(t, sites.Patch(ctx, "home", []byte(patch)))
			must(t, pages.Patch(ctx, "page", []byte(patch)))
			must(t, themes.Patch(ctx, "theme", []byte(patch)))
			m = m.DeepCopy()
			change(m)
			k.Modify(m)
			time.Sleep(time.Second)
			woke := map[Operation]int{}
			for _, ops := range seen.of("home")[before:] {
				for _, op := range []Operation{OperationPut, OperationSecondary, OperationTertiary} {
					if ops.Has(op) {
						woke[op]++
					}
				}
			}
			return woke
		}
		woke := update(`{"metadata":{"labels":{"a":"b"}}}`, func(m *corev1.ConfigMap) { withLabel(m) })
		if len(woke) != 0 {
			t.Errorf("labels woke %v", woke)
		}
		woke = update(`{"spec":{"title":"two"}}`, func(m *corev1.ConfigMap) { m.Data["value"] = "two" })
		if woke[OperationPut] == 0 || woke[OperationSecondary] == 0 || woke[OperationTertiary] == 0 {
			t.Errorf("specs woke %v", woke)
		}
	})
}

// TestATypedPredicateIsForItsSource: New refuses it elsewhere, also inside of And, Or and Not.
func TestATypedPredicateIsForItsSource(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		titled := TypedObjectPredicate(func(s *site) bool { return s.Spec.Title != "" })
		foreign := TypedPredicate[*corev1.ConfigMap]{}
		const refused = "the predicate is for objects of type *v1.ConfigMap"
		for name, test := range map[string]struct {
			option Option
			says   string
		}{
			"its own type":     {WithPrimary(WithPredicate(And(titled, Not(titled)))), ""},
			"a foreign one":    {WithPrimary(WithPredicate(foreign)), refused},
			"inside of others": {Owns(pages, WithPredicate(Or(titled, Not(And(foreign))))), refused},
			"of a tertiary": {Watches(pages, func(context.Context, *page) ([]string, error) { return nil, nil },
				WithPredicate(Not(foreign))), refused},
			"for all":           {WithEventFilter(And(titled)), "give it to the source that has them"},
			"a filter of nil":   {WithEventFilter(nil), "leave the option away"},
			"a function of nil": {WithEventFilter(Not(TypedObjectPredicate[*site](nil))), "WithEventFilter(nil)"},
			"for all objects":   {WithEventFilter(TypedPredicate[metav1.Object]{}), ""},
			"nil inside":        {Owns(pages, WithPredicate(Or(titled, And(Not(nil))))), "WithPredicate(nil)"},
			"of an interface":   {Owns(pages, WithPredicate(TypedPredicate[metav1.Object]{})), ""},
			"for what is kube":  {OwnsKube(newCluster(t).informer, WithPredicate(foreign)), ""},
		} {
			_, err := New("sites", sites, new(calls).reconciler(nil), test.option)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: error %v, want one that says %q", name, err, test.says)
			}
		}
		if titled.Create(newSite("a", "")) || !titled.Update(newSite("a", ""), newSite("a", "one")) ||
			!titled.Delete(newSite("a", "one")) || !foreign.Create(configMap("a", "b")) {
			t.Error("the functions are not asked")
		}
	})
}
