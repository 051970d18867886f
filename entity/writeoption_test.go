package entity_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var yes, no = entity.WithTTL, entity.WithoutTTL

// TestATypedWriteSetsExtendsShortensAndRemovesATTL, of a document that had one or none.
func TestATypedWriteSetsExtendsShortensAndRemovesATTL(t *testing.T) {
	type client = *entity.Client[*Website]
	create := func(t *testing.T, c client, opts ...entity.WriteOption) error {
		return c.CreateWith(t.Context(), website("a"), opts...)
	}
	document := func(t *testing.T, c client, opts ...entity.WriteOption) error {
		_, err := c.CreateDocumentWith(t.Context(), "a", []byte(`{"spec":{"replicas":3}}`), opts...)
		return err
	}
	update := func(t *testing.T, c client, opts ...entity.WriteOption) error {
		site, err := c.Get(t.Context(), "a")
		must(t, err)
		return c.UpdateWith(t.Context(), site, opts...)
	}
	patch := func(text string) func(*testing.T, client, ...entity.WriteOption) error {
		return func(t *testing.T, c client, opts ...entity.WriteOption) error {
			return c.PatchWith(t.Context(), "a", []byte(text), opts...)
		}
	}
	const ever = 0
	for name, test := range map[string]struct {
		first time.Duration // the TTL that the document has, two seconds before the write; 0: none
		write func(*testing.T, client, ...entity.WriteOption) error
		opts  []entity.WriteOption
		lasts time.Duration // from the write on
	}{
		"create":                     {-1, create, []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"create with none":           {-1, create, []entity.WriteOption{no()}, ever},
		"create, the last counts":    {-1, create, []entity.WriteOption{no(), yes(9 * time.Second)}, 9 * time.Second},
		"create for parts of it":     {-1, create, []entity.WriteOption{yes(2500 * time.Millisecond)}, 2500 * time.Millisecond},
		"create for less than one":   {-1, create, []entity.WriteOption{yes(300 * time.Millisecond)}, 300 * time.Millisecond},
		"create of a document":       {-1, document, []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"create of it with none":     {-1, document, []entity.WriteOption{no()}, ever},
		"update sets":                {0, update, []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"update extends":             {5 * time.Second, update, []entity.WriteOption{yes(20 * time.Second)}, 20 * time.Second},
		"update shortens":            {time.Hour, update, []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"update removes":             {5 * time.Second, update, []entity.WriteOption{no()}, ever},
		"update keeps":               {5 * time.Second, update, nil, 3 * time.Second},
		"patch sets":                 {0, patch(`{"spec":{"replicas":7}}`), []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"patch of nothing sets":      {0, patch(`{}`), []entity.WriteOption{yes(5 * time.Second)}, 5 * time.Second},
		"patch of nothing extends":   {5 * time.Second, patch(`{}`), []entity.WriteOption{yes(time.Minute)}, time.Minute},
		"patch of nothing removes":   {5 * time.Second, patch(`{}`), []entity.WriteOption{no()}, ever},
		"patch of nothing, for none": {0, patch(`{}`), []entity.WriteOption{no()}, ever},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCaches(t, func(t *testing.T, prepare func(client)) {
				js := newServer(t)
				c := newClient[*Website](t, js, websites)
				prepare(c)
				stored := `{ "spec": {"replicas": 3, "unknown": 1.50}}`
				var opts []jetstream.KVCreateOpt
				if test.first > 0 {
					opts = append(opts, jetstream.KeyTTL(test.first))
				}
				if test.first >= 0 {
					_, err := keyValue(t, js, "websites").Create(t.Context(), "a", []byte(stored), opts...)
					must(t, err)
					time.Sleep(2 * time.Second)
				}
				written := time.Now()
				must(t, test.write(t, c, test.opts...))
				entry, err := keyValue(t, js, "websites").Get(t.Context(), "a")
				must(t, err)
				text := string(entry.Value())
				if strings.Contains(name, "patch of nothing") && text != stored || strings.Contains(text, "expires") {
					t.Errorf("the document is %s", text)
				}
				if strings.Contains(name, "for none") && entry.Revision() != 1 {
					t.Errorf("what has no TTL was written again to remove it")
				}
				site, err := c.Lister().Get("a")
				must(t, err)
				at, ok := entity.ExpiresAt(site)
				if test.lasts == ever {
					if ok || site.Annotations != nil {
						t.Errorf("it shows %v", site.Annotations)
					}
					time.Sleep(30 * time.Second)
					_, err := c.Get(t.Context(), "a")
					must(t, err)
					return
				}
				if late := at.Sub(written.Add(test.lasts)); !ok || late < 0 || late > 100*time.Millisecond {
					t.Errorf("it shows %v, which is late by %v", site.Annotations, late)
				}
				time.Sleep(time.Until(written.Add(test.lasts - 50*time.Millisecond)))
				if _, err = c.Get(t.Context(), "a"); err != nil {
					t.Errorf("it went early: %v", err)
				}
				time.Sleep(1500 * time.Millisecond)
				wantError(t, "after its time", apierrors.IsNotFound, func() error { _, err := c.Get(t.Context(), "a"); return err }())
			})
		})
	}
}

// TestATTLThatCannotBeIsRefused, with what to do, and nothing is written.
func TestATTLThatCannotBeIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "plain"})
		must(t, err)
		plain := newClient[*Website](t, js, entity.Config{Kind: "Website", Bucket: "plain"})
		for name, test := range map[string]struct {
			client *entity.Client[*Website]
			opt    entity.WriteOption
			says   string
		}{
			"over":                  {client, yes(-time.Second), "is over already"},
			"zero":                  {client, yes(0), "WithoutTTL"},
			"endless":               {client, yes(1<<63 - 1), "90 years"},
			"nil":                   {client, nil, "option 1 is nil"},
			"a bucket without TTLs": {plain, yes(time.Minute), "nats stream edit KV_plain --allow-msg-ttl"},
		} {
			key := strings.ReplaceAll(name, " ", "-")
			there := website(key)
			must(t, test.client.Create(t.Context(), there))
			revision := there.Generation
			for of, err := range map[string]error{
				"create": test.client.CreateWith(t.Context(), website(key+"-new"), test.opt),
				"document": func() error {
					_, err := test.client.CreateDocumentWith(t.Context(), key+"-new", []byte(`{}`), test.opt)
					return err
				}(),
				"update": test.client.UpdateWith(t.Context(), there, test.opt),
				"patch":  test.client.PatchWith(t.Context(), key, []byte(`{"spec":{"replicas":9}}`), test.opt),
			} {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s of a TTL that is %s: %v", of, name, err)
				}
			}
			site, err := test.client.Get(t.Context(), key)
			must(t, err)
			_, err = test.client.Get(t.Context(), key+"-new")
			if site.Generation != revision || !apierrors.IsNotFound(err) {
				t.Errorf("%s: it was written", name)
			}
			must(t, test.client.UpdateWith(t.Context(), site, no())) // needs nothing of the bucket
		}
	})
}

