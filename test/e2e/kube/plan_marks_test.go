package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// planner is a controller whose reconciles do what they are given, once, and else nothing.
type planner struct {
	w       *world
	c       *controller.Controller[*site]
	planned func(context.Context) error
	once    atomic.Pointer[func(context.Context) error]
	done    chan error
}

func newPlanner(w *world, options ...controller.Option) *planner {
	w.t.Helper()
	p := &planner{w: w, done: make(chan error, 1)}
	c, err := controller.New("sites", w.sites, controller.ReconcilerFunc(
		func(ctx context.Context, _ controller.Request) (controller.Result, error) {
			if controller.Planning(ctx) {
				return controller.Result{}, p.planned(ctx)
			}
			if do := p.once.Swap(nil); do != nil {
				p.done <- (*do)(ctx)
			}
			return controller.Result{}, nil
		}), append(options, controller.WithPlan())...)
	must(w.t, err)
	p.c = c
	natstest.Run(w.t, c.Run)
	must(w.t, w.sites.Create(w.t.Context(), newSite("home")))
	p.calm()
	return p
}

func (p *planner) calm() {
	p.w.t.Helper()
	natstest.Eventually(p.w.t, "it is calm", func() bool { return p.c.Explain("home").State == controller.StateCalm })
}

// reconcile does it in a reconcile, and returns its error.
func (p *planner) reconcile(do func(context.Context) error) error {
	p.w.t.Helper()
	p.once.Store(&do)
	p.c.Enqueue("home", controller.OperationManual)
	err := <-p.done
	p.calm()
	return err
}

// plan returns what the plan says that it would do, and checks that nothing of it is done.
func (p *planner) plan(do func(context.Context) error, want ...string) *controller.Plan {
	p.w.t.Helper()
	before := p.w.versions()
	p.planned = do
	plan, err := p.c.Plan(p.w.t.Context(), "home")
	must(p.w.t, err)
	if after := p.w.versions(); !slices.Equal(before, after) {
		p.w.t.Errorf("a plan has written: %v, then %v", before, after)
	}
	if got := saidBy(plan); plan.Error != "" || !slices.Equal(got, want) {
		p.w.t.Errorf("the plan says %q, want %q; error %q, waits %q, notes %q", got, want, plan.Error, plan.Waits,
			plan.Notes)
	}
	return plan
}

// saidBy is each change in a line, with the fields of data.
func saidBy(plan *controller.Plan) (said []string) {
	for _, change := range plan.Changes {
		_, name, _ := strings.Cut(change.Key, "/")
		line := fmt.Sprint(change.Action, " ", name)
		for _, f := range change.Fields {
			if change.Action == "update" && strings.HasPrefix(f.Path, "data.") {
				line += fmt.Sprintf(" %s→%s", f.From, f.To)
			}
		}
		said = append(said, line)
	}
	return said
}

func setTo(value string) func(*corev1.ConfigMap) error {
	return func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"value": value}
		return nil
	}
}

