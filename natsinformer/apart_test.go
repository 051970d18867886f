package natsinformer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// elsewhere is an entry of a part that a test does not want.
type elsewhere struct{ part string }

func (elsewhere) IsApart()                         {}
func (e elsewhere) DeepCopyObject() runtime.Object { return e }
func (elsewhere) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// divided keeps the entries of some parts in the store. The part of an entry is the text that it has, or else the first
// letter of its key.
type divided struct {
	mu     sync.Mutex
	wanted map[string]bool
	told   []string // what ApartChanged and ApartGone were told
}

func divide(parts ...string) *divided {
	d := &divided{wanted: map[string]bool{}}
	d.want(true, parts...)
	return d
}

func (d *divided) want(wanted bool, parts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, part := range parts {
		d.wanted[part] = wanted
	}
}

func (d *divided) wants(part string) bool { d.mu.Lock(); defer d.mu.Unlock(); return d.wanted[part] }

func (d *divided) tell(text string) { d.mu.Lock(); defer d.mu.Unlock(); d.told = append(d.told, text) }
func (d *divided) all() []string    { d.mu.Lock(); defer d.mu.Unlock(); return slices.Clone(d.told) }

func partOf(o *thing) string {
	if o.Pad != "" {
		return o.Pad
	}
	return o.Name[:1]
}

func (d *divided) config() Config {
	return Config{
		Bucket: "b",
		Decode: func(e Entry) (runtime.Object, error) {
			object, err := decodeThing(e)
			if err != nil {
				return nil, err
			}
			if part := partOf(object.(*thing)); !d.wants(part) {
				return elsewhere{part}, nil
			}
			return object, nil
		},
		ApartChanged: func(key string, before runtime.Object, _ Apart) {
			text := "changed " + key
			if before, held := before.(*thing); held {
				text += fmt.Sprint(" from ", before.N)
			}
			d.tell(text)
		},
		ApartGone: func(key string, was Apart, how Deletion) {
			d.tell(fmt.Sprint("gone ", key, " of ", was.(elsewhere).part, " ", how.Reason, " ", how.Evidenced))
		},
	}
}

// fetch has the entries of some parts brought into the store.
func (d *divided) fetch(ctx context.Context, r *running, parts ...string) error {
	d.want(true, parts...)
	return r.Fetch(ctx, func(_ string, apart Apart) bool { return d.wants(apart.(elsewhere).part) })
}

// drop has the entries of some parts taken out of it.
func (d *divided) drop(ctx context.Context, r *running, parts ...string) error {
	d.want(false, parts...)
	return r.PutApart(ctx, func(_ string, object runtime.Object) Apart {
		if part := partOf(object.(*thing)); !d.wants(part) {
			return elsewhere{part}
		}
		return nil
	})
}

func (r *running) apartKeys() (keys []string) {
	for key, object := range r.AllKnown() {
		if isApart(object) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (r *running) storeKeys() []string {
	keys := r.GetStore().ListKeys()
	slices.Sort(keys)
	return keys
}

func wantKeys(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestWhatIsApartIsKnownAndNotInTheStore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		put(t, kv, "a1", 1)
		put(t, kv, "x1", 1)
		r := start(t, js, d.config()).synced(t)
		put(t, kv, "x2", 1)
		r.reaches(t, put(t, kv, "x3", 1), prompt)
		at := put(t, kv, "x3", 2)
		put(t, kv, "a2", 1)
		must(t, kv.Delete(t.Context(), "x1"))
		must(t, kv.Purge(t.Context(), "x2"))
		last := put(t, kv, "a3", 1)
		r.reaches(t, last, prompt)

		wantKeys(t, "in the store", r.storeKeys(), "a1", "a2", "a3")
		wantKeys(t, "apart", r.apartKeys(), "x3")
		wantKeys(t, "told", d.all(), "changed x2", "changed x3", "changed x3",
			"gone x1 of x Delete true", "gone x2 of x Purge true")
		if known, revision := r.Known("x3"); known != (elsewhere{"x"}) || revision != at {
			t.Errorf("x3 is known as %v at %d, want at %d", known, revision, at)
		}
		if known, _ := r.Known("a1"); known != runtime.Object(r.get("a1")) {
			t.Errorf("a1 is known as %v", known)
		}
		if !r.Exists("x3") || r.Exists("x1") || r.Deleted("x1") == 0 {
			t.Errorf("x3 exists: %v, x1: %v", r.Exists("x3"), r.Exists("x1"))
		}
		for _, e := range r.seen.all() {
			if e.key[0] != 'a' || e.kind != "add" {
				t.Errorf("a handler was told: %s %s", e.kind, e.key)
			}
		}
	})
}

