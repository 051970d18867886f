package natsinformer

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestEveryClientGoFeatureSet: programs turn client-go's features on and off. The informer must keep its promises, the
// exact cursor included, in all of client-go's ways to feed a store.
func TestEveryClientGoFeatureSet(t *testing.T) {
	sets := map[string]map[features.Feature]bool{
		"defaults":       {},
		"watch-list off": {features.WatchListClient: false},
		"watch-list on":  {features.WatchListClient: true},
		"no unlocked":    {features.UnlockWhileProcessingFIFO: false},
		"no atomic":      {features.UnlockWhileProcessingFIFO: false, features.AtomicFIFO: false},
		"no batches":     {features.InOrderInformersBatchProcess: false},
		"no atomic batch": {
			features.UnlockWhileProcessingFIFO: false, features.AtomicFIFO: false,
			features.InOrderInformersBatchProcess: false,
		},
	}
	for name, set := range sets {
		subtest(t, name, func(t *testing.T) {
			for _, f := range []features.Feature{ // a feature before those it needs
				features.UnlockWhileProcessingFIFO, features.AtomicFIFO, features.WatchListClient,
				features.InOrderInformersBatchProcess,
			} {
				if on, given := set[f]; given {
					featurestesting.SetFeatureDuringTest(t, f, on)
				}
			}
			server := natstest.Start(t)
			js := connect(t, server.URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 50 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			put(t, kv, "bad", -1)
			r := start(t, js, Config{Bucket: "b"}).synced(t)
			if got := len(r.GetStore().ListKeys()); got != 50 {
				t.Errorf("%d objects in the store", got)
			}
			within(t, atOnce, "the cursor is at the list's end", func() bool { return r.Cursor() == 51 })
			for i := range 200 { // values, deletes, and messages that are no event
				key, n := fmt.Sprint("k", i%50), i+100
				var revision uint64
				switch i % 4 {
				case 0, 1:
					revision = put(t, kv, key, n)
				case 2:
					revision = put(t, kv, "bad", -n)
				case 3:
					ack, err := js.PublishMsg(t.Context(), &nats.Msg{
						Subject: "$KV.b." + key, Header: nats.Header{operationHeader: {"DEL"}},
					})
					must(t, err)
					revision = ack.Sequence
				}
				r.reaches(t, revision, atOnce)
				if c := r.Cursor(); c < revision {
					t.Fatalf("the cursor is %d after waiting for %d", c, revision)
				}
				if i%4 < 2 && !r.has(key, n) || i%4 == 3 && r.get(key) != nil {
					t.Fatalf("%s is not up to date at cursor %d", key, revision)
				}
			}
			must(t, js.DeleteKeyValue(t.Context(), "b"))
			kv = bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			revision := put(t, kv, "anew", 1)
			within(t, prompt, "the recreated stream", func() bool { return r.has("anew", 1) })
			must(t, r.WaitCursor(t.Context(), revision))
			within(t, atOnce, "its cursor", func() bool { return r.Cursor() == revision })
			r.converges(t, kv, atOnce)
		})
	}
}
