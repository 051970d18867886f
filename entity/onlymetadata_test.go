package entity_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

var onlyMetadata = entity.Config{Kind: "Website", Bucket: "websites", OnlyMetadata: true}

// owned is a website that a shop owns, with labels and annotations of others.
func owned(name, owner string) *Website {
	w := website(name)
	w.Spec.Paths = []string{"/"}
	w.Labels, w.Annotations = map[string]string{"app": "shop"}, map[string]string{"note": "ours"}
	w.UID = someUID
	entity.SetOwner(w, "Shop", owner, "i")
	return w
}

const someUID = "7"

// settle waits until the cache has a revision.
func settle[T entity.IEntity](t *testing.T, client *entity.Client[T], revision uint64) {
	t.Helper()
	natstest.Eventually(t, "cached", func() bool { return client.Informer().Cursor() >= revision })
}

func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// TestACacheOfOnlyMetadataHasNoMoreOfADocument, and live reads have all.
func TestACacheOfOnlyMetadataHasNoMoreOfADocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client := newClient[*Website](t, newServer(t), onlyMetadata)
		start(t, client)
		release := holdCache(t, client)
		must(t, client.Create(ctx, owned("a", "one")))
		for _, when := range []string{"own write", "cached"} {
			w, err := client.Lister().Get("a")
			must(t, err)
			if w.Spec.Host != "" || w.Spec.Paths != nil || !entity.IsTransformed(w) {
				t.Errorf("%s: it has %+v", when, w.Spec)
			}
			if w.UID != someUID || w.ResourceVersion != "1" || w.Annotations["note"] != "ours" ||
				w.Labels["app"] != "shop" || w.Labels[entity.OwnerKeyLabel] != "one" || !entity.IsOwnedBy(w, "Shop", "one") {
				t.Errorf("%s: its metadata is %+v", when, w.ObjectMeta)
			}
			all, err := client.Lister().OwnedBy("Shop", "one")
			must(t, err)
			if len(all) != 1 {
				t.Errorf("%s: the shop owns %d", when, len(all))
			}
			release()
			settle(t, client, 1)
		}
		w, err := client.Get(ctx, "a")
		must(t, err)
		if w.Spec.Host != "a.example.com" || w.Labels[entity.OwnerKindLabel] != "Shop" ||
			w.Annotations[entity.DocumentHashAnnotation] != "" {
			t.Errorf("live it is %+v", w)
		}
	})
}

// TestADocumentsHashChangesWithWhatIsLeftOut and with nothing else.
func TestADocumentsHashChangesWithWhatIsLeftOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx, js := t.Context(), newServer(t)
		typed := newClient[*Website](t, js, onlyMetadata)
		untyped := newClient[*unstructured.Unstructured](t, js, onlyMetadata)
		start(t, typed)
		start(t, untyped)
		revision := uint64(0)
		hashes := func(patch string) (ofTyped, ofUntyped string) {
			t.Helper()
			must(t, typed.Patch(ctx, "a", []byte(patch)))
			revision++
			settle(t, typed, revision)
			settle(t, untyped, revision)
			a, err := typed.Lister().Get("a")
			must(t, err)
			b, err := untyped.Lister().Get("a")
			must(t, err)
			if _, has := b.Object["spec"]; has {
				t.Errorf("the cache has %v", b.Object)
			}
			return a.Annotations[entity.DocumentHashAnnotation], b.GetAnnotations()[entity.DocumentHashAnnotation]
		}
		must(t, typed.Create(ctx, owned("a", "one")))
		revision++
		was, wasUntyped := hashes(`{"spec":{"replicas":2}}`)
		if was == "" || wasUntyped == "" {
			t.Fatalf("hashes %q and %q", was, wasUntyped)
		}
		for _, patch := range []string{
			`{"metadata":{"labels":{"app":"other"}}}`, `{"metadata":{"annotations":{"note":null}}}`,
		} {
			if a, b := hashes(patch); a != was || b != wasUntyped {
				t.Errorf("%s made %q and %q of %q and %q", patch, a, b, was, wasUntyped)
			}
		}
		if a, b := hashes(`{"spec":{"replicas":3}}`); a == was || b == wasUntyped {
			t.Error("another spec has the same hash")
		}
		if a, b := hashes(`{"spec":{"replicas":2}}`); a != was || b != wasUntyped {
			t.Error("the spec is back, and its hash is not")
		}
	})
}

// TestAnUpdateOfOnlyMetadataKeepsTheDocument, whatever it writes of what the cache shows.
func TestAnUpdateOfOnlyMetadataKeepsTheDocument(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *Website)
		want   func(w *Website) bool
	}{
		"a label":         {func(w *Website) { w.Labels["app"] = "b" }, func(w *Website) bool { return w.Labels["app"] == "b" }},
		"its owner again": {func(w *Website) { entity.SetOwner(w, "Shop", "one", "i") }, func(w *Website) bool { return true }},
		"its owner no more": {
			func(w *Website) { w.Labels, w.Annotations = nil, nil },
			func(w *Website) bool { return entity.OwnerIndexValueOf(w) == "" },
		},
		"an own annotation": {func(w *Website) { delete(w.Annotations, "note") }, func(w *Website) bool { return w.Annotations["note"] == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				client := newClient[*Website](t, newServer(t), onlyMetadata)
				start(t, client)
				must(t, client.Create(ctx, owned("a", "one")))
				settle(t, client, 1)
				w, err := client.Lister().Get("a")
				must(t, err)
				c.change(w)
				must(t, client.Update(ctx, w))
				live, err := client.Get(ctx, "a")
				must(t, err)
				if live.Spec.Host != "a.example.com" || len(live.Spec.Paths) != 1 || !c.want(live) ||
					name != "its owner no more" && !entity.IsOwnedBy(live, "Shop", "one") {
					t.Errorf("the document is %+v", live)
				}
			})
		})
	}
}

