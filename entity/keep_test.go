package entity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Shop is of yesterday: documents of tomorrow have members that it does not know.
type ShopSpec struct {
	Title   string            `json:"title,omitempty"`
	Owner   *Person           `json:"owner,omitempty"`
	Address Person            `json:"address,omitzero"`
	Staff   map[string]Person `json:"staff,omitempty"`
	Guests  []Person          `json:"guests,omitempty"`
	Extra   any               `json:"extra,omitempty"`
}

type Person struct {
	Name string `json:"name,omitempty"`
}

type Shop = entity.Object[ShopSpec, WebsiteStatus]

var shops = entity.Config{Kind: "Shop", Bucket: "shops"}

const shopOfTomorrow = `{"future":{"a":1.50},"kind":"Shop","metadata":{"labels":{"l":"v"},"zone":"eu"},` +
	`"spec":{"title":"old","new":[1, 2],"owner":{"name":"o","age":7},"address":{"street":"s"},` +
	`"staff":{"x":{"name":"x","shift":1},"y":{"shift":2}},"guests":[{"name":"g","seat":1}],"extra":{"deep":true}}}`

func put(t *testing.T, js jetstream.JetStream, key, document string) uint64 {
	t.Helper()
	revision, err := keyValue(t, js, "shops").PutString(t.Context(), key, document)
	must(t, err)
	return revision
}

// wantShop compares the document in the bucket with one.
func wantShop(t *testing.T, js jetstream.JetStream, key, want string) {
	t.Helper()
	entry, err := keyValue(t, js, "shops").Get(t.Context(), key)
	must(t, err)
	var got, wanted map[string]any
	must(t, json.Unmarshal(entry.Value(), &got))
	must(t, json.Unmarshal([]byte(want), &wanted))
	meta := got["metadata"].(map[string]any)
	delete(meta, "creationTimestamp")
	delete(meta, "name")
	if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) == 0 {
		delete(meta, "annotations")
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("the document is\n%s, want\n%s", entry.Value(), want)
	}
}

func TestAnUpdateKeepsWhatItsTypeDoesNotKnow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		want := strings.NewReplacer(`"old"`, `"new"`, `{"name":"g","seat":1}`, `{"name":"g"}`).Replace(shopOfTomorrow)
		js := newServer(t)
		cached := newClient[*Shop](t, js, shops)
		start(t, cached)
		for name, read := range map[string]func(key string) (*Shop, error){
			"read live": func(key string) (*Shop, error) { return newClient[*Shop](t, js, shops).Get(t.Context(), key) },
			"listed": func(key string) (*Shop, error) {
				all, err := newClient[*Shop](t, js, shops).List(t.Context())
				return all[0], err
			},
			"read from the cache": cached.Lister().Get,
			"copied":              func(key string) (*Shop, error) { s, err := cached.Lister().Get(key); return s.DeepCopy(), err },
			"through JSON": func(key string) (s *Shop, err error) {
				read, err := cached.Lister().Get(key)
				must(t, err)
				data, err := json.Marshal(read)
				must(t, err)
				return s, json.Unmarshal(data, &s)
			},
		} {
			writers := map[string]*entity.Client[*Shop]{
				"client that caches":        cached,
				"client that knows nothing": newClient[*Shop](t, js, shops),
			}
			for of, writer := range writers {
				revision := put(t, js, "s", shopOfTomorrow)
				must(t, cached.Informer().WaitKey(t.Context(), "s", revision))
				shop, err := read("s")
				must(t, err)
				shop.Spec.Title = "first"
				must(t, writer.Update(t.Context(), shop))
				shop.Spec.Title = "new" // what was written is known, too
				must(t, writer.Update(t.Context(), shop))
				wantShop(t, js, "s", want)
				if t.Failed() {
					t.Fatalf("%s, written by a %s", name, of)
				}
			}
		}
	})
}

func TestAnUpdateRemovesWhatItsWriterRemoved(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		for name, c := range map[string]struct {
			change func(*Shop)
			want   *strings.Replacer
		}{
			"a key of a map": {
				func(s *Shop) { delete(s.Spec.Staff, "y") },
				strings.NewReplacer(`,"y":{"shift":2}`, ""),
			},
			"a struct by its pointer": {
				func(s *Shop) { s.Spec.Owner = nil },
				strings.NewReplacer(`"owner":{"name":"o","age":7},`, ""),
			},
			"what an interface holds": {
				func(s *Shop) { s.Spec.Extra = nil },
				strings.NewReplacer(`,"extra":{"deep":true}`, ""),
			},
			"a map":                    {func(s *Shop) { s.Labels = nil }, strings.NewReplacer(`"labels":{"l":"v"},`, "")},
			"nothing of what was zero": {func(*Shop) {}, strings.NewReplacer()},
			"what replaces a struct": {func(s *Shop) { s.Spec.Owner = &Person{Name: "p"} },
				strings.NewReplacer(`{"name":"o","age":7}`, `{"name":"p","age":7}`)},
		} {
			put(t, js, "s", shopOfTomorrow)
			shop, err := client.Get(t.Context(), "s")
			must(t, err)
			c.change(shop)
			must(t, client.Update(t.Context(), shop))
			wantShop(t, js, "s", c.want.Replace(strings.Replace(shopOfTomorrow, `,"seat":1`, "", 1)))
			if t.Failed() {
				t.Fatal(name)
			}
		}
	})
}

