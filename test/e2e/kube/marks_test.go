package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// hashedKey is no value of a label, so labels have a hash of it.
var hashedKey = "home-" + strings.Repeat("of-a-long-name-", 5) + "x"

// without removes the owner's marks from annotations, labels or both.
func without(annotations, labels bool) func(*corev1.ConfigMap) {
	return func(m *corev1.ConfigMap) {
		for _, name := range []string{
			entity.OwnerKindLabel, entity.OwnerKeyLabel, entity.OwnerInstanceLabel, entity.OwnerRevisionAnnotation,
		} {
			if annotations {
				delete(m.Annotations, name)
			}
			if labels {
				delete(m.Labels, name)
			}
		}
	}
}

// settled has a controller apply the ConfigMap "settings" for the site with that key, and stops it.
func (w *world) settled(key string) {
	w.t.Helper()
	maps := w.maps()
	c := w.applied(func(ctx context.Context, _ string) error {
		_, err := maps.Apply(ctx, w.configMap("settings", "one"))
		return err
	}, &calls{}, maps.Owns())
	r := w.run(c)
	must(w.t, w.sites.Create(w.t.Context(), newSite(key)))
	natstest.Eventually(w.t, "it is there", func() bool { return w.liveMap("settings") != nil && c.Stats().Running == 0 })
	r.halt()
}

// TestATeardownFindsWhatHasEitherOfItsOwnersMarks: somebody took the others off, and deleted the primary, while the
// controller was down.
func TestATeardownFindsWhatHasEitherOfItsOwnersMarks(t *testing.T) {
	t.Parallel()
	for name, strip := range map[string]func(*corev1.ConfigMap){
		"annotations gone": without(true, false),
		"labels gone":      without(false, true),
		"a part of each gone": func(m *corev1.ConfigMap) {
			delete(m.Annotations, entity.OwnerInstanceAnnotation)
			delete(m.Labels, entity.OwnerKeyLabel)
		},
	} {
		for keyIs, key := range map[string]string{"in the label": "home", "hashed": hashedKey} {
			for deleterIs, owns := range map[string]func(*world) controller.Option{
				"of a handle": func(w *world) controller.Option { return w.maps().Owns() },
				"alone": func(w *world) controller.Option {
					return controller.OwnsKube(w.start(w.typed()),
						controller.WithDeleter(kube.Deleter(w.dynamic, configMaps)))
				},
			} {
				t.Run(name+", key "+keyIs+", deleter "+deleterIs, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					w.settled(key)
					w.updateMap("settings", strip)
					must(t, w.sites.Delete(t.Context(), key))
					c := w.controller(new(calls).reconciler(nil), owns(w))
					w.run(c)
					natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
					if w.liveMap("settings") != nil {
						t.Error("what it owned was left")
					}
				})
			}
		}
	}
}

// TestNothingIsDeletedWhoseMarksContradictEachOther: nobody knows whose it is. It is counted.
func TestNothingIsDeletedWhoseMarksContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.ConfigMap){
		"key of the label":      func(m *corev1.ConfigMap) { m.Labels[entity.OwnerKeyLabel] = "another" },
		"key of the annotation": func(m *corev1.ConfigMap) { m.Annotations[entity.OwnerKeyAnnotation] = "another" },
		"kind of the label":     func(m *corev1.ConfigMap) { m.Labels[entity.OwnerKindLabel] = "Shop" },
		"instance of the label": func(m *corev1.ConfigMap) { m.Labels[entity.OwnerInstanceLabel] = "there" },
		"instance of the annotation": func(m *corev1.ConfigMap) {
			m.Annotations[entity.OwnerInstanceAnnotation] = "there"
		},
		"another's labels alone": func(m *corev1.ConfigMap) {
			without(true, false)(m)
			m.Labels[entity.OwnerInstanceLabel] = "there"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settled("home")
			w.updateMap("settings", change)
			must(t, w.sites.Delete(t.Context(), "home"))
			c := w.controller(new(calls).reconciler(nil), w.maps().Owns(),
				controller.WithResyncInterval(50*time.Millisecond))
			w.run(c)
			natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
			sweeps := c.Stats().Sweeps
			natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
			if w.liveMap("settings") == nil || w.requests.of("DELETE configmaps") > 0 {
				t.Error("it was deleted")
			}
			if s := c.Stats(); s.Foreign == 0 && s.Contradicting != 1 {
				t.Errorf("it was not counted: %d foreign, %d contradicting", s.Foreign, s.Contradicting)
			}
			if strings.HasSuffix(name, "of the label") && c.Stats().Contradicting != 1 {
				t.Errorf("%d contradicting, want 1", c.Stats().Contradicting)
			}
		})
	}
}

