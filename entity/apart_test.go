package entity_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/parts"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// byLetter divides keys by the first letter behind a namespace: a is part 0.
func byLetter(wanted ...int) *parts.Parts {
	p := parts.New(26, func(key string) int {
		_, name, found := strings.Cut(key, "/")
		if !found {
			name = key
		}
		return int(name[0] - 'a')
	})
	p.Set(true, wanted...)
	p.Fetched(wanted...)
	return p
}

// heard is what handlers and hooks of a client were told.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) add(text string) { h.mu.Lock(); defer h.mu.Unlock(); h.all = append(h.all, text) }
func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.all
	h.all = nil
	return all
}

func hear[T entity.IEntity](t *testing.T, client *entity.Client[T]) *heard {
	t.Helper()
	h := &heard{}
	_, err := client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.add("add " + obj.(T).GetName()) },
		UpdateFunc: func(_, obj any) { h.add("update " + obj.(T).GetName()) },
		DeleteFunc: func(obj any) { h.add("delete " + obj.(T).GetName()) },
	})
	must(t, err)
	t.Cleanup(client.EnginePort().Subscribe(entity.Hooks{
		Apart: func(key string, change entity.ApartChange) {
			text := "apart " + key
			if change.Before != nil {
				text += ", before that of " + change.Before.GetAnnotations()[entity.OwnerKeyAnnotation]
			}
			if change.OwnerChanged {
				text += ", another owner"
			}
			h.add(text)
		},
		ApartGone: func(key string, how natsinformer.Deletion) { h.add("gone " + key + " " + string(how.Reason)) },
		ApartRecord: func(record *entity.RecordObject, gone bool) {
			text := "record " + record.GetName() + " of " + record.Record.Controller
			if gone {
				text += " is gone"
			}
			h.add(text)
		},
	}))
	return h
}