func TestPartsComeAndGoWithoutADelete(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		const each = 3*putApartAtOnce/2 + 7 // more than one window, and more than leave at once
		for i := range each {
			put(t, kv, fmt.Sprint("a", i), 1)
			put(t, kv, fmt.Sprint("x", i), 1)
		}
		r := start(t, js, d.config()).synced(t)
		must(t, d.drop(t.Context(), r, "a"))
		wantKeys(t, "in the store", r.storeKeys())
		before := len(r.seen.all())
		must(t, d.fetch(t.Context(), r, "x"))
		if n := len(r.storeKeys()); n != each || len(r.apartKeys()) != each {
			t.Fatalf("%d are in the store and %d apart, want %d each", n, len(r.apartKeys()), each)
		}
		within(t, prompt, "the handler was told", func() bool { return len(r.seen.all()) == before+each })
		must(t, d.fetch(t.Context(), r, "a", "x"))
		r.converges(t, kv, prompt)
		r.versioned(t)
		for _, e := range r.seen.all() {
			if e.kind != "add" {
				t.Fatalf("a handler was told: %s %s", e.kind, e.key)
			}
		}
		r.follows(t, kv, "x0", 2, atOnce)
		leaveNothing(t, js, "b", r)
	})
}

// TestAFetchWhileKeysAreWrittenShowsTheLatest of each, and no handler sees a key go back.
func TestAFetchWhileKeysAreWrittenShowsTheLatest(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		const keys = 600
		for i := range keys {
			put(t, kv, fmt.Sprint("x", i), 1)
		}
		r := start(t, js, d.config()).synced(t)
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() {
				for i := range keys {
					key := fmt.Sprint("x", (i*7+w*201)%keys)
					switch {
					case i%17 == 0:
						_ = kv.Delete(context.Background(), key)
					default:
						_, _ = kv.Put(context.Background(), key, doc(i+2))
					}
				}
			})
		}
		for range 4 {
			must(t, d.fetch(t.Context(), r, "x"))
			wantKeys(t, "apart still", r.apartKeys())
			must(t, d.drop(t.Context(), r, "x"))
			wantKeys(t, "in the store", r.storeKeys())
		}
		must(t, d.fetch(t.Context(), r, "x"))
		writers.Wait()
		r.converges(t, kv, prompt)
		r.seen.inOrder(t)
	})
}

func TestAnEntryThatMovesToAnotherPartLeavesTheStore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		r := start(t, js, d.config()).synced(t)
		r.reaches(t, put(t, kv, "a1", 7), prompt)
		_, err := kv.Put(t.Context(), "a1", []byte(`{"n":8,"pad":"x"}`))
		must(t, err)
		r.reaches(t, put(t, kv, "a2", 1), prompt)
		wantKeys(t, "in the store", r.storeKeys(), "a2")
		wantKeys(t, "told", d.all(), "changed a1 from 7")
		r.follows(t, kv, "a1", 9, atOnce)
		if last := r.seen.last("a1"); last.kind != "add" || len(r.seen.of("a1")) != 2 {
			t.Fatalf("a handler was told of a1: %v", r.seen.of("a1"))
		}
	})
}

// TestAFetchGoesOnAfterTheServerWasAway and finds keys that went without a message, and those that do not decode.
func TestAFetchGoesOnAfterTheServerWasAway(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t)
		js := connect(t, server.URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		for i := range 500 {
			put(t, kv, fmt.Sprint("x", i), 1)
		}
		r := start(t, js, d.config()).synced(t)
		r.reaches(t, put(t, kv, "y1", -1), prompt) // it is invalid, whatever its part
		server.Stop()
		fetched := make(chan error, 1)
		go func() { fetched <- d.fetch(context.Background(), r, "x") }()
		time.Sleep(3 * time.Second)
		select {
		case err := <-fetched:
			t.Fatalf("fetched without a server: %v", err)
		default:
		}
		must(t, server.Restart())
		direct := connect(t, server.URL())
		stream, err := direct.Stream(t.Context(), "KV_b")
		must(t, err)
		must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.x7")))
		must(t, <-fetched)
		if !r.Exists("x7") || len(r.apartKeys()) != 1 {
			t.Errorf("it waited until x7 was missed, apart is %v", r.apartKeys())
		}
		kv, err = direct.KeyValue(t.Context(), "b")
		must(t, err)
		within(t, 5*time.Second, "x7 is gone", func() bool { return !r.Exists("x7") })
		if n := len(r.storeKeys()); n != 499 || !r.IsInvalid("y1") {
			t.Fatalf("%d are in the store, want 499", n)
		}
		r.follows(t, kv, "x1", 2, prompt)
	})
}