// TestATTLAboveTheAgeLimitIsRefused: the server removes the document at the limit, whatever TTL it has. The limit is
// that of the moment, also of a client that was made under another one.
func TestATTLAboveTheAgeLimitIsRefused(t *testing.T) {
	for _, storage := range []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage} {
		natstest.Test(t, func(t *testing.T) {
			js := newServer(t)
			bucket := jetstream.KeyValueConfig{
				Bucket: "aging", TTL: 20 * time.Second, LimitMarkerTTL: time.Minute, Storage: storage,
			}
			kv, err := js.CreateKeyValue(t.Context(), bucket)
			must(t, err)
			client := newClient[*Website](t, js, entity.Config{
				Kind: "Website", Bucket: "aging", DocumentsExpire: true, StatusBucket: entity.NoStatusBucket,
			})
			for key, ttl := range map[string]string{"raw": "40s", "never": "never"} {
				msg := nats.NewMsg("$KV.aging." + key)
				msg.Header.Set(jetstream.MsgTTLHeader, ttl)
				_, err := js.PublishMsg(t.Context(), msg)
				must(t, err)
			}
			there := website("a")
			must(t, client.CreateWith(t.Context(), there, yes(20*time.Second)))
			refused := func(says ...string) {
				t.Helper()
				for of, err := range map[string]error{
					"create": client.CreateWith(t.Context(), website("b"), yes(40*time.Second)),
					"update": client.UpdateWith(t.Context(), there, yes(40*time.Second)),
					"patch":  client.PatchWith(t.Context(), "a", []byte(`{"spec":{"replicas":9}}`), yes(40*time.Second)),
				} {
					wantError(t, of, apierrors.IsInvalid, err)
					for _, part := range says {
						if err != nil && !strings.Contains(err.Error(), part) {
							t.Errorf("%s: %v", of, err)
						}
					}
				}
				site, err := client.Get(t.Context(), "a")
				must(t, err)
				_, err = client.Get(t.Context(), "b")
				if site.ResourceVersion != there.ResourceVersion || !apierrors.IsNotFound(err) {
					t.Error("it was written")
				}
			}
			refused("a TTL of 40s", "after 20s", "nats stream edit KV_aging --max-age=40s")
			bucket.TTL = time.Minute
			_, err = js.UpdateKeyValue(t.Context(), bucket)
			must(t, err)
			must(t, client.UpdateWith(t.Context(), there, yes(40*time.Second)))
			bucket.TTL = 30 * time.Second
			_, err = js.UpdateKeyValue(t.Context(), bucket)
			must(t, err)
			refused("after 30s", "--max-age=40s")
			must(t, client.UpdateWith(t.Context(), there, no()))
			time.Sleep(32 * time.Second)
			for key, lasts := range map[string]bool{"a": false, "raw": false, "never": true} {
				if _, err := kv.Get(t.Context(), key); (err == nil) != lasts {
					t.Errorf("%s: past the age limit, in a bucket of type %v: %v", key, storage, err)
				}
			}
		})
	}
}

