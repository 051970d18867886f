package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/controllerruntime"
	"github.com/nagi-runtime/nagi/test/natstest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// taken returns ConfigMaps that are not the site's, each for another reason.
func (w *world) taken() map[string]*corev1.ConfigMap {
	yes := true
	controlled := w.configMap("controlled", "theirs")
	controlled.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: "pod", UID: types.UID("uid"), Controller: &yes,
	}}
	return map[string]*corev1.ConfigMap{
		"another installation's": of(w.configMap("foreign", "theirs"), "home", "another-installation"),
		"another primary's":      of(w.configMap("others", "theirs"), "away", "here"),
		"controlled":             controlled,
	}
}

// TestWhatIsSomebodyElsesIsNeverTouched: Apply, CreateOrUpdate and AdoptOrFail fail alike, and one event on the primary
// says so.
func TestWhatIsSomebodyElsesIsNeverTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	all := w.taken()
	nobodys := w.configMap("nobodys", "theirs")
	for _, m := range all {
		w.createMap(m)
	}
	w.createMap(nobodys)
	recorder := record.NewFakeRecorder(100)
	told := map[string]bool{}
	refused := func(what string, m *corev1.ConfigMap, err error) {
		t.Helper()
		var exists *controller.ResourceExistsError
		if !errors.As(err, &exists) {
			t.Errorf("%s: %v, want a ResourceExistsError", what, err)
			return
		}
		says(t, err, fmt.Sprintf(controllerruntime.MessageErrResourceExists, w.key(m.Name)))
		select {
		case event := <-recorder.Events:
			want := "Warning " + controllerruntime.ReasonErrResourceExists + " " +
				fmt.Sprintf(controllerruntime.MessageErrResourceExists, w.key(m.Name))
			if _, owned := errors.AsType[*controller.AlreadyOwnedError](err); owned {
				want = "Warning " + controller.ReasonAlreadyOwned + " " + fmt.Sprintf("%q is owned by", w.key(m.Name))
			}
			if !strings.HasPrefix(event, want) || told[m.Name] {
				t.Errorf("%s: the event is %q, want %q once", what, event, want)
			}
		default:
			if !told[m.Name] {
				t.Errorf("%s: no event", what)
			}
		}
		told[m.Name] = true
		if now := w.liveMap(m.Name); now.Data["value"] != "theirs" || len(now.ManagedFields) != 1 {
			t.Errorf("%s: it was touched: %v, %v", what, now.Data, now.ManagedFields)
		}
	}
	must(t, w.inReconcile("home", func(ctx context.Context) error {
		for what, m := range all {
			_, err := maps.Apply(ctx, w.configMap(m.Name, "mine"))
			refused("Apply on "+what, m, err)
			_, err = maps.CreateOrUpdate(ctx, w.configMap(m.Name, "mine"), func(m *corev1.ConfigMap) error {
				m.Data["value"] = "mine"
				return nil
			})
			refused("CreateOrUpdate on "+what, m, err)
			refused("AdoptOrFail on "+what, m, maps.AdoptOrFail(ctx, w.configMap(m.Name, "mine")))
		}
		_, err := maps.Apply(ctx, w.configMap("nobodys", "mine"))
		refused("Apply on nobody's", nobodys, err)
		_, err = maps.CreateOrUpdate(ctx, w.configMap("nobodys", "mine"), func(m *corev1.ConfigMap) error {
			m.Data["value"] = "mine"
			return nil
		})
		refused("CreateOrUpdate on nobody's", nobodys, err)
		return nil
	}, maps.Owns(), controller.WithEventRecorder(butLease{recorder})))
}

// TestAdoptOrFailTakesWhatNobodyOwns: then Apply can write the object, and it goes with its new owner.
func TestAdoptOrFailTakesWhatNobodyOwns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps()
	m := w.configMap("nobodys", "theirs")
	m.Data["extra"] = "theirs"
	w.createMap(m)
	var seen calls
	c := w.applied(func(ctx context.Context, key string) error {
		for _, name := range []string{"nobodys", "new"} { // a missing object is no error
			if err := maps.AdoptOrFail(ctx, w.configMap(name, "mine")); err != nil {
				return err
			}
			if _, err := maps.Apply(ctx, w.configMap(name, "mine")); err != nil {
				return err
			}
		}
		return nil
	}, &seen, maps.Owns())
	w.run(c)
	must(t, w.sites.Create(t.Context(), newSite("home")))
	natstest.Eventually(t, "it is the site's", func() bool {
		_, key, _ := controller.OwnerOf(w.liveMap("nobodys"))
		return key == "home" && w.liveMap("new") != nil
	})
	if got := w.liveMap("nobodys").Data; got["value"] != "mine" || got["extra"] != "theirs" {
		t.Errorf("the data are %v", got)
	}
	must(t, w.sites.Delete(t.Context(), "home"))
	natstest.Eventually(t, "it went with its owner", func() bool {
		return w.liveMap("nobodys") == nil && c.Stats().TornDown == 1
	})
}

// TestOfManyWhoAdoptOneGetsIt: of many primaries that adopt one object at once, one gets it.
func TestOfManyWhoAdoptOneGetsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := w.maps(manager)
	for round := range 10 {
		name := fmt.Sprint("nobodys-", round)
		w.createMap(w.configMap(name, "theirs"))
		natstest.Eventually(t, "the cache has it", func() bool { _, err := maps.Get(w.key(name)); return err == nil })
		var wins, refusals atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				err := maps.AdoptOrFail(t.Context(), of(w.configMap(name, ""), fmt.Sprint("site-", i), "here"))
				var exists *controller.ResourceExistsError
				switch {
				case err == nil:
					wins.Add(1)
				case errors.As(err, &exists):
					refusals.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 || refusals.Load() != 7 {
			t.Fatalf("%d won and %d were refused, want 1 and 7", wins.Load(), refusals.Load())
		}
	}
}
