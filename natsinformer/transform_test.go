package natsinformer

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// transformed runs an informer with a transform until the test ends.
func transformed(t *testing.T, js jetstream.JetStream, cfg Config, transform cache.TransformFunc) *running {
	t.Helper()
	return startWith(t, js, cfg, func(i Informer) { must(t, i.SetTransform(transform)) })
}

// labelled is a document with labels, so that copying it goes over a map.
func labelled(n int) []byte { return fmt.Appendf(nil, `{"n":%d,"metadata":{"labels":{"a":"b"}}}`, n) }

// TestATransformMayChangeObjectsInPlace while they are deleted: nobody else has them by then.
func TestATransformMayChangeObjectsInPlace(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		r := transformed(t, js, Config{Bucket: "b"}, func(obj any) (any, error) {
			for i := range 50 {
				obj.(*thing).Labels[fmt.Sprint(i)] = "set"
			}
			return obj, nil
		}).synced(t)
		const keys = 300
		for i := range keys {
			key := fmt.Sprint("k", i)
			for n := range 3 {
				_, err := js.PublishAsync("$KV.b."+key, labelled(n))
				must(t, err)
			}
			must(t, kv.Delete(t.Context(), key))
		}
		within(t, prompt, "all are gone", func() bool { return r.Cursor() >= 4*keys && len(r.GetStore().List()) == 0 })
		for _, e := range r.seen.all() {
			if len(e.object.Labels) != 51 {
				t.Fatalf("%s of %s has %d labels, want 51", e.kind, e.key, len(e.object.Labels))
			}
			if e.kind == "delete" && !e.deletion.Evidenced {
				t.Fatalf("the delete of %s is %+v", e.key, e.deletion)
			}
		}
	})
}

// TestATransformSeesEachRevisionOnce, and no delete, however often the stream is listed.
func TestATransformSeesEachRevisionOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		var mu sync.Mutex
		times := map[string]int{}
		counts := func() map[string]int { mu.Lock(); defer mu.Unlock(); return maps.Clone(times) }
		put(t, kv, "listed", 1)
		put(t, kv, "gone", 2)
		r := transformed(t, js, Config{Bucket: "b"}, func(obj any) (any, error) {
			o := obj.(*thing)
			mu.Lock()
			defer mu.Unlock()
			times[o.Name+"@"+o.ResourceVersion]++
			o.N += 1000
			return o, nil
		}).synced(t)
		put(t, kv, "watched", 3)
		must(t, kv.Delete(t.Context(), "gone"))
		within(t, prompt, "deleted", func() bool { return r.seen.last("gone").kind == "delete" })
		want := map[string]int{"listed@1": 1, "gone@2": 1, "watched@3": 1}
		if got := counts(); !maps.Equal(got, want) {
			t.Errorf("transformed %v, want %v", got, want)
		}

		// The stream is listed again, as its only anchors are gone.
		lists := r.Status().Lists
		must(t, server.Restart())
		answersNow(t, js, "b")
		for _, key := range []string{"watched", "gone"} {
			must(t, kv.Purge(t.Context(), key))
			must(t, kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1)))
		}
		put(t, kv, "last", 4)
		within(t, prompt, "the last one", func() bool { return r.has("last", 1004) && r.get("watched") == nil })
		if !r.has("listed", 1001) {
			t.Errorf("listed is %+v, lists %d → %d", r.get("listed"), lists, r.Status().Lists)
		}
		for revision, n := range counts() {
			if n != 1 {
				t.Errorf("%s was transformed %d times", revision, n)
			}
		}
		for _, e := range r.seen.all() {
			if e.n < 1000 || e.n >= 2000 {
				t.Errorf("%s of %s has n=%d", e.kind, e.key, e.n)
			}
		}
	})
}