func wantHeard(t *testing.T, h *heard, want ...string) {
	t.Helper()
	natstest.Eventually(t, "told", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.all) >= len(want) })
	time.Sleep(10 * time.Millisecond) // it is told no more than that
	if got := h.take(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// well is a record of which there is nothing to tell.
func well(document uint64) *entity.Record {
	return &entity.Record{
		Controller: "c", Stream: "s", DocumentRevision: document, ObservedRevision: document, Status: []byte(`{"ready":true}`),
		Conditions: []metav1.Condition{{
			Type: entity.ConditionReconciled, Status: metav1.ConditionTrue, Reason: entity.ReasonSynced, Message: "well",
		}},
	}
}

func TestCachesThatAreDividedByKeyHaveWhatIsWanted(t *testing.T) {
	for name, namespace := range map[string]string{"flat": "", "namespaced": "shop"} {
		t.Run(name, virtually(func(t *testing.T) {
			ctx, js := t.Context(), newServer(t)
			cfg := websites
			cfg.Namespaced = namespace != ""
			key := func(name string) string { return (cache.ObjectName{Namespace: namespace, Name: name}).String() }
			named := func(name string) *Website {
				w := website(name)
				w.Namespace = namespace
				return w
			}
			others := newClient[*Website](t, js, cfg)
			client := newClient[*Website](t, js, cfg)
			p := byLetter(0)
			must(t, client.EnginePort().Divide(&entity.Division{Parts: p}))
			for _, name := range []string{"a", "b", "c"} {
				w := named(name)
				must(t, others.Create(ctx, w))
				must(t, others.Records().Put(ctx, key(name), well(uint64(w.Generation))))
			}
			failing := well(0)
			failing.Conditions[0].Status = metav1.ConditionFalse
			must(t, others.Records().Put(ctx, key("d"), failing))
			start(t, client)
			h := hear(t, client)
			wantHeard(t, h, "add a")

			w, err := client.Lister().Get(key("a"))
			must(t, err)
			if !w.Status.Ready {
				t.Error("its status is not there")
			}
			_, err = client.Lister().Get(key("b"))
			if !errors.Is(err, entity.ErrNotCached) || !apierrors.IsServiceUnavailable(err) {
				t.Errorf("b: %v", err)
			}
			_, err = client.Lister().Get(key("x"))
			wantError(t, "x", apierrors.IsNotFound, err)
			if _, err := client.Lister().List(nil); !errors.Is(err, entity.ErrNotCached) {
				t.Errorf("list: %v", err)
			}
			if w, err := client.Get(ctx, key("b")); err != nil || w.Spec.Host != "b.example.com" {
				t.Errorf("live: %v %v", w, err)
			}

			records := maps.Collect(client.Records().All())
			if len(records) != 4 || records[key("d")].Conditions[0].Status != metav1.ConditionFalse {
				t.Errorf("the records are %v", records)
			}
			rec, _ := client.Records().Cached(key("b"))
			if want, _ := others.Records().Get(ctx, key("b")); rec == nil || rec.Revision != want.Revision ||
				!rec.Anchor() || rec.Stream != "s" || rec.DocumentRevision != want.DocumentRevision ||
				rec.ObservedRevision != want.ObservedRevision || rec.Status != nil ||
				!metav1IsTrue(rec.Conditions, entity.ConditionReconciled) {
				t.Errorf("b's record is %+v", rec)
			}

			p.Set(true, 1)
			must(t, client.EnginePort().Fetch(ctx))
			wantHeard(t, h, "add b")
			w, err = client.Lister().Get(key("b"))
			must(t, err)
			if rec, _ := client.Records().Cached(key("b")); !w.Status.Ready || rec.Status == nil {
				t.Error("b's status was not fetched")
			}
			p.Set(false, 0)
			must(t, client.EnginePort().PutApart(ctx))
			wantHeard(t, h)
			if _, err = client.Lister().Get(key("a")); !errors.Is(err, entity.ErrNotCached) {
				t.Errorf("a: %v", err)
			}
			a, err := others.Get(ctx, key("a"))
			must(t, err)
			a.Spec.Host = "changed"
			must(t, others.Update(ctx, a))
			must(t, others.Delete(ctx, key("c")))
			rec, err = others.Records().Get(ctx, key("c"))
			must(t, err)
			must(t, others.Records().Delete(ctx, key("c"), rec.Revision))
			wantHeard(t, h, "apart "+key("a"), "gone "+key("c")+" Delete", "record c of c is gone")
			if _, err = client.Lister().Get(key("c")); !apierrors.IsNotFound(err) || len(maps.Collect(client.Records().All())) != 3 {
				t.Errorf("c: %v, records %v", err, maps.Collect(client.Records().All()))
			}

			// What this process writes it reads, until the cache has it.
			release := holdCache(t, client)
			w = named("q")
			must(t, client.Create(ctx, w))
			written := uint64(w.Generation)
			if w, err = client.Lister().Get(key("q")); err != nil || w.Spec.Host != "q.example.com" {
				t.Errorf("an own write: %v", err)
			}
			release()
			settle(t, client, written)
			if _, err = client.Lister().Get(key("q")); !errors.Is(err, entity.ErrNotCached) {
				t.Errorf("an own write that the cache has: %v", err)
			}
		}))
	}
}

func metav1IsTrue(conditions []metav1.Condition, of string) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == of && c.Status == metav1.ConditionTrue
	})
}

