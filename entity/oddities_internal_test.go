package entity

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

type oddSpec struct {
	Title string `json:"title,omitempty"`
}

type oddSite = Object[oddSpec, struct{}]

// age makes all that is known older.
func (o *oddities) age(by time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turned = o.turned.Add(-by)
	for key, known := range o.keys {
		known.noted = known.noted.Add(-by)
		o.keys[key] = known
	}
}

// TestWhatIsKnownOfAStreamIsNotBelievedOfTheNextOne, in which the same key has the same revision. The client has no
// cache, which would notice.
func TestWhatIsKnownOfAStreamIsNotBelievedOfTheNextOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const plain, odd = `{"spec":{"title":"t"}}`, `{"spec":{"title":"t","future":1}}`
		for _, c := range []struct{ before, after string }{{plain, odd}, {odd, plain}} {
			_, js := natstest.Connect(t, natstest.Start(t).URL())
			cfg := Config{Kind: "Site", Bucket: "sites", StatusBucket: NoStatusBucket, Storage: jetstream.MemoryStorage}
			// In files a server may still remove the old store when it is to make the new one.
			writer, reader := closedAfter[*oddSite](t, js, cfg), closedAfter[*oddSite](t, js, cfg)
			put := func(document string) {
				t.Helper()
				kv, err := js.KeyValue(t.Context(), "sites")
				if err == nil {
					_, err = kv.PutString(t.Context(), "a", document)
				}
				ok(t, err)
			}
			put(c.before)
			if _, err := writer.Get(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			ok(t, js.DeleteKeyValue(t.Context(), "sites"))
			closedAfter[*oddSite](t, js, cfg) // which makes the bucket
			put(c.after)
			site, err := reader.Get(t.Context(), "a")
			ok(t, err)

			writer.shared.oddities.age(2 * freshFor)
			ok(t, writer.Update(t.Context(), site))
			last, err := writer.documents.last(t.Context(), "a")
			ok(t, err)
			var got, want struct {
				Spec map[string]any `json:"spec"`
			}
			ok(t, json.Unmarshal(last.Value, &got))
			ok(t, json.Unmarshal([]byte(c.after), &want))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s was replaced by %s, which was written with what is known of %s", c.after, last.Value, c.before)
			}
		}
	})
}

func closedAfter[T IEntity](t *testing.T, js jetstream.JetStream, cfg Config) *Client[T] {
	t.Helper()
	client, err := NewClient[T](t.Context(), js, cfg)
	ok(t, err)
	t.Cleanup(client.Close)
	return client
}
