package kube

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalizer is somebody's.
const finalizer = "example.com/held"

// condition is the reason and the message of the site's record; empty if there is none.
func (w *world) condition(key string) (reason, message string) {
	w.t.Helper()
	r, err := w.sites.Record(w.t.Context(), key)
	if err != nil && !isNotFound(err) {
		w.t.Fatal(err)
	}
	if err == nil {
		for _, c := range r.Conditions {
			if c.Type == entity.ConditionReconciled {
				return c.Reason, c.Message
			}
		}
	}
	return "", ""
}

// deleteMap deletes a ConfigMap as somebody else would.
func (w *world) deleteMap(name string) {
	w.t.Helper()
	must(w.t, w.clientset.CoreV1().ConfigMaps(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// TestAPrimaryWhoseObjectIsBeingDeletedIsNotSynced, and says which object that is. It is made again when it is gone, at
// once, however long the backoff is by then.
func TestAPrimaryWhoseObjectIsBeingDeletedIsNotSynced(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *world, *kube.Handle[*corev1.ConfigMap]) error{
		"Apply": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.Apply(ctx, w.configMap("settings", "one"))
			return err
		},
		"CreateOrUpdate": func(ctx context.Context, w *world, maps *kube.Handle[*corev1.ConfigMap]) error {
			_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", ""), func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"value": "one"}
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maps := w.maps()
			c := w.applied(func(ctx context.Context, _ string) error { return write(ctx, w, maps) }, &calls{},
				maps.Owns(), controller.WithBackoff(4*time.Minute, 4*time.Minute))
			w.run(c)
			must(t, w.sites.Create(t.Context(), newSite("home")))
			synced := func() bool { reason, _ := w.condition("home"); return reason == entity.ReasonSynced }
			natstest.Eventually(t, "it is synced", synced)
			first := w.updateMap("settings", func(m *corev1.ConfigMap) { m.Finalizers = []string{finalizer} })
			w.deleteMap("settings")
			natstest.Eventually(t, "the record says what it waits for", func() bool {
				reason, message := w.condition("home")
				return reason == entity.ReasonRetrying && strings.Contains(message, w.key("settings")) &&
					strings.Contains(message, "is being deleted") && strings.Contains(message, finalizer)
			})
			w.finalized("settings")
			natstest.Eventually(t, "it is made again", func() bool {
				m := w.liveMap("settings")
				return m != nil && m.UID != first.UID && m.Data["value"] == "one"
			})
			natstest.Eventually(t, "it is synced again", synced)
		})
	}
}

// TestAFinalizerOfTheControllersOwnCanBeTakenOff: what an Apply changes of an object that is being deleted is changed,
// and the same reconcile makes the next one when that was the last that held it.
func TestAFinalizerOfTheControllersOwnCanBeTakenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	desired := func(finalizers ...string) *corev1.ConfigMap {
		m := w.configMap("settings", "one")
		m.Finalizers = finalizers
		return m
	}
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		_, err := maps.Apply(ctx, desired(finalizer))
		return err
	}, maps.Owns()))
	first := w.liveMap("settings")
	w.deleteMap("settings")
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		if result, err := maps.Apply(ctx, desired(finalizer)); err != nil || result != kube.OperationResultNone {
			t.Errorf("while it is being deleted: %v, %v", result, err)
		}
		result, err := maps.Apply(ctx, desired())
		if err != nil || result != kube.OperationResultCreated {
			t.Errorf("without the finalizer: %v, %v; want it made again", result, err)
		}
		return nil
	}, maps.Owns()))
	if m := w.liveMap("settings"); m == nil || m.UID == first.UID {
		t.Error("it was not made again")
	}
}

// TestOutsideAReconcileAWriteOfWhatIsBeingDeletedIsAnError: no primary waits there.
func TestOutsideAReconcileAWriteOfWhatIsBeingDeletedIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, w.start(w.typed()), kube.WithFieldManager("tool"))
	must(t, err)
	wanted := w.configMap("settings", "one")
	wanted.Finalizers = []string{finalizer}
	_, err = maps.Apply(t.Context(), wanted)
	must(t, err)
	w.deleteMap("settings")
	natstest.Eventually(t, "the cache shows it", func() bool {
		m, err := maps.Get(w.key("settings"))
		return err == nil && m.DeletionTimestamp != nil
	})
	result, err := maps.Apply(t.Context(), wanted)
	deleting, ok := errors.AsType[*controller.BeingDeletedError](err)
	if !ok || deleting.Key != w.key("settings") || len(deleting.Finalizers) != 1 || result != kube.OperationResultNone {
		t.Errorf("got %v, %v", result, err)
	}
	w.finalized("settings")
}