// TestWhatATransformRefusesIsInvalidAndNoDelete.
func TestWhatATransformRefusesIsInvalidAndNoDelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "bad", 13)
		put(t, kv, "k", 1)
		var told reports
		refusal := errors.New("thirteen is not kept")
		r := transformed(t, js, told.configure(Config{Bucket: "b"}), func(obj any) (any, error) {
			if n := obj.(*thing).N; n >= 13 {
				return nil, refusal
			}
			return obj, nil
		}).synced(t)
		const why = "the transform that was set with SetTransform failed: thirteen is not kept"
		told.are(t, "invalid bad@1: "+why)
		if r.get("bad") != nil || !r.Exists("bad") || !r.has("k", 1) {
			t.Errorf("bad is %+v, exists %v, k is %+v", r.get("bad"), r.Exists("bad"), r.get("k"))
		}
		if err := r.Invalid()["bad"]; !errors.Is(err, refusal) {
			t.Errorf("bad is invalid because of %v", err)
		}
		must(t, r.WaitCursor(t.Context(), put(t, kv, "k", 14)))
		told.are(t, "invalid bad@1: "+why+"; invalid k@3: "+why)
		if !r.has("k", 1) || !r.IsInvalid("k") {
			t.Errorf("k is %+v, invalid %v", r.get("k"), r.IsInvalid("k"))
		}
		must(t, kv.Delete(t.Context(), "k"))
		within(t, prompt, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
		if e := r.seen.last("k"); e.n != 1 || e.deletion != (Deletion{true, DeleteMarker}) {
			t.Errorf("%+v", e)
		}
		put(t, kv, "bad", 2)
		within(t, prompt, "mended", func() bool { return r.has("bad", 2) && !r.IsInvalid("bad") })
	})
}

// TestATransformThatWouldRefuseTheDeletedOneLosesNoDelete: it does not see it.
func TestATransformThatWouldRefuseTheDeletedOneLosesNoDelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		r := transformed(t, js, Config{Bucket: "b"}, func(obj any) (any, error) {
			if o := obj.(*thing); o.Annotations != nil || o.N > 1 {
				return nil, errors.New("it was seen before, or has annotations")
			}
			obj.(*thing).N += 10
			return obj, nil
		}).synced(t)
		must(t, kv.Delete(t.Context(), "k"))
		within(t, prompt, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
		if e := r.seen.last("k"); e.n != 11 || e.deletion != (Deletion{true, DeleteMarker}) || r.get("k") != nil {
			t.Errorf("%+v, in the store %+v", e, r.get("k"))
		}
	})
}