// TestWhatLostAllItsMarksIsReported, because its field manager is ours, and is not deleted: nobody knows whose it is.
func TestWhatLostAllItsMarksIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled("home")
	w.createMap(w.configMap("nobodys", "one"))
	w.updateMap("settings", without(true, true))
	must(t, w.sites.Delete(t.Context(), "home"))
	c := w.controller(new(calls).reconciler(nil), w.maps().Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "it is counted", func() bool { return c.Stats().Unmarked == 1 })
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	if w.liveMap("settings") == nil || w.liveMap("nobodys") == nil {
		t.Error("it was deleted")
	}
	w.updateMap("settings", func(m *corev1.ConfigMap) { m.ManagedFields, m.Annotations = nil, nil })
	m := w.liveMap("settings")
	must(t, kube.Deleter(w.dynamic, configMaps).Delete(t.Context(), m))
	natstest.Eventually(t, "nothing is counted any more", func() bool { return c.Stats().Unmarked == 0 })
}

// TestTheSweepFindsAnOwnerThatLabelsAloneName. Where they have but a hash of a key that nobody has, the object is
// counted, and stays.
func TestTheSweepFindsAnOwnerThatLabelsAloneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.instance()
	create := func(name, key string) {
		m := of(w.configMap(name, "one"), key, here)
		m.Annotations = nil
		w.createMap(m)
	}
	create("orphan", "gone")
	must(t, w.sites.Create(t.Context(), newSite("gone")))
	must(t, w.sites.Delete(t.Context(), "gone")) // the marker of that is what tells
	create("of-a-hash", hashedKey+"-gone")
	create("owned", "home")
	create("owned-by-a-hash", hashedKey)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite(hashedKey)))
	c := w.controller(new(calls).reconciler(nil), w.maps().Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "the orphan is swept", func() bool { return w.liveMap("orphan") == nil })
	natstest.Eventually(t, "the other one is counted", func() bool { return c.Stats().Orphaned == 1 })
	sweeps := c.Stats().Sweeps
	natstest.Eventually(t, "more sweeps", func() bool { return c.Stats().Sweeps >= sweeps+3 })
	for _, name := range []string{"of-a-hash", "owned", "owned-by-a-hash"} {
		if w.liveMap(name) == nil {
			t.Errorf("%s was swept", name)
		}
	}
	if n := w.requests.of("DELETE configmaps"); n != 1 || c.Stats().Orphaned != 1 {
		t.Errorf("%d deletes were sent, %d orphans; want 1 of each", n, c.Stats().Orphaned)
	}
}

// narrow returns an informer that does not cover what the tests write.
func (w *world) narrow() cache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(w.clientset, 0,
		informers.WithNamespace("kube-system")).Core().V1().ConfigMaps().Informer()
}

// TestAnAnchorGoesOnlyWhenALiveListIsEmpty: a process that did not write the object, and whose cache does not show it,
// deletes it all the same. It asks once for each teardown, and never for what is calm.
func TestAnAnchorGoesOnlyWhenALiveListIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled("home")
	must(t, w.sites.Delete(t.Context(), "home"))
	informer := w.narrow()
	maps, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, informer)
	must(t, err)
	w.start(informer)
	c := w.controller(new(calls).reconciler(nil), maps.Owns())
	w.run(c)
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	if w.liveMap("settings") != nil {
		t.Error("what it owned was left")
	}
}

// TestATeardownAsksTheAPIServerOnceAndCalmCostsNothing.
func TestATeardownAsksTheAPIServerOnceAndCalmCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		_, err := maps.Apply(ctx, w.configMap(key, "one"))
		return err
	}, &seen, maps.Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	must(t, w.sites.Create(t.Context(), newSite("other")))
	natstest.Eventually(t, "both are there", func() bool {
		_, err1 := maps.Get(w.key("home"))
		_, err2 := maps.Get(w.key("other"))
		return err1 == nil && err2 == nil
	})
	reads, sweeps := w.requests.of("GET configmaps"), c.Stats().Sweeps
	calm := seen.count("other")
	natstest.Eventually(t, "more resyncs", func() bool { return seen.count("other") >= calm+3 && c.Stats().Sweeps > sweeps })
	if n := w.requests.of("GET configmaps") - reads; n != 0 {
		t.Errorf("%d reads though all is calm", n)
	}
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "the site is torn down", func() bool { return c.Stats().TornDown == 1 })
	if n := w.requests.of("GET configmaps") - reads; n != 1 {
		t.Errorf("%d reads for the teardown, want 1 list", n)
	}
}