// TestAPlanThatAdoptsLeavesAnObjectAnothers: what the plan took over is not taken for the process's own afterwards. It
// is neither written nor deleted.
func TestAPlanThatAdoptsLeavesAnObjectAnothers(t *testing.T) {
	t.Parallel()
	for name, adopts := range map[string]func(context.Context, *kube.Handle[*corev1.ConfigMap], *corev1.ConfigMap) error{
		"AdoptOrFail and Apply": func(
			ctx context.Context, maps *kube.Handle[*corev1.ConfigMap], m *corev1.ConfigMap,
		) error {
			if err := maps.AdoptOrFail(ctx, m); err != nil {
				return err
			}
			_, err := maps.Apply(ctx, m)
			return err
		},
		"AdoptOrFail and CreateOrUpdate": func(
			ctx context.Context, maps *kube.Handle[*corev1.ConfigMap], m *corev1.ConfigMap,
		) error {
			if err := maps.AdoptOrFail(ctx, m); err != nil {
				return err
			}
			_, err := maps.CreateOrUpdate(ctx, m, setTo("ours"))
			return err
		},
		"adopted twice": func(ctx context.Context, maps *kube.Handle[*corev1.ConfigMap], m *corev1.ConfigMap) error {
			return errors.Join(maps.AdoptOrFail(ctx, m), maps.AdoptOrFail(ctx, m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			maps := w.maps()
			made := w.createMap(w.configMap("foreign", "theirs"))
			natstest.Eventually(t, "it is cached", func() bool { _, err := maps.Get(w.key("foreign")); return err == nil })
			p := newPlanner(w, maps.Owns())
			p.planned = func(ctx context.Context) error { return adopts(ctx, maps, w.configMap("foreign", "ours")) }
			if plan, err := p.c.Plan(t.Context(), "home"); err != nil || plan.Error != "" || len(plan.Changes) != 1 {
				t.Fatalf("the plan is %+v, %v", plan, err)
			}
			for what, do := range map[string]func(context.Context) error{
				"written": func(ctx context.Context) error {
					_, err := maps.CreateOrUpdate(ctx, w.configMap("foreign", ""), setTo("ours"))
					return err
				},
				"applied": func(ctx context.Context) error {
					_, err := maps.Apply(ctx, w.configMap("foreign", "ours"))
					return err
				},
				"deleted": func(ctx context.Context) error { return maps.Delete(ctx, w.liveMap("foreign")) },
			} {
				if err := p.reconcile(do); !isExists(err) {
					t.Errorf("after the plan it is %s: %v", what, err)
				}
				if m := w.liveMap("foreign"); m == nil || m.ResourceVersion != made.ResourceVersion {
					t.Fatalf("after the plan it is %s: %+v", what, m)
				}
			}
		})
	}
}

func isExists(err error) bool {
	_, ok := errors.AsType[*controller.ResourceExistsError](err)
	return ok
}

// TestAPlanMakesAgainWhatItDeletes, as it must be with what cannot be changed.
func TestAPlanMakesAgainWhatItDeletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	p := newPlanner(w, maps.Owns())
	immutable := func(value string) *corev1.ConfigMap {
		m, yes := w.configMap("job", value), true
		m.Immutable = &yes
		return m
	}
	apply := func(ctx context.Context, value string) error {
		_, err := maps.Apply(ctx, immutable(value))
		return err
	}
	create := func(ctx context.Context, value string) error {
		_, err := maps.CreateOrUpdate(ctx, immutable(value), func(m *corev1.ConfigMap) error { return nil })
		return err
	}
	remove := func(ctx context.Context) error {
		have, err := maps.Get(w.key("job"))
		if err != nil {
			return err
		}
		return maps.Delete(ctx, have)
	}
	must(t, p.reconcile(func(ctx context.Context) error { return apply(ctx, "one") }))
	for name, again := range map[string]func(context.Context, string) error{"Apply": apply, "CreateOrUpdate": create} {
		plan := p.plan(func(ctx context.Context) error {
			return errors.Join(remove(ctx), again(ctx, "two"))
		}, `update job "one"→"two"`)
		if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "deleted and made again") {
			t.Errorf("%s: the notes are %q", name, plan.Notes)
		}
	}
	if plan := p.plan(func(ctx context.Context) error {
		return errors.Join(remove(ctx), apply(ctx, "one"))
	}); len(plan.Notes) != 1 {
		t.Errorf("the notes are %q", plan.Notes)
	}
	must(t, p.reconcile(func(ctx context.Context) error { return errors.Join(remove(ctx), apply(ctx, "two")) }))
	if m := w.liveMap("job"); m.Data["value"] != "two" {
		t.Errorf("it has %v", m.Data)
	}
}

// TestAPlanDeletesWhatItHasWritten: what it changed is a delete, and what it made is nothing.
func TestAPlanDeletesWhatItHasWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	p := newPlanner(w, maps.Owns())
	write := func(ctx context.Context, name, value string) (*corev1.ConfigMap, error) {
		m := w.configMap(name, "")
		_, err := maps.CreateOrUpdate(ctx, m, setTo(value))
		return m, err
	}
	must(t, p.reconcile(func(ctx context.Context) error { _, err := write(ctx, "old", "one"); return err }))
	remove := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			m, err := write(ctx, name, "two")
			return errors.Join(err, maps.Delete(ctx, m), maps.Delete(ctx, m))
		}
	}
	p.plan(remove("old"), "delete old")
	p.plan(func(ctx context.Context) error { // as the cache has it
		_, err := write(ctx, "old", "two")
		have, missing := maps.Get(w.key("old"))
		return errors.Join(err, missing, maps.Delete(ctx, have))
	}, "delete old")
	sent := w.requests.of("DELETE configmaps")
	p.plan(remove("new"))
	if now := w.requests.of("DELETE configmaps"); now != sent {
		t.Errorf("%d deletes were sent of what the server never had", now-sent)
	}
	p.plan(func(ctx context.Context) error {
		_, err := write(ctx, "old", "one") // as it is: the server can still be asked
		_, after := write(ctx, "old", "two")
		return errors.Join(err, after)
	}, `update old "one"→"two"`)
}