func TestCreateOrUpdateKeepsWhatItsTypeDoesNotKnow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		start(t, client)
		revision := put(t, js, "s", `{"future":1,"spec":{"title":"old","more":{"a":null}}}`)
		must(t, client.Informer().WaitKey(t.Context(), "s", revision))
		shop := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		for _, title := range []string{"first", "new"} {
			_, err := controller.CreateOrUpdate(t.Context(), client, shop, func(s *Shop) error {
				s.Spec.Title = title
				return nil
			})
			must(t, err)
		}
		wantShop(t, js, "s", `{"future":1,"kind":"Shop","metadata":{},"spec":{"title":"new","more":{"a":null}}}`)
	})
}

func TestAPatchIsKeptByTheUpdateThatFollows(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "s", `{"spec":{"title":"old"}}`)
		must(t, client.Patch(t.Context(), "s", []byte(`{"spec":{"later":5}}`)))
		shop, err := client.Get(t.Context(), "s")
		must(t, err)
		shop.Spec.Title = "new"
		must(t, client.Update(t.Context(), shop))
		wantShop(t, js, "s", `{"kind":"Shop","metadata":{},"spec":{"title":"new","later":5}}`)
	})
}

func TestAnUpdateOfAnOlderRevisionConflictsAndChangesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "s", `{"spec":{"title":"old","u":1}}`)
		shop, err := client.Get(t.Context(), "s")
		must(t, err)
		put(t, js, "s", `{"spec":{"title":"theirs","u":2}}`)
		for _, writer := range []*entity.Client[*Shop]{client, newClient[*Shop](t, js, shops)} {
			wantError(t, "update of an old revision", apierrors.IsConflict, writer.Update(t.Context(), shop))
		}
		must(t, client.Delete(t.Context(), "s"))
		wantError(t, "update of what is gone", apierrors.IsNotFound, client.Update(t.Context(), shop))
	})
}

func TestWhatIsKeptCountsForTheSizeOfADocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.MaxDocumentBytes = 1000
		client := newClient[*Shop](t, js, cfg)
		put(t, js, "s", fmt.Sprintf(`{"spec":{"u":%q}}`, strings.Repeat("u", 900)))
		shop, err := client.Get(t.Context(), "s")
		must(t, err)
		shop.Spec.Title = strings.Repeat("t", 200)
		wantError(t, "update", apierrors.IsRequestEntityTooLargeError, client.Update(t.Context(), shop))
	})
}

// asked returns how many reads the leader of a stream was asked for since the last call; ">" is any stream. It counts
// what has arrived on the connection, and leaves out what informers ask: when they do is up to the machine.
func asked(t *testing.T, js jetstream.JetStream, stream string) func() int {
	t.Helper()
	sub, err := js.Conn().SubscribeSync("$JS.API.STREAM.MSG.GET." + stream)
	must(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return func() (count int) {
		t.Helper()
		must(t, js.Conn().Flush())
		arrived, _, err := sub.Pending()
		must(t, err)
		for range arrived {
			m, err := sub.NextMsgWithContext(testContext(t))
			must(t, err)
			if !ofInformer(m.Reply) {
				count++
			}
		}
		return count
	}
}

// ofInformer reports whether the answer to a request goes to an informer, by the subject of the answer.
func ofInformer(reply string) bool {
	_, err := strconv.Atoi(reply[strings.LastIndexByte(reply, '.')+1:])
	return err == nil // it numbers its requests
}

func TestTheLeaderIsAskedOnlyAboutARevisionThatTheClientHasNotRead(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		reads := asked(t, js, "KV_shops")
		expect := func(what string, want int) {
			t.Helper()
			if got := reads(); got != want {
				t.Errorf("%s: %d reads of the leader, want %d", what, got, want)
			}
		}
		for of, document := range map[string]string{"plain": `{"spec":{"title":"old"}}`, "odd": shopOfTomorrow} {
			live, idle := newClient[*Shop](t, js, shops), newClient[*Shop](t, js, shops)
			cached := newClient[*Shop](t, js, shops)
			start(t, cached)
			revision := put(t, js, "s", document)
			must(t, cached.Informer().WaitKey(t.Context(), "s", revision))
			reads()

			shop, err := cached.Lister().Get("s")
			must(t, err)
			must(t, cached.Update(t.Context(), shop))
			must(t, cached.Update(t.Context(), shop)) // maybe before the cache has it
			expect(of+", cached", 0)

			shop, err = live.Get(t.Context(), "s")
			must(t, err)
			must(t, live.Update(t.Context(), shop))
			must(t, live.Update(t.Context(), shop))
			expect(of+", read live", 1) // the Get

			all, err := live.List(t.Context())
			must(t, err)
			reads()
			must(t, live.Update(t.Context(), all[0]))
			expect(of+", listed", 0)

			must(t, idle.Update(t.Context(), all[0]))
			expect(of+", read by another client", 1)
			must(t, idle.Update(t.Context(), all[0]))
			expect(of+", written before", 0)
		}
	})
}

func TestAnUpdateThatCannotKeepIsNotWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		reader, client := newClient[*Shop](t, js, shops), newClient[*Shop](t, js, shops)
		put(t, js, "s", shopOfTomorrow)
		shop, err := reader.Get(t.Context(), "s")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := client.Update(ctx, shop); err == nil {
			t.Error("written without the members that the client could not read")
		}
		must(t, client.Update(t.Context(), shop))
		wantShop(t, js, "s", strings.Replace(shopOfTomorrow, `,"seat":1`, "", 1))
	})
}

func TestWhatKnowsEverythingIsWrittenAsItIs(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, shops)
		put(t, js, "s", shopOfTomorrow)
		shop, err := client.Get(t.Context(), "s")
		must(t, err)
		delete(shop.Object, "future")
		must(t, client.Update(t.Context(), shop))
		wantShop(t, js, "s", strings.Replace(shopOfTomorrow, `"future":{"a":1.50},`, "", 1))
	})
}