// TestAReconcilerGoesOnWhileAnObjectIsBeingDeleted: what it writes next may be what the object waits for, as the pods
// of a claim. What stays as it is costs no request, and a change that lands is one.
func TestAReconcilerGoesOnWhileAnObjectIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	var value atomic.Value
	value.Store("one")
	var seen calls
	var last atomic.Value
	c := w.applied(func(ctx context.Context, _ string) error {
		result, err := maps.Apply(ctx, w.configMap("claim", value.Load().(string)))
		if last.Store(result); err != nil {
			return err
		}
		_, err = maps.Apply(ctx, w.configMap("user", value.Load().(string)))
		return err
	}, &seen, maps.Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "both are there", func() bool { return w.liveMap("claim") != nil && w.liveMap("user") != nil })
	w.updateMap("claim", func(m *corev1.ConfigMap) { m.Finalizers = []string{finalizer} })
	w.deleteMap("claim")
	natstest.Eventually(t, "it waits", func() bool { reason, _ := w.condition("home"); return reason == entity.ReasonRetrying })
	value.Store("two")
	natstest.Eventually(t, "the other one is written", func() bool { return w.liveMap("user").Data["value"] == "two" })
	natstest.Eventually(t, "so is what is being deleted", func() bool { return w.liveMap("claim").Data["value"] == "two" })
	natstest.Eventually(t, "it is calm", func() bool { return last.Load() == kube.OperationResultNone })
	reads, before := w.requests.of("GET configmaps"), seen.count("home")
	natstest.Eventually(t, "more reconciles", func() bool { return seen.count("home") >= before+5 })
	if n := w.requests.of("GET configmaps") - reads; n > 0 {
		t.Errorf("%d reads though nothing changes", n)
	}
	w.finalized("claim")
	natstest.Eventually(t, "it is made again", func() bool {
		m := w.liveMap("claim")
		reason, _ := w.condition("home")
		return m != nil && m.DeletionTimestamp == nil && reason == entity.ReasonSynced
	})
}

// TestATeardownThatWaitsForAFinalizerSaysSo, in Stats and in the record, with the object and the finalizer, until the
// finalizer goes.
func TestATeardownThatWaitsForAFinalizerSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap(key, "one"))
		return err
	}, &calls{}, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite("other")))
	natstest.Eventually(t, "both are there", func() bool { return w.liveMap("home") != nil && w.liveMap("other") != nil })
	w.updateMap("home", func(m *corev1.ConfigMap) { m.Finalizers = []string{finalizer} })
	must(t, w.sites.Delete(t.Context(), "home"))
	told := func(text string) bool {
		return strings.Contains(text, w.key("home")) && strings.Contains(text, finalizer) &&
			strings.Contains(text, "configmaps")
	}
	began := time.Now()
	natstest.Eventually(t, "Stats says so", func() bool {
		err := c.Stats().Degraded["teardown"]
		return err != nil && told(err.Error()) && strings.Contains(err.Error(), `"home"`)
	})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	natstest.Eventually(t, "the record says so", func() bool {
		reason, message := w.condition("home")
		return reason == entity.ReasonRetrying && told(message)
	})
	must(t, w.sites.Delete(t.Context(), "other"))
	natstest.Eventually(t, "the other is torn down", func() bool { return c.Stats().TornDown == 1 })
	if c.Stats().Degraded["teardown"] == nil {
		t.Error("another teardown that ended hides it")
	}
	w.finalized("home")
	natstest.Eventually(t, "it is torn down", func() bool { return c.Stats().TornDown == 2 && !w.hasRecord("home") })
	natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 })
}

// TestASweptObjectThatAFinalizerHoldsIsToldToo: no record says that its owner is torn down, and none is made.
func TestASweptObjectThatAFinalizerHoldsIsToldToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.were("gone")
	m := of(w.configMap("orphan", "one"), "gone", w.instance())
	m.Finalizers = []string{finalizer}
	w.createMap(m)
	c := w.controller(new(calls).reconciler(nil), w.maps().Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "Stats says so", func() bool {
		err := c.Stats().Degraded["teardown"]
		return err != nil && strings.Contains(err.Error(), w.key("orphan")) && strings.Contains(err.Error(), finalizer)
	})
	if w.hasRecord("gone") {
		t.Error("a record was made")
	}
	w.finalized("orphan")
	natstest.Eventually(t, "all is well", func() bool { return len(c.Stats().Degraded) == 0 && w.liveMap("orphan") == nil })
}