// TestCachesThatAreDividedByOwnerHaveWhatOthersOwn and of owners of the kind those that are wanted.
func TestCachesThatAreDividedByOwnerHaveWhatOthersOwn(t *testing.T) {
	for name, cfg := range map[string]entity.Config{"whole": websites, "OnlyMetadata": onlyMetadata} {
		t.Run(name, virtually(func(t *testing.T) {
			ctx, js := t.Context(), newServer(t)
			others := newClient[*Website](t, js, cfg)
			client := newClient[*Website](t, js, cfg)
			port, p := client.EnginePort(), byLetter(0)
			must(t, port.Divide(owner.Division(&entity.Division{Parts: p}, "Shop")))
			for name, owner := range map[string]string{"of-a": "a", "of-b": "b", "of-long": strings.Repeat("b", 100)} {
				must(t, others.Create(ctx, stamped(name, owner)))
			}
			must(t, others.Create(ctx, website("free")))
			must(t, others.Create(ctx, owned("unstamped", "b")))
			odd := stamped("odd", "b")
			odd.Labels[entity.OwnerKeyLabel] = "c"
			must(t, others.Create(ctx, odd))
			elses := website("elses")
			entity.SetOwner(elses, "Bakery", "b", "i")
			must(t, others.Create(ctx, elses))
			start(t, client)
			h := hear(t, client)
			synctest.Wait()
			got := h.take()
			slices.Sort(got)
			if !slices.Equal(got, []string{"add elses", "add free", "add odd", "add of-a"}) {
				t.Errorf("told %q", got)
			}
			all, err := client.Lister().OwnedBy("Shop", "a")
			must(t, err)
			if len(all) != 1 {
				t.Errorf("a owns %d", len(all))
			}
			if _, err = client.Lister().OwnedBy("Shop", "b"); !errors.Is(err, entity.ErrNotCached) {
				t.Errorf("what b owns: %v", err)
			}
			known := map[string]entity.ApartDocument{}
			for a := range port.ApartOwned() {
				known[a.Key] = a
			}
			want := map[string]entity.ApartDocument{
				"of-b":      {Key: "of-b", Owner: port.OwnerHash("b"), Instance: "i", Stream: "s"},
				"of-long":   {Key: "of-long", Owner: port.OwnerHash(strings.Repeat("b", 100)), Instance: "i", Stream: "s"},
				"unstamped": {Key: "unstamped", Owner: port.OwnerHash("b"), Instance: "i"},
			}
			if !maps.Equal(known, want) || port.OwnerHash("a") == port.OwnerHash("b") {
				t.Errorf("known is %v, want %v", known, want)
			}

			w, err := others.Get(ctx, "of-a")
			must(t, err)
			entity.SetOwner(w, "Shop", "b", "i")
			w.Annotations[entity.OwnerRevisionAnnotation] = "1@s"
			must(t, others.Update(ctx, w))
			wantHeard(t, h, "apart of-a, before that of a, another owner")
			w, err = others.Get(ctx, "of-b")
			must(t, err)
			w.Spec.Host = "changed"
			must(t, others.Update(ctx, w))
			wantHeard(t, h, "apart of-b")
			entity.SetOwner(w, "Shop", "bb", "i")
			w.Annotations[entity.OwnerRevisionAnnotation] = "1@s"
			must(t, others.Update(ctx, w))
			wantHeard(t, h, "apart of-b, another owner")
			if all, err = client.Lister().OwnedBy("Shop", "a"); err != nil || len(all) != 0 {
				t.Errorf("a owns %d: %v", len(all), err)
			}
			p.Set(true, 1)
			if _, err = client.Lister().OwnedBy("Shop", "b"); !errors.Is(err, entity.ErrNotCached) {
				t.Errorf("what b owns before it was fetched: %v", err)
			}
			must(t, port.Fetch(ctx))
			p.Fetched(1)
			all, err = client.Lister().OwnedBy("Shop", "b")
			must(t, err)
			if len(all) != 3 { // of those the odd one, and the unstamped
				t.Errorf("b owns %d", len(all))
			}
		}))
	}
}

// stamped is a website as a controller writes it for an owner.
func stamped(name, owner string) *Website {
	w := owned(name, owner)
	w.Annotations[entity.OwnerRevisionAnnotation] = "1@s"
	return w
}

func TestARunningCacheIsNotDivided(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		p := byLetter()
		start(t, client)
		if err := client.EnginePort().Divide(&entity.Division{Parts: p}); err == nil || client.EnginePort().Divided() != nil {
			t.Errorf("it was divided: %v", err)
		}
	})
}