// TestAReconcileDoesNotDeleteWhatContradictsItself, until its marks are mended, as Apply does.
func TestAReconcileDoesNotDeleteWhatContradictsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settled("home")
	m := w.updateMap("settings", func(m *corev1.ConfigMap) { m.Labels[entity.OwnerKeyLabel] = "another" })
	maps := w.maps()
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		err := maps.Delete(ctx, m)
		says(t, err, w.key("settings"), "labels", "Apply")
		if _, typed := errors.AsType[*controller.ContradictingMarksError](err); !typed {
			t.Errorf("got %T", err)
		}
		if w.liveMap("settings") == nil {
			t.Error("it was deleted")
		}
		if _, err := maps.Apply(ctx, w.configMap("settings", "one")); err != nil {
			return err
		}
		return maps.Delete(ctx, w.liveMap("settings"))
	}, maps.Owns()))
	if w.liveMap("settings") != nil {
		t.Error("it was not deleted after its marks were mended")
	}
}

// TestWhatCreateOrUpdateWroteIsReportedToo when it has lost all its marks: there is no annotation of an apply on it.
func TestWhatCreateOrUpdateWroteIsReportedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		_, err := maps.CreateOrUpdate(ctx, w.configMap("settings", ""), func(m *corev1.ConfigMap) error {
			m.Data = map[string]string{"value": "one"}
			return nil
		})
		return err
	}, maps.Owns()))
	w.updateMap("settings", func(m *corev1.ConfigMap) { m.Labels, m.Annotations = nil, nil })
	c := w.controller(new(calls).reconciler(nil), maps.Owns(), controller.WithResyncInterval(50*time.Millisecond))
	w.run(c)
	natstest.Eventually(t, "it is counted", func() bool { return c.Stats().Unmarked == 1 })
	wanted := w.configMap("settings", "")
	c.SetOwner(wanted, "home")
	other, err := kube.New[*corev1.ConfigMap](w.dynamic, configMaps, maps.Informer(), kube.WithFieldManager("sites"))
	must(t, err)
	must(t, other.AdoptOrFail(t.Context(), wanted))
	natstest.Eventually(t, "it is not counted once it is adopted", func() bool { return c.Stats().Unmarked == 0 })
}

// TestAnObjectBelongsToWhomItsMarksName, each mark for itself: what is left of them decides about writes, deletes and
// adoption alike. An object that names no installation is written, which names it, but not deleted.
func TestAnObjectBelongsToWhomItsMarksName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change         func(*corev1.ConfigMap)
		writes, delete bool
	}{
		"another installation's annotation, labels without": {func(m *corev1.ConfigMap) {
			without(true, false)(m)
			m.Annotations[entity.OwnerInstanceAnnotation] = "there"
			delete(m.Labels, entity.OwnerInstanceLabel)
		}, false, false},
		"a part of each": {func(m *corev1.ConfigMap) {
			delete(m.Annotations, entity.OwnerKeyAnnotation)
			delete(m.Labels, entity.OwnerKindLabel)
		}, true, true},
		"no installation": {func(m *corev1.ConfigMap) {
			delete(m.Annotations, entity.OwnerInstanceAnnotation)
			delete(m.Labels, entity.OwnerInstanceLabel)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settled("home")
			m := w.updateMap("settings", tt.change)
			maps := w.maps()
			foreign := func(err error) bool {
				_, is := errors.AsType[*controller.ResourceExistsError](err)
				return is
			}
			must(t, w.inReconcile("home", func(ctx context.Context) error {
				if !tt.delete && !foreign(maps.Delete(ctx, m)) {
					t.Error("it may be deleted")
				}
				if err := maps.AdoptOrFail(ctx, m.DeepCopy()); foreign(err) == tt.writes {
					t.Errorf("adoption: %v", err)
				}
				_, err := maps.Apply(ctx, w.configMap("settings", "two"))
				if foreign(err) == tt.writes {
					t.Errorf("apply: %v", err)
				}
				if tt.writes {
					return maps.Delete(ctx, w.liveMap("settings"))
				}
				return nil
			}, maps.Owns()))
			if gone := w.liveMap("settings") == nil; gone != tt.writes {
				t.Errorf("it is gone: %v", gone)
			}
		})
	}
}
