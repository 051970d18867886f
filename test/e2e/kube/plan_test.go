package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// versions are those of all config maps of the namespace.
func (w *world) versions() (all []string) {
	w.t.Helper()
	list, err := w.clientset.CoreV1().ConfigMaps(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	for _, m := range list.Items {
		all = append(all, m.Name+" "+m.ResourceVersion)
	}
	slices.Sort(all)
	return all
}

// TestAPlanAsksTheAPIServerWhatAReconcileWouldDo, for each helper that writes: the server has nothing of it, and the
// reconcile that follows does what the plan said. It needs a real API server: the fake one writes in a dry run.
func TestAPlanAsksTheAPIServerWhatAReconcileWouldDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	var value atomic.Value // what the maps say
	value.Store("one")
	var stands atomic.Bool // the reconciler only plans
	c, err := controller.New("sites", w.sites, controller.ReconcilerFunc(
		func(ctx context.Context, req controller.Request) (controller.Result, error) {
			if stands.Load() && !controller.Planning(ctx) {
				return controller.Result{}, nil
			}
			v := value.Load().(string)
			if _, err := maps.Apply(ctx, w.configMap("applied", v)); err != nil {
				return controller.Result{}, err
			}
			changed := w.configMap("changed", "")
			if _, err := maps.CreateOrUpdate(ctx, changed, func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"value": v}
				return nil
			}); err != nil {
				return controller.Result{}, err
			}
			if v == "one" {
				_, err := maps.Apply(ctx, w.configMap("first", v))
				return controller.Result{}, err
			}
			if first, err := maps.Get(w.key("first")); err == nil && v == "two" {
				return controller.Result{}, maps.Delete(ctx, first)
			}
			return controller.Result{}, nil
		}), maps.Owns(controller.WithPrune()), controller.WithPlan())
	must(t, err)
	stands.Store(true)
	natstest.Run(t, c.Run)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	calm := func() {
		t.Helper()
		natstest.Eventually(t, "it is calm", func() bool { return c.Explain("home").State == controller.StateCalm })
	}
	calm()
	plans := func(want ...string) *controller.Plan {
		t.Helper()
		before := w.versions()
		plan, err := c.Plan(t.Context(), "home")
		must(t, err)
		var got []string
		for _, change := range plan.Changes {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", change.Action, strings.TrimSuffix(change.Kind, "/v1"),
				strings.TrimPrefix(change.Key, w.namespace+"/"), change.Why)))
		}
		if !slices.Equal(got, want) || plan.Error != "" || len(plan.Notes) > 0 {
			t.Errorf("the plan says\n%s\nwant\n%s\nerror %q, notes %v", strings.Join(got, "\n"),
				strings.Join(want, "\n"), plan.Error, plan.Notes)
		}
		if after := w.versions(); !slices.Equal(before, after) {
			t.Errorf("a plan has written: %v, then %v", before, after)
		}
		return plan
	}
	reconciles := func() {
		t.Helper()
		stands.Store(false)
		c.Enqueue("home", controller.OperationManual)
		natstest.Eventually(t, "it is as the plan said", func() bool {
			plan, err := c.Plan(t.Context(), "home")
			return err == nil && len(plan.Changes) == 0
		})
		calm()
		stands.Store(true)
	}
	plans("create configmaps applied", "create configmaps changed", "create configmaps first")
	reconciles()
	plans() // and a plan of what is so already leaves nothing behind that would be taken for a change
	before := w.versions()
	reconciles()
	if after := w.versions(); !slices.Equal(before, after) {
		t.Errorf("what was as it should be was written: %v, then %v", before, after)
	}

	value.Store("two")
	plan := plans("update configmaps applied", "update configmaps changed", "delete configmaps first")
	if f := plan.Changes[1].Fields; len(f) == 0 || f[0].Path != "data.value" || f[0].From != `"one"` || f[0].To != `"two"` {
		t.Errorf("the fields are %+v", f)
	}
	value.Store("three")
	plans("update configmaps applied", "update configmaps changed",
		"delete configmaps first it is not wanted any more")
	reconciles()
	if m := w.liveMap("applied"); m.Data["value"] != "three" {
		t.Errorf("it has %v", m.Data)
	}
}