func TestOnlyMetadataIsRefusedWhereItCannotBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, onlyMetadata)
		err := client.Informer().SetTransform(cache.TransformFunc(short))
		if err == nil || !strings.Contains(err.Error(), "Config.OnlyMetadata") {
			t.Errorf("SetTransform: %v", err)
		}
		cfg := onlyMetadata
		cfg.Kind, cfg.Bucket = "Bare", "bare"
		_, err = entity.NewClient[*kindless](t.Context(), js, cfg)
		if err == nil || !strings.Contains(err.Error(), "embed metav1.TypeMeta") {
			t.Errorf("a type without a kind: %v", err)
		}
	})
}

// met is a spec whose encoding a test may listen to.
type met struct {
	Host string `json:"host,omitempty"`
}

var onMet atomic.Pointer[func(met) error]

func (m met) MarshalJSON() ([]byte, error) {
	if f := onMet.Load(); f != nil {
		if err := (*f)(m); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]string{"host": m.Host})
}

func onMetDo(t *testing.T, f func(met) error) {
	onMet.Store(&f)
	t.Cleanup(func() { onMet.Store(nil) })
}

// TestWhatCannotBeHashedIsInvalidBecauseOfOnlyMetadata, which the user has set, and because of no SetTransform.
func TestWhatCannotBeHashedIsInvalidBecauseOfOnlyMetadata(t *testing.T) {
	for what, secret := range map[string][]string{"plain": nil, "secret": {"spec.host"}} {
		t.Run(what, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				js, cfg := newServer(t), onlyMetadata
				cfg.SecretFields = secret
				client := newClient[*entity.Object[met, struct{}]](t, js, cfg)
				start(t, client)
				onMetDo(t, func(met) error { return errors.New("thirteen") })
				_, err := keyValue(t, js, "websites").Put(t.Context(), "a", []byte(`{"spec":{"host":"h"}}`))
				must(t, err)
				natstest.Eventually(t, "invalid", func() bool { return client.Informer().IsInvalid("a") })
				why := entity.WhyInvalid(client.Informer().Invalid()["a"]).Reason
				if !strings.HasPrefix(why, "Config.OnlyMetadata ") || strings.Contains(why, "SetTransform") ||
					strings.Contains(why, "thirteen") == (secret != nil) {
					t.Error(why)
				}
			})
		})
	}
}

// TestDocumentsAreHashedSideBySide, with no lock that one would wait for.
func TestDocumentsAreHashedSideBySide(t *testing.T) {
	ctx := testContext(t)
	client := newClient[*entity.Object[met, struct{}]](t, newServer(t), onlyMetadata)
	start(t, client)
	var mu sync.Mutex
	encoded, hashing, both := map[string]int{}, 0, make(chan struct{})
	onMetDo(t, func(m met) error {
		mu.Lock()
		if encoded[m.Host]++; encoded[m.Host] != 2 { // the first is the document itself
			mu.Unlock()
			return nil
		}
		if hashing++; hashing == 2 {
			close(both)
		}
		mu.Unlock()
		select {
		case <-both:
		case <-time.After(10 * time.Second):
			t.Errorf("while %s is hashed the other one waits", m.Host)
		}
		return nil
	})
	var writers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		writers.Go(func() {
			obj := &entity.Object[met, struct{}]{}
			obj.Name, obj.Spec.Host = name, name
			if err := client.Create(ctx, obj); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
}

// TestEqualLabelsAreHeldOnce in a cache, and a copy that a lister returns has its own.
func TestEqualLabelsAreHeldOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client := newClient[*Website](t, newServer(t), websites)
		start(t, client)
		for _, name := range []string{"a", "b"} {
			w := website(name)
			w.Labels = map[string]string{"app": "shop", "team": "blue"}
			must(t, client.Create(ctx, w))
		}
		settle(t, client, 2)
		labels := func(name string) map[string]string {
			obj, _, _ := client.Informer().GetStore().GetByKey(name)
			return obj.(metav1.Object).GetLabels()
		}
		if a, b := labels("a"), labels("b"); !sameMap(a, b) {
			t.Error("equal labels are held twice")
		}
		own, err := client.Lister().Get("a")
		must(t, err)
		own.Labels["team"] = "red"
		if other, err := client.Lister().Get("b"); err != nil || other.Labels["team"] != "blue" {
			t.Errorf("changing a copy changed another object: %v, %v", other.Labels, err)
		}
	})
}