// TestEveryObjectShowsWhenItEnds, in whatever way it was read, and no document does.
func TestEveryObjectShowsWhenItEnds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		must(t, client.Informer().SetTransform(func(obj any) (any, error) {
			site := obj.(*Website)
			site.Annotations, site.Spec.Paths = nil, nil
			return site, nil
		}))
		var handled atomic.Pointer[Website]
		_, err := client.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { handled.Store(obj.(*Website)) },
			UpdateFunc: func(_, obj any) { handled.Store(obj.(*Website)) },
		})
		must(t, err)
		start(t, client)
		kv := keyValue(t, js, "websites")
		_, err = kv.Create(t.Context(), "a", []byte(`{"metadata":{"annotations":{"nagi/expires-at":"2001-01-01T00:00:00Z"}}}`),
			jetstream.KeyTTL(time.Minute))
		must(t, err)
		ends := time.Now().Add(time.Minute)
		natstest.Eventually(t, "it is handled", func() bool { return handled.Load() != nil })
		shown := func(what string, obj entity.IEntity, err error) {
			t.Helper()
			must(t, err)
			at, ok := entity.ExpiresAt(obj)
			if off := at.Sub(ends); !ok || off < -time.Second || off > time.Second {
				t.Errorf("%s shows %q, want about %v", what, obj.GetAnnotations()[entity.ExpiresAnnotation], ends)
			}
		}
		all := func() {
			t.Helper()
			live, err := client.Get(t.Context(), "a")
			shown("Get", live, err)
			shown("a copy", live.DeepCopy(), nil)
			list, err := client.List(t.Context())
			must(t, err)
			shown("List", list[0], nil)
			cached, err := client.Lister().Get("a")
			shown("the lister", cached, err)
			cachedList, err := client.Lister().List(nil)
			must(t, err)
			shown("the lister's list", cachedList[0], nil)
			shown("a handler", handled.Load(), nil)
		}
		all()
		site, err := client.Get(t.Context(), "a")
		must(t, err)
		shares := site.Annotations
		site.Annotations["mine"] = "m"
		ends = time.Now().Add(10 * time.Minute)
		must(t, client.UpdateWith(t.Context(), site, yes(10*time.Minute)))
		shown("what was written", site, nil)
		if shares[entity.ExpiresAnnotation] == site.Annotations[entity.ExpiresAnnotation] {
			t.Error("the annotations were changed, which may be shared")
		}
		natstest.Eventually(t, "it is handled", func() bool { return handled.Load().Generation == site.Generation })
		all()
		must(t, client.Patch(t.Context(), "a", []byte(`{"spec":{"replicas":8}}`)))
		own, err := client.Lister().Get("a")
		shown("an own patch", own, err)
		entry, err := kv.Get(t.Context(), "a")
		must(t, err)
		if text := string(entry.Value()); strings.Contains(text, "expires") || !strings.Contains(text, `"mine":"m"`) {
			t.Errorf("the document is %s", text)
		}
		loose := newClient[*unstructured.Unstructured](t, js, websites)
		object, err := loose.Get(t.Context(), "a")
		shown("an unstructured object", object, err)
		must(t, loose.Update(t.Context(), object))
		must(t, loose.UpdateWith(t.Context(), object, no()))
		if _, ok := entity.ExpiresAt(object); ok {
			t.Error("it shows a TTL that it does not have any more")
		}
		if document, err := client.DocumentOf(site); err != nil || strings.Contains(string(document), "expires") {
			t.Errorf("DocumentOf: %s, %v", document, err)
		}
		if _, ok := entity.ExpiresAt(&metav1.ObjectMeta{}); ok {
			t.Error("what was not read shows a TTL")
		}
	})
}

// TestAnObjectThatShowsItsEndIsUnchanged to CreateOrUpdate, and keeps its TTL.
func TestAnObjectThatShowsItsEndIsUnchanged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		site := website("a")
		must(t, client.CreateWith(t.Context(), site, yes(time.Minute)))
		ends, ok := entity.ExpiresAt(site)
		for range 3 {
			result, err := controller.CreateOrUpdate(t.Context(), client, website("a"), func(s *Website) error {
				s.Annotations = nil
				return nil
			})
			if err != nil || result != controller.OperationResultNone {
				t.Errorf("it is %v, %v", result, err)
			}
		}
		must(t, client.Update(t.Context(), site))
		if again, is := entity.ExpiresAt(site); !ok || !is || !again.Equal(ends) {
			t.Errorf("it ends at %v, and was to at %v", again, ends)
		}
	})
}

// TestACreateWithATTLConflictsAsAnother, until the document has gone.
func TestACreateWithATTLConflictsAsAnother(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.CreateWith(t.Context(), website("a"), yes(2*time.Second)))
		wantError(t, "create", apierrors.IsAlreadyExists, client.CreateWith(t.Context(), website("a"), yes(time.Second)))
		time.Sleep(4 * time.Second)
		must(t, client.CreateWith(t.Context(), website("a"), yes(2*time.Second)))
	})
}