// TestADeleteStaysEvidencedThoughATransformDropsMetadata: the informer adds what it needs after the transform.
func TestADeleteStaysEvidencedThoughATransformDropsMetadata(t *testing.T) {
	for what, transform := range map[string]cache.TransformFunc{
		"annotations": func(obj any) (any, error) { obj.(*thing).Annotations = nil; return obj, nil },
		"all":         func(obj any) (any, error) { return &thing{N: obj.(*thing).N}, nil },
	} {
		t.Run(what, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				js := connect(t, natstest.Start(t).URL())
				kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
				r := transformed(t, js, Config{Bucket: "b", Decode: func(e Entry) (kruntime.Object, error) {
					o, err := decodeThing(e)
					if err == nil {
						o.(*thing).Namespace = "ns"
					}
					return o, err
				}}, transform).synced(t)
				_, err := kv.Put(t.Context(), "k", []byte(`{"n":1,"metadata":{"annotations":{"a":"b"}}}`))
				must(t, err)
				within(t, prompt, "added", func() bool { return r.seen.last("k").kind == "add" })
				if o := r.get("ns/k"); o == nil || o.Annotations != nil || o.ResourceVersion != "1" {
					t.Fatalf("the store has %+v", o)
				}
				must(t, kv.Purge(t.Context(), "k"))
				within(t, prompt, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
				if e := r.seen.last("k"); e.n != 1 || e.revision != 2 || e.deletion != (Deletion{true, PurgeMarker}) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// noCopy is an object that does not copy itself.
type noCopy struct{ thing }

// bare is an object of another type than Decode's.
type bare struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (b *bare) DeepCopyObject() kruntime.Object {
	c := *b
	b.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// TestATransformMayReturnAnotherObject with metadata. Anything else makes the document invalid, and ends nobody.
func TestATransformMayReturnAnotherObject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		results := map[string]struct {
			transform func(*thing) (any, error)
			why       string // "" if it is fine
		}{
			"same":  {func(o *thing) (any, error) { return o, nil }, ""},
			"other": {func(*thing) (any, error) { return &bare{}, nil }, ""},
			"partial": {func(o *thing) (any, error) {
				return &metav1.PartialObjectMetadata{ObjectMeta: o.ObjectMeta}, nil
			}, ""},
			"version": {func(o *thing) (any, error) { o.ResourceVersion = "99"; return o, nil }, ""},
			"nil":     {func(*thing) (any, error) { return nil, nil }, "returned no object"},
			"pointer": {func(*thing) (any, error) { return (*thing)(nil), nil }, "returned no object"},
			"text":    {func(*thing) (any, error) { return "k", nil }, "returned a string"},
			"unknown": {func(o *thing) (any, error) {
				return cache.DeletedFinalStateUnknown{Key: o.Name, Obj: o}, nil
			}, "returned a cache.DeletedFinalStateUnknown"},
			"status":   {func(*thing) (any, error) { return &metav1.Status{}, nil }, "returned a *v1.Status"},
			"renamed":  {func(o *thing) (any, error) { o.Name = "x"; return o, nil }, `name "x"`},
			"moved":    {func(o *thing) (any, error) { o.Namespace = "x"; return o, nil }, `namespace "x"`},
			"uncopied": {func(o *thing) (any, error) { return &noCopy{*o}, nil }, "DeepCopyObject of *natsinformer.noCopy"},
			"panic":    {func(*thing) (any, error) { panic("boom") }, "panicked: boom"},
			"nilmap": {func(o *thing) (any, error) { o.Labels["a"] = "b"; return o, nil },
				"panicked: assignment to entry in nil map"},
		}
		for key := range results {
			put(t, kv, key, 1)
		}
		var deleted sync.Map
		r := startWith(t, js, Config{Bucket: "b"}, func(i Informer) {
			must(t, i.SetTransform(func(obj any) (any, error) {
				o := obj.(*thing)
				return results[o.Name].transform(o)
			}))
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				DeleteFunc: func(obj any) { deleted.Store(obj.(metav1.Object).GetName(), obj) },
			})
			must(t, err)
		}).synced(t)
		for key, want := range results {
			item, exists, _ := r.GetStore().GetByKey(key)
			reason := r.Invalid()[key]
			if want.why != "" {
				if exists || reason == nil || !strings.Contains(reason.Error(), want.why) ||
					!strings.Contains(reason.Error(), "SetTransform") {
					t.Errorf("%s: in the store %v, invalid: %v; want %q", key, exists, reason, want.why)
				}
				continue
			}
			if !exists || reason != nil {
				t.Errorf("%s: in the store %v, invalid: %v", key, exists, reason)
				continue
			}
			obj := item.(metav1.Object)
			if obj.GetName() != key || obj.GetResourceVersion() == "" || obj.GetResourceVersion() == "99" {
				t.Errorf("%s: the store has %+v", key, obj)
			}
			must(t, kv.Delete(t.Context(), key))
			within(t, prompt, key+" is deleted", func() bool { _, ok := deleted.Load(key); return ok })
			gone, _ := deleted.Load(key)
			if fmt.Sprintf("%T", gone) != fmt.Sprintf("%T", item) || DeleteOf(gone) != (Deletion{true, DeleteMarker}) {
				t.Errorf("the handler got a %T, %+v; want a %T", gone, DeleteOf(gone), item)
			}
		}
	})
}

// TestATransformIsSetBeforeTheStart, as in client-go; nil takes it off.
func TestATransformIsSetBeforeTheStart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "k", 1)
		add := func(n int) cache.TransformFunc {
			return func(obj any) (any, error) { obj.(*thing).N += n; return obj, nil }
		}
		first := startWith(t, js, Config{Bucket: "b"}, func(i Informer) {
			must(t, i.SetTransform(add(10)))
			must(t, i.SetTransform(add(100)))
		}).synced(t)
		none := startWith(t, js, Config{Bucket: "b"}, func(i Informer) {
			must(t, i.SetTransform(add(10)))
			must(t, i.SetTransform(nil))
		}).synced(t)
		if !first.has("k", 101) || !none.has("k", 1) {
			t.Errorf("the stores have %+v and %+v", first.get("k"), none.get("k"))
		}
		refused := func(state string) {
			t.Helper()
			if err := first.SetTransform(add(1000)); err == nil || !strings.Contains(err.Error(), "already started") ||
				!strings.Contains(err.Error(), `"b"`) {
				t.Errorf("%s: %v", state, err)
			}
		}
		refused("while it runs")
		put(t, kv, "k", 2)
		within(t, prompt, "the handler gets the next one, with what was set", func() bool {
			return first.seen.last("k").n == 102
		})
		first.stop()
		refused("after its end")
	})
}