// TestAPlanWaitsForWhatFinalizersHold, as the reconcile would.
func TestAPlanWaitsForWhatFinalizersHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	p := newPlanner(w, maps.Owns())
	held := w.configMap("held", "one")
	held.Finalizers = []string{"example.com/held"}
	must(t, p.reconcile(func(ctx context.Context) error { _, err := maps.Apply(ctx, held); return err }))
	defer w.updateMap("held", func(m *corev1.ConfigMap) { m.Finalizers = nil })
	plan := p.plan(func(ctx context.Context) error {
		have, err := maps.Get(w.key("held"))
		if err != nil {
			return err
		}
		err = maps.Delete(ctx, have)
		_, refused := maps.Apply(ctx, w.configMap("held", "two"))
		return errors.Join(err, refused)
	}, "delete held")
	if !strings.Contains(plan.Waits, "example.com/held") {
		t.Errorf("it waits for %q", plan.Waits)
	}
}

// TestAPlanMakesANamespaceAndWhatIsInIt, though the API server has no such namespace.
func TestAPlanMakesANamespaceAndWhatIsInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	spaces, err := kube.New[*corev1.Namespace](w.dynamic, namespaces, w.start(w.unstructured(namespaces, "")))
	must(t, err)
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, w.start(w.unstructured(configMaps, w.namespace+"-new")))
	must(t, err)
	w.awaitSync(spaces.Informer())
	w.awaitSync(maps.Informer())
	p := newPlanner(w, maps.Owns())
	in := func(name string) *corev1.ConfigMap {
		m := w.configMap(name, "one")
		m.Namespace = w.namespace + "-new"
		return m
	}
	plan := p.plan(func(ctx context.Context) error {
		_, err := spaces.Apply(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-new"}})
		_, applied := maps.Apply(ctx, in("applied"))
		_, created := maps.CreateOrUpdate(ctx, in("created"), func(*corev1.ConfigMap) error { return nil })
		return errors.Join(err, applied, created)
	}, "create ", "create applied", "create created")
	if len(plan.Notes) != 2 {
		t.Errorf("the notes are %q", plan.Notes)
	}
	p.planned = func(ctx context.Context) error { _, err := maps.Apply(ctx, in("applied")); return err }
	if plan, err := p.c.Plan(t.Context(), "home"); err != nil || !strings.Contains(plan.Error, "create the namespace") {
		t.Errorf("without the namespace it is %+v, %v", plan, err)
	}
}

// TestAPlanTellsTwoClustersApart: what is deleted in one of them is pruned in the other one all the same.
func TestAPlanTellsTwoClustersApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := newWorldOn(t, kubetest.Start(t))
	other.namespace = w.namespace
	if _, err := other.clientset.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
	}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	here, there := w.maps(), other.maps()
	p := newPlanner(w, here.Owns(controller.WithPrune()), there.Owns(controller.WithPrune()))
	both := func(ctx context.Context, name string) error {
		_, err := here.Apply(ctx, w.configMap(name, "here"))
		_, more := there.Apply(ctx, w.configMap(name, "there"))
		return errors.Join(err, more)
	}
	p.plan(func(ctx context.Context) error { return both(ctx, "new") }, "create new", "create new")
	must(t, p.reconcile(func(ctx context.Context) error { return both(ctx, "old") }))
	natstest.Eventually(t, "both are cached", func() bool {
		_, err := here.Get(w.key("old"))
		_, missing := there.Get(w.key("old"))
		return err == nil && missing == nil
	})
	plan := p.plan(func(ctx context.Context) error {
		old, err := here.Get(w.key("old"))
		if err != nil {
			return err
		}
		there.Keep(ctx) // none
		return here.Delete(ctx, old)
	}, "delete old", "delete old")
	if len(plan.Changes) == 2 && (plan.Changes[0].Why != "" || plan.Changes[1].Why == "") {
		t.Errorf("the changes are %+v", plan.Changes)
	}
}
