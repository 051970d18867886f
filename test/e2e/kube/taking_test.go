package kube

import (
	"context"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/taking"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// TestWhatExistsIsTakenOnlyWhereAnOptionSaysSo, by Apply and by CreateOrUpdate, inside and outside of a reconcile: the
// table of who may write what, which is that of NATS.
func TestWhatExistsIsTakenOnlyWhereAnOptionSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	type write func(context.Context, taking.Option, *corev1.ConfigMap) error
	writes := map[string]write{
		"apply": func(ctx context.Context, option taking.Option, m *corev1.ConfigMap) error {
			_, err := maps.Apply(ctx, m, map[taking.Option][]kube.ApplyOption{
				taking.Adopt:    {kube.WithAdopt()},
				taking.HandOver: {kube.WithHandOverFrom(taking.Kind, taking.Other)},
			}[option]...)
			return err
		},
		"update": func(ctx context.Context, option taking.Option, m *corev1.ConfigMap) error {
			_, err := maps.CreateOrUpdateWith(ctx, m, func(m *corev1.ConfigMap) error {
				m.Data["value"] = "mine"
				return nil
			}, map[taking.Option][]controller.WriteOption{
				taking.Adopt:    {controller.WithAdopt()},
				taking.HandOver: {controller.WithHandOverFrom(taking.Kind, taking.Other)},
			}[option]...)
			return err
		},
	}
	run := func(ctx context.Context, where string) {
		for by, write := range writes {
			for n, c := range taking.Cases() {
				name := fmt.Sprint(where, "-", by, "-", n)
				if !c.Absent {
					m := w.configMap(name, "theirs")
					m.Data["extra"] = "theirs"
					c.Mark(m, "here")
					w.createMap(m)
				}
				m := w.configMap(name, "mine")
				if where == "outside" {
					entity.SetOwner(m, taking.Kind, taking.Key, "here")
				}
				err := write(ctx, c.Option, m)
				if got := taking.OutcomeOf(err); got != c.Want {
					t.Errorf("%s %s, %s: %s, want %s: %v", where, by, c.Name, got, c.Want, err)
					continue
				}
				now := w.liveMap(name)
				if c.Want != taking.Written {
					if now.Data["value"] != "theirs" || len(now.ManagedFields) != 1 {
						t.Errorf("%s %s, %s: it is refused, and is now %v", where, by, c.Name, now)
					}
					continue
				}
				if now.Data["value"] != "mine" || !c.Absent && now.Data["extra"] != "theirs" ||
					!entity.IsOwnedBy(now, taking.Kind, taking.Key) || entity.InstanceOf(now) != "here" {
					t.Errorf("%s %s, %s: it is %v of %v", where, by, c.Name, now.Data, now.Annotations)
				}
			}
		}
	}
	must(t, w.inReconcile(taking.Key, func(ctx context.Context) error {
		run(ctx, "inside")
		return nil
	}, maps.Owns(), controller.WithInstance("here")))
	run(t.Context(), "outside")
}

// TestMutateMovesNoObject: it stays its owner's, and one that names no owner is given none.
func TestMutateMovesNoObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	name := func(key string) func(*corev1.ConfigMap) error {
		return func(m *corev1.ConfigMap) error {
			entity.SetOwner(m, "Site", key, "here")
			return nil
		}
	}
	nothing := func(*corev1.ConfigMap) error { return nil }
	for what, m := range map[string]*corev1.ConfigMap{
		"mine": w.mine("mine", "one"), "nobodys": w.configMap("nobodys", "one"),
	} {
		_, err := maps.CreateOrUpdate(t.Context(), m.DeepCopy(), nothing)
		must(t, err)
		_, err = maps.CreateOrUpdate(t.Context(), m.DeepCopy(), name("another"))
		want := taking.Owned
		if what == "nobodys" {
			want = taking.Exists
		}
		if got := taking.OutcomeOf(err); got != want {
			t.Errorf("%s: %s, want %s: %v", what, got, want, err)
		}
		if entity.IsOwnedBy(w.liveMap(m.Name), "Site", "another") {
			t.Errorf("%s was moved", what)
		}
	}
	_, err := maps.CreateOrUpdateWith(t.Context(), w.configMap("nobodys", "one"), name("another"),
		controller.WithAdopt())
	must(t, err)
	if !entity.IsOwnedBy(w.liveMap("nobodys"), "Site", "another") {
		t.Error("it was not adopted")
	}
}

// TestAnObjectThatIsControlledIsNotAdopted: what controls it would go on writing it.
func TestAnObjectThatIsControlledIsNotAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	m := w.taken()["controlled"]
	w.createMap(m)
	_, err := maps.Apply(t.Context(), w.mine(m.Name, "mine"), kube.WithAdopt())
	if got := taking.OutcomeOf(err); got != taking.Exists {
		t.Errorf("Apply: %s, %v", got, err)
	}
	_, err = maps.CreateOrUpdateWith(t.Context(), w.mine(m.Name, "mine"), func(m *corev1.ConfigMap) error {
		m.Data["value"] = "mine"
		return nil
	}, controller.WithAdopt())
	if got := taking.OutcomeOf(err); got != taking.Exists || w.liveMap(m.Name).Data["value"] != "theirs" {
		t.Errorf("CreateOrUpdate: %s, %v", got, err)
	}
}

// TestARefusedObjectIsToldOnce, and the key wakes when its name is free.
func TestARefusedObjectIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	w.createMap(of(w.configMap("home", "theirs"), "away", "here"))
	var seen calls
	recorder := record.NewFakeRecorder(100)
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap(key, "mine"))
		return err
	}, &seen, maps.Owns(), controller.WithEventRecorder(butLease{recorder}), controller.WithInstance("here"),
		controller.WithErrorPolicy(func(_ string, _ error, attempt int) controller.Result {
			if attempt < 10 {
				return controller.Result{RequeueAfter: 1}
			}
			return controller.Result{RequeueAfter: 10 * patience}
		}))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is tried often", func() bool { return seen.count("home") >= 10 })
	if n := len(recorder.Events); n != 1 {
		t.Errorf("it is told %d times", n)
	}
	says(t, fmt.Errorf("%s", <-recorder.Events), "Warning "+controller.ReasonAlreadyOwned)
	w.updateMap("home", func(m *corev1.ConfigMap) { m.Labels, m.Annotations = nil, nil })
	natstest.Eventually(t, "it wakes, and says what is in the way now", func() bool { return len(recorder.Events) == 1 })
	says(t, fmt.Errorf("%s", <-recorder.Events), "Warning "+controller.ReasonResourceExists)
	must(t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "home",
		metav1.DeleteOptions{}))
	natstest.Eventually(t, "it wakes once the name is free", func() bool {
		m := w.liveMap("home")
		return m != nil && m.Data["value"] == "mine"
	})
}

// butLease is a recorder that leaves out who holds the lease.
type butLease struct{ controller.EventRecorder }

func (b butLease) Event(object runtime.Object, eventtype, reason, message string) {
	if reason != "LeaseWon" && reason != "LeaseLost" {
		b.EventRecorder.Event(object, eventtype, reason, message)
	}
}