// TestATransformIsCalledOnceAtATime, as by client-go, though documents are decoded side by side.
func TestATransformIsCalledOnceAtATime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		before := runtime.GOMAXPROCS(8)
		t.Cleanup(func() { runtime.GOMAXPROCS(before) })
		js := connect(t, natstest.Start(t).URL())
		bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		const keys = 3000
		for i := range keys {
			_, err := js.PublishAsync(fmt.Sprint("$KV.b.k", i), labelled(i))
			must(t, err)
		}
		<-js.PublishAsyncComplete()
		interned := map[string]int{} // as transforms keep strings; only they look
		r := transformed(t, js, Config{Bucket: "b"}, func(obj any) (any, error) {
			interned[obj.(*thing).Labels["a"]]++
			return obj, nil
		}).synced(t)
		r.stop()
		if interned["b"] != keys {
			t.Errorf("%d calls for %d documents", interned["b"], keys)
		}
	})
}

// TestNothingKeepsWhatATransformDropped: neither the list nor the watch.
func TestNothingKeepsWhatATransformDropped(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		var decoded, collected atomic.Int64
		cfg := Config{Bucket: "b", Decode: func(e Entry) (kruntime.Object, error) {
			o, err := decodeThing(e)
			if err == nil {
				decoded.Add(1)
				runtime.AddCleanup(o.(*thing), func(int) { collected.Add(1) }, 0)
			}
			return o, err
		}}
		for i := range 50 {
			put(t, kv, fmt.Sprint("listed", i), i)
		}
		r := transformed(t, js, cfg, func(obj any) (any, error) {
			o := obj.(*thing)
			return &thing{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, N: o.N}, nil
		}).synced(t)
		for i := range 50 {
			put(t, kv, fmt.Sprint("watched", i), i)
		}
		within(t, prompt, "the last one", func() bool { return r.has("watched49", 49) })
		within(t, prompt, "what was decoded is collected", func() bool {
			runtime.GC()
			return decoded.Load() == 100 && collected.Load() == 100
		})
		if n := len(r.GetStore().List()); n != 100 {
			t.Errorf("the store has %d objects", n)
		}
	})
}

// TestTheLastMessagesAreNotKept until the next ones come: they may be large, and the bucket quiet.
func TestTheLastMessagesAreNotKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		var read, collected atomic.Int64
		cfg := Config{Bucket: "b", Decode: func(e Entry) (kruntime.Object, error) {
			read.Add(1)
			runtime.AddCleanup(&e.Value[0], func(int) { collected.Add(1) }, 0)
			return decodeThing(e)
		}}
		large := append(doc(1), slices.Repeat([]byte(" "), 1<<10)...)
		for i := range 50 {
			_, err := kv.Put(t.Context(), fmt.Sprint("listed", i), large)
			must(t, err)
		}
		r := start(t, js, cfg).synced(t)
		_, err := kv.Put(t.Context(), "watched", large)
		must(t, err)
		within(t, prompt, "watched", func() bool { return r.has("watched", 1) })
		within(t, prompt, "all values are collected", func() bool {
			runtime.GC()
			return read.Load() == 51 && collected.Load() == 51
		})
	})
}

// TestWhatWasDeletedUnseenIsTransformed, and a copy of it, since it is not the informer's.
func TestWhatWasDeletedUnseenIsTransformed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		mine := &thing{ObjectMeta: metav1.ObjectMeta{Name: "k", ResourceVersion: "1", Labels: map[string]string{}}, N: 1}
		refused := &thing{ObjectMeta: metav1.ObjectMeta{Name: "refused", ResourceVersion: "2"}, N: 13}
		cfg := Config{Bucket: "b", Unseen: func(key string, _ uint64) kruntime.Object {
			return map[string]kruntime.Object{"k": mine, "refused": refused}[key]
		}}
		r := transformed(t, js, cfg, func(obj any) (any, error) {
			o := obj.(*thing)
			if o.N == 13 {
				return nil, errors.New("thirteen is not kept")
			}
			o.N += 10
			o.Labels["seen"] = "yes"
			return o, nil
		}).synced(t)
		for _, key := range []string{"refused", "k"} {
			must(t, kv.Delete(t.Context(), key))
		}
		within(t, prompt, "deleted", func() bool { return r.seen.last("k").kind == "delete" })
		var got []string
		for _, e := range r.seen.all() {
			got = append(got, fmt.Sprint(e.kind, " ", e.key, " ", e.n, " ", e.deletion.Evidenced))
		}
		if want := []string{"add k 11 false", "delete k 11 true"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if mine.N != 1 || len(mine.Labels) != 0 {
			t.Errorf("the object of somebody else was changed: %+v", mine)
		}
	})
}
