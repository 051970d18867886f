package entity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMissingBucketsAreCreatedWithSafeSettings(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, rollups := range []bool{false, true} {
			js := newServer(t)
			cfg := websites
			cfg.Storage, cfg.AllowRollup = jetstream.MemoryStorage, rollups
			newClient[*Website](t, js, cfg)
			for _, name := range []string{"KV_websites", "KV_websites-status"} {
				stream, err := js.Stream(t.Context(), name)
				must(t, err)
				c := stream.CachedInfo().Config
				if c.MaxMsgsPerSubject != 1 || !c.AllowMsgTTL || c.Discard != jetstream.DiscardNew ||
					c.Storage != jetstream.MemoryStorage || !c.DenyDelete {
					t.Errorf("%s: %+v", name, c)
				}
				markers := time.Duration(0)
				if allows := rollups && name == "KV_websites"; allows {
					markers = entity.DefaultTombstoneTTL
				}
				if c.AllowRollup != (markers > 0) || c.SubjectDeleteMarkerTTL != markers {
					t.Errorf("%s: rollups %t, markers %v", name, c.AllowRollup, c.SubjectDeleteMarkerTTL)
				}
			}
			// Any KV client can use them too.
			kv := keyValue(t, js, "websites")
			_, err := kv.Create(t.Context(), "a", []byte(`{}`))
			must(t, err)
			if err := kv.Purge(t.Context(), "a"); (err == nil) != rollups {
				t.Errorf("rollups %t: a purge: %v", rollups, err)
			}
			must(t, kv.Delete(t.Context(), "a"))
		}
	})
}

func TestAnExistingBucketIsNeverChanged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
			Bucket: "websites", History: 3, Description: "mine", MaxValueSize: 50_000,
		})
		must(t, err)
		stream, err := js.Stream(t.Context(), "KV_websites")
		must(t, err)
		before := stream.CachedInfo().Config
		client := newClient[*Website](t, js, websites)
		stream, err = js.Stream(t.Context(), "KV_websites")
		must(t, err)
		after := stream.CachedInfo().Config
		if after.MaxMsgsPerSubject != before.MaxMsgsPerSubject || after.Description != before.Description ||
			after.AllowMsgTTL != before.AllowMsgTTL {
			t.Errorf("changed from %+v to %+v", before, after)
		}
		if warnings := client.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "message TTL") {
			t.Errorf("warnings %q", warnings)
		}
		if client.Config().MaxDocumentBytes >= 50_000 {
			t.Errorf("documents of %d bytes do not fit the bucket", client.Config().MaxDocumentBytes)
		}
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Delete(t.Context(), "a"))
		must(t, client.Create(t.Context(), website("a")))
	})
}