func TestAStreamThatIsMadeAnewTellsOfWhatWasApart(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		put(t, kv, "x1", 1)
		put(t, kv, "x2", 1)
		r := start(t, js, d.config()).synced(t)
		must(t, js.DeleteKeyValue(t.Context(), "b"))
		kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		put(t, kv, "x2", 3)
		within(t, prompt, "the new stream is shown", func() bool {
			return slices.Equal(r.apartKeys(), []string{"x2"}) && r.Status().StreamChanges == 1
		})
		told := d.all()
		slices.Sort(told)
		wantKeys(t, "told", told, "changed x2", "gone x1 of x Vanished false", "gone x2 of x Vanished false")
		must(t, d.fetch(t.Context(), r, "x"))
		r.converges(t, kv, atOnce)
		if !r.has("x2", 3) {
			t.Fatal("x2 was not fetched")
		}
	})
}

func TestAFetchEndsWithItsContextAndOthersGoOn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL(), nats.MaxReconnects(-1))
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
		d := divide("a")
		put(t, kv, "x1", 1)
		r := start(t, js, d.config()).synced(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// What Decode would set apart again is asked for as long as it is wanted.
		if err := r.Fetch(ctx, func(string, Apart) bool { return true }); err != context.DeadlineExceeded {
			t.Fatalf("a fetch of what stays apart: %v", err)
		}
		must(t, d.fetch(t.Context(), r, "x"))
		r.converges(t, kv, atOnce)
	})
}

// TestAKeyThatExistsIsAlwaysKnown while it comes into the store, and while it leaves it. It looks as often as it can, so
// it runs in real time.
func TestAKeyThatExistsIsAlwaysKnown(t *testing.T) {
	js := connect(t, natstest.Start(t).URL())
	kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
	d := divide("a")
	const each = 600
	for i := range each {
		put(t, kv, fmt.Sprint("x", i), 1)
	}
	r := start(t, js, d.config()).synced(t)
	stop := make(chan struct{})
	var looks sync.WaitGroup
	look := func(once func(i int)) {
		looks.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					once(i)
				}
			}
		})
	}
	var missed, short int
	look(func(i int) {
		key := fmt.Sprint("x", i%each)
		if _, found, _ := r.GetStore().GetByKey(key); !found {
			if known, _ := r.Known(key); known == nil {
				missed++
			}
		}
	})
	look(func(int) {
		n := 0
		for range r.AllKnown() {
			n++
		}
		if n != each {
			short++
		}
	})
	for range 5 {
		must(t, d.fetch(t.Context(), r, "x"))
		must(t, d.drop(t.Context(), r, "x"))
	}
	close(stop)
	looks.Wait()
	if missed > 0 || short > 0 {
		t.Errorf("%d looks found nothing, and %d lists lacked keys", missed, short)
	}
}

// TestADocumentThatIsApartExpires as any other: who hears of those that are apart is told, and that it is meant.
func TestADocumentThatIsApartExpires(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := connect(t, natstest.Start(t).URL())
		kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
		d := divide("a")
		r := start(t, js, d.config()).synced(t)
		for _, key := range []string{"x1", "y1"} {
			revision, err := kv.Create(t.Context(), key, doc(1), jetstream.KeyTTL(5*time.Second))
			must(t, err)
			r.reaches(t, revision, prompt)
		}
		must(t, d.fetch(t.Context(), r, "y"))
		time.Sleep(7 * time.Second)
		wantKeys(t, "told", d.all(), "changed x1", "changed y1", "gone x1 of x Expired true")
		if gone := r.seen.last("y1"); gone.kind != "delete" || gone.deletion != (Deletion{true, ExpiryMarker}) {
			t.Errorf("of y1, which was fetched, a handler was told %+v", gone)
		}
		if r.Exists("x1") || r.Exists("y1") {
			t.Error("they are there still")
		}
	})
}
