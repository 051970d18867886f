package controllerruntime

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// labelled names an owner as the original Kumori runtime does: by the labels alone, and without an installation.
func labelled[T metav1.Object](obj T, key string) T {
	obj.SetAnnotations(nil)
	obj.SetLabels(map[string]string{OwnerkindLabel: "Site", OwnerKeyLabel: entity.OwnerLabelValue(key)})
	return obj
}

// TestKumoriGarbageThatLabelsAloneNameIsCollected, in NATS and in Kubernetes alike.
func TestKumoriGarbageThatLabelsAloneNameIsCollected(t *testing.T) {
	w := newWorld(t)
	sites, pages := w.sites(), w.pages()
	long := strings.Repeat("of-a-long-name-", 5) + "x"
	theirs := labelled(configMap("theirs", ""), "theirs")
	theirs.Labels[entity.OwnerInstanceLabel] = "another-installation"
	_, informer := kubeInformer(t, labelled(configMap("settings", ""), "gone-too"), theirs,
		labelled(configMap("of-home", ""), "home"), labelled(configMap("of-long", ""), long),
		labelled(configMap("of-nobody", ""), long+"-gone"))
	must(t, sites.Create(t.Context(), newSite("home", "")))
	must(t, sites.Create(t.Context(), newSite(long, "")))
	for _, key := range []string{"gone", "gone-too"} { // the markers of their deletes tell that they were here
		must(t, sites.Create(t.Context(), newSite(key, "")))
		must(t, sites.Delete(t.Context(), key))
	}
	must(t, pages.Create(t.Context(), labelled(newPage("a", ""), "gone")))
	c := kumori{sites: sites, pages: pages, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
	runKumori(t, c)
	eventually(t, "the missing owners are synced", func() bool {
		return c.seen.with("gone", controller.OperationDelete) == 1 &&
			c.seen.with("gone-too", controller.OperationDelete) == 1
	})
	eventually(t, "and those that exist", func() bool { return c.seen.count("home") > 0 && c.seen.count(long) > 0 })
	for _, key := range []string{"home", long, "theirs"} {
		if n := c.seen.with(key, controller.OperationDelete); n != 0 {
			t.Errorf("%q was synced with Delete %d times", key, n)
		}
	}
	if n := c.Stats().Orphaned; n != 3 {
		t.Errorf("%d orphans, want 3: of whom there is a hash alone, nobody can be asked for", n)
	}
}

// TestKumoriGarbageOfAnOwnerThatNeverWasHereIsLeft: without an installation's name it may be that of another one, which
// shares the cluster and the kind.
func TestKumoriGarbageOfAnOwnerThatNeverWasHereIsLeft(t *testing.T) {
	w := newWorld(t)
	sites := w.sites()
	must(t, sites.Create(t.Context(), newSite("ours", "")))
	must(t, sites.Delete(t.Context(), "ours"))
	_, informer := kubeInformer(t, labelled(configMap("of-ours", ""), "ours"),
		labelled(configMap("of-theirs", ""), "theirs"), labelled(configMap("more-of-theirs", ""), "theirs"))
	c := kumori{
		sites: sites, secondaries: []cache.SharedIndexInformer{informer}, resync: 50 * time.Millisecond,
	}.custom(nil)
	runKumori(t, c)
	eventually(t, "what was here is synced", func() bool {
		return c.seen.with("ours", controller.OperationDelete) > 0
	})
	eventually(t, "the others are counted", func() bool { return c.Stats().Orphaned == 3 && c.Stats().Sweeps > 2 })
	if n := c.seen.with("theirs", controller.OperationDelete); n > 0 || c.Stats().Brake.Engaged {
		t.Errorf("it was synced with Delete %d times, and the brake is %+v", n, c.Stats().Brake)
	}
}

// TestKumoriSecondaryThatLabelsAloneNameIsItsOwners: its events reach the owner, and so does Decompose.
func TestKumoriSecondaryThatLabelsAloneNameIsItsOwners(t *testing.T) {
	w := newWorld(t)
	sites := w.sites()
	server, informer := kubeInformer(t)
	c := kumori{sites: sites, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
	runKumori(t, c)
	must(t, sites.Create(t.Context(), newSite("home", "")))
	eventually(t, "home is synced", func() bool { return c.seen.count("home") == 1 })
	m := labelled(configMap("settings", "one"), "home")
	server.Add(m.DeepCopy())
	eventually(t, "its event reaches the owner", func() bool {
		return c.seen.with("home", controller.OperationSecondary) == 1
	})
	if _, key, err := c.DecomposeKubeSecondaryResource(m); err != nil || key != "home" {
		t.Errorf("the owner is %q, %v", key, err)
	}
	m.Labels[entity.OwnerInstanceLabel] = "another-installation"
	if _, key, err := c.DecomposeKubeSecondaryResource(m); err != nil || key != "" {
		t.Errorf("the owner of another installation's is %q, %v", key, err)
	}
}

// TestKumoriHandleSecondaryAlsoGetsWhatHadAnotherLabel, so that who lost it hears of that.
func TestKumoriHandleSecondaryAlsoGetsWhatHadAnotherLabel(t *testing.T) {
	w := newWorld(t)
	sites := w.sites()
	server, informer := kubeInformer(t, labelled(configMap("settings", ""), "home"))
	c := kumori{sites: sites, secondaries: []cache.SharedIndexInformer{informer}}.custom(nil)
	runKumori(t, c)
	for _, key := range []string{"home", "other"} {
		must(t, sites.Create(t.Context(), newSite(key, "")))
		eventually(t, key+" is synced", func() bool { return c.seen.with(key, controller.OperationPut) == 1 })
	}
	before := c.seen.with("home", controller.OperationSecondary)
	server.Modify(labelled(configMap("settings", ""), "other"))
	eventually(t, "both are synced", func() bool {
		return c.seen.with("home", controller.OperationSecondary) > before &&
			c.seen.with("other", controller.OperationSecondary) > 0
	})
}