func TestABucketThatWouldLoseDataIsRefusedWithWhatToChange(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		for name, c := range map[string]struct {
			stream jetstream.StreamConfig
			says   string
		}{
			"history with TTL": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 5, AllowMsgTTL: true, AllowRollup: true},
				"history to 1",
			},
			"TTL without markers": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 1, MaxAge: time.Hour, AllowRollup: true},
				"limit markers",
			},
			"old ones are discarded": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 1, MaxMsgs: 10, Discard: jetstream.DiscardOld, AllowRollup: true},
				"discard to new",
			},
			"work queue": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowRollup: true, Retention: jetstream.WorkQueuePolicy},
				"make it limits",
			},
			"no acknowledgements": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowRollup: true, NoAck: true},
				"no_ack",
			},
			"small messages": {
				jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowRollup: true, MaxMsgSize: 600},
				"max_msg_size",
			},
			"other subjects": {
				jetstream.StreamConfig{Subjects: []string{"$KV.websites.>", "more"}, AllowRollup: true},
				"no KV bucket",
			},
		} {
			c.stream.Name, c.stream.Storage = "KV_websites", jetstream.MemoryStorage
			if c.stream.Subjects == nil {
				c.stream.Subjects = []string{"$KV.websites.>"}
			}
			_, err := js.CreateStream(t.Context(), c.stream)
			must(t, err)
			_, err = entity.NewClient[*Website](t.Context(), js, websites)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"websites"`) {
				t.Errorf("%s: got error %v", name, err)
			}
			must(t, js.DeleteStream(t.Context(), "KV_websites"))
		}
	})
}

func TestBindOnlyCreatesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.BindOnly = true
		_, err := entity.NewClient[*Website](t.Context(), js, cfg)
		if err == nil || !strings.Contains(err.Error(), `bucket "websites" does not exist`) {
			t.Errorf("got error %v", err)
		}
		if _, err := js.Stream(t.Context(), "KV_websites"); err == nil {
			t.Error("the bucket was created")
		}
	})
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		for name, c := range map[string]struct {
			cfg  entity.Config
			says string
		}{
			"no kind":           {entity.Config{Bucket: "b"}, "Config.Kind"},
			"kind with a slash": {entity.Config{Kind: "a/b", Bucket: "b"}, "slash"},
			"no bucket":         {entity.Config{Kind: "K"}, "Config.Bucket"},
			"bucket with a dot": {entity.Config{Kind: "K", Bucket: "a.b"}, "letters"},
			"status bucket":     {entity.Config{Kind: "K", Bucket: "b", StatusBucket: "b"}, "wipe its status"},
			"filter":            {entity.Config{Kind: "K", Bucket: "b", Filter: "a..b"}, "Config.Filter"},
			"filter of no key":  {entity.Config{Kind: "K", Bucket: "b", Filter: "a", Namespaced: true}, "two tokens"},
			"fraction of seconds": {
				entity.Config{Kind: "K", Bucket: "b", TombstoneTTL: 1500 * time.Millisecond},
				"whole seconds",
			},
			"long keys":       {entity.Config{Kind: "K", Bucket: "b", MaxKeyLength: 5000}, "MaxKeyLength"},
			"large documents": {entity.Config{Kind: "K", Bucket: "b", MaxDocumentBytes: 2 << 20}, "max_payload"},
			"replicas":        {entity.Config{Kind: "K", Bucket: "b", Replicas: 9}, "1 to 5"},
			"no size":         {entity.Config{Kind: "K", Bucket: "b", MaxBytes: -1}, "leave it 0"},
			"no status size":  {entity.Config{Kind: "K", Bucket: "b", StatusMaxBytes: -1}, "leave it 0"},
			"our metadata": {
				entity.Config{Kind: "K", Bucket: "b", Metadata: map[string]string{entity.MetadataHolds: "x"}}, "are Nagi's",
			},
			"the server's metadata": {
				entity.Config{Kind: "K", Bucket: "b", Metadata: map[string]string{"_nats.ver": "1"}}, "the server's",
			},
		} {
			_, err := entity.NewClient[*unstructured.Unstructured](t.Context(), js, c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got error %v, want one about %q", name, err, c.says)
			}
		}
	})
}

func TestNoStatusBucketMeansNoRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.StatusBucket = entity.NoStatusBucket
		client := newClient[*Website](t, js, cfg)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if client.Records() != nil || len(got.Annotations) != 0 {
			t.Errorf("records %v, annotations %v", client.Records(), got.Annotations)
		}
		if err := client.UpdateStatus(t.Context(), site); err == nil || !strings.Contains(err.Error(), "no status bucket") {
			t.Errorf("got error %v", err)
		}
		if _, err := js.Stream(t.Context(), "KV_websites-status"); err == nil {
			t.Error("a status bucket was created")
		}
	})
}

// ouroboros leads to itself without a struct between.
type ouroboros *ouroboros

// TestATypeWithAPointerToItselfIsRefused: the decoder would follow it until the stack of the process overflows.
func TestATypeWithAPointerToItselfIsRefused(t *testing.T) {
	type deep struct {
		A map[string][]*struct {
			P ouroboros `json:"p,omitempty"`
		}
	}
	type tree struct {
		Left, Right *tree
		_           ouroboros // nobody decodes into it
		Not         ouroboros `json:"-"`
	}
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := entity.Config{Kind: "Snake", Bucket: "snakes"}
		for what, make := range map[string]func() error{
			"spec": func() error {
				_, err := entity.NewClient[*entity.Object[deep, struct{}]](t.Context(), js, cfg)
				return err
			},
			"status": func() error {
				_, err := entity.NewClient[*entity.Object[struct{}, struct{ P ouroboros }]](t.Context(), js, cfg)
				return err
			},
		} {
			if err := make(); err == nil || !strings.Contains(err.Error(), "entity_test.ouroboros in the type ") ||
				!strings.Contains(err.Error(), "kind Snake") {
				t.Errorf("%s: %v", what, err)
			}
		}
		client := newClient[*entity.Object[tree, struct{}]](t, js, entity.Config{Kind: "Tree", Bucket: "trees"})
		if _, err := client.CreateDocument(t.Context(), "a", []byte(`{"spec":{"Left":{},"Not":{}}}`)); err != nil {
			t.Error(err)
		}
	})
}
