package entity_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// unseen swallows what a consumer delivers for a key, while it is told to. The stream keeps only the last message of a
// key, so what follows replaces it for good.
type unseen struct{ subject atomic.Pointer[string] }

func (u *unseen) of(subject string) { u.subject.Store(&subject) }

func (u *unseen) deliver(m *nats.Msg) bool {
	subject := u.subject.Load()
	return subject == nil || m.Subject != *subject || !strings.HasPrefix(m.Reply, "$JS.ACK.")
}

// TestWhatIsDeletedBeforeTheCacheHasItIsTold is for a document and a record that this process writes, and somebody
// deletes before the informer could read them: all that it will ever see is the marker.
func TestWhatIsDeletedBeforeTheCacheHasItIsTold(t *testing.T) {
	for name, before := range map[string]bool{"its first revision": false, "a later one": true} {
		t.Run("document, "+name, virtually(func(t *testing.T) {
			w := newUnseenWorld(t, "websites")
			if before {
				must(t, w.client.Create(t.Context(), website("home")))
				w.await(t, "home is there", "added home")
				w.hide("websites")
				must(t, w.client.Patch(t.Context(), "home", []byte(`{"spec":{"host":"later"}}`)))
			} else {
				w.hide("websites")
				must(t, w.client.Create(t.Context(), website("home")))
			}
			w.deleteBehind(t, "websites")
			if !before {
				w.await(t, "it came", "added home")
			}
			w.await(t, "it went, and cannot be read any more", "deleted home, NotFound")
		}))
		t.Run("record, "+name, virtually(func(t *testing.T) {
			w := newUnseenWorld(t, "websites-status")
			rec := &entity.Record{Controller: "sites"}
			if before {
				must(t, w.client.Records().Put(t.Context(), "home", rec))
				w.await(t, "home is there", "added home")
			}
			w.hide("websites-status")
			rec.Controller = "later"
			must(t, w.client.Records().Put(t.Context(), "home", rec))
			w.deleteBehind(t, "websites-status")
			if !before {
				w.await(t, "it came", "added home")
			}
			w.await(t, "it went, and is not cached any more", "deleted home, NotFound")
		}))
	}
}

type unseenWorld struct {
	unseen unseen
	admin  func(bucket string)
	client *entity.Client[*Website]
	told   chan string
}

// newUnseenWorld tells of what happens to a bucket.
func newUnseenWorld(t *testing.T, bucket string) *unseenWorld {
	w := &unseenWorld{told: make(chan string, 100)}
	srv := natstest.Start(t)
	_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(w.unseen.deliver))
	_, admin := natstest.Connect(t, srv.URL())
	cfg := websites
	cfg.StatusBucket = "websites-status"
	w.client = newClient[*Website](t, js, cfg)
	w.admin = func(bucket string) { must(t, keyValue(t, admin, bucket).Delete(t.Context(), "home")) }
	informer, read := w.client.Informer(), w.readDocument
	if bucket != cfg.Bucket {
		informer, read = w.client.Records().Informer(), w.readRecord
	}
	tell := func(what string, obj any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		must(t, err)
		w.told <- what + " " + key
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell("added", obj) },
		DeleteFunc: func(obj any) {
			if reason := natsinformer.DeleteOf(obj).Reason; reason != natsinformer.DeleteMarker {
				t.Errorf("deleted by a %q", reason)
			}
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			must(t, err)
			w.told <- "deleted " + key + ", " + string(apierrors.ReasonForError(read(key)))
		},
	})
	must(t, err)
	start(t, w.client)
	return w
}

func (w *unseenWorld) readDocument(key string) error {
	_, err := w.client.Lister().Get(key)
	return err
}

func (w *unseenWorld) readRecord(key string) error {
	if _, ok := w.client.Records().Cached(key); ok {
		return errors.New("cached")
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "records"}, key)
}

func (w *unseenWorld) hide(bucket string) { w.unseen.of("$KV." + bucket + ".home") }

// deleteBehind deletes home, of which the cache has not seen the last revision, and lets the cache read again.
func (w *unseenWorld) deleteBehind(t *testing.T, bucket string) {
	t.Helper()
	w.admin(bucket)
	w.unseen.of("")
	// What comes next shows that something is missing.
	must(t, w.client.Create(t.Context(), website("other")))
	must(t, w.client.Records().Put(t.Context(), "other", &entity.Record{Controller: "sites"}))
}

func (w *unseenWorld) await(t *testing.T, what, want string) {
	t.Helper()
	for {
		select {
		case got := <-w.told:
			if got == "added other" && want != got {
				continue
			}
			if got != want {
				t.Fatalf("%s: %q, want %q", what, got, want)
			}
			return
		case <-testContext(t).Done():
			t.Fatalf("%s: %q was not told", what, want)
		}
	}
}
