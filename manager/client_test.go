package manager

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func withStatus(bucket string) entity.Config {
	cfg := sites()
	cfg.StatusBucket = bucket
	return cfg
}

func TestClientsOfOneBucketShareACache(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		first := client(t, m, sites())
		audit := client(t, m, withStatus("sites-audit"))
		none := client(t, m, withStatus(entity.NoStatusBucket))
		if !first.SharesCacheWith(audit) || !audit.SharesCacheWith(none) {
			t.Error("the clients of one bucket do not share its cache")
		}
		if audit.Config().StatusBucket != "sites-audit" || none.Records() != nil {
			t.Errorf("status buckets %q, %v", audit.Config().StatusBucket, none.Records())
		}
		for _, again := range []entity.Config{sites(), withStatus("sites-status")} {
			if client(t, m, again) != first {
				t.Error("the same status bucket is another client")
			}
		}
		same := sites()
		same.Filter, same.Replicas = ">", 1 // the defaults
		if client(t, m, same) != first {
			t.Error("a default that is written out is another client")
		}
		other := sites()
		other.Bucket = "others"
		if client(t, m, other).SharesCacheWith(first) {
			t.Error("clients of different buckets share a cache")
		}
	})
}

func TestAClientThatContradictsAnotherIsAnErrorThatSaysWhatToDo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		client(t, m, sites())
		for field, change := range map[string]func(*entity.Config){
			"Kind":         func(c *entity.Config) { c.Kind = "Page" },
			"Filter":       func(c *entity.Config) { c.Filter = "a*" },
			"Namespaced":   func(c *entity.Config) { c.Namespaced = true },
			"SecretFields": func(c *entity.Config) { c.SecretFields = []string{"spec.password"} },
			"Strict":       func(c *entity.Config) { c.Strict = entity.StrictRefuse },
		} {
			cfg := withStatus("sites-" + field)
			change(&cfg)
			_, err := Client[*site](t.Context(), m, cfg)
			mustSay(t, err, `"sites"`, "Config."+field, "entity.NewClient", "StatusBucket")
		}
		_, err := Client[*unstructured.Unstructured](t.Context(), m, withStatus("sites-untyped"))
		mustSay(t, err, `"sites"`, "Unstructured", "entity.NewClient")
	})
}

// TestTheBucketOfLeasesHasNoClient: the lease would be decoded as a document or a record.
func TestTheBucketOfLeasesHasNoClient(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL(), Lease: &Lease{Bucket: "shared"}})
		documents, records := sites(), withStatus("shared")
		documents.Bucket = "shared"
		for field, cfg := range map[string]entity.Config{"Config.Bucket": documents, "Config.StatusBucket": records} {
			_, err := Client[*site](t.Context(), m, cfg)
			mustSay(t, err, "the client's "+field, "Config.Lease.Bucket", `"shared"`, "bucket of their own")
		}
		client(t, m, sites())
		_, err := Client[*site](t.Context(), m, records) // one that would be derived
		mustSay(t, err, "the client's Config.StatusBucket", "Config.Lease.Bucket")
	})
}

func TestAClientThatWasClosedIsForgotten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		first := client(t, m, sites())
		audit := client(t, m, withStatus("sites-audit"))
		first.Close()
		again := client(t, m, sites())
		if again == first || !again.SharesCacheWith(audit) {
			t.Error("the new client does not share the cache of the one that is left")
		}
		again.Close()
		audit.Close()
		works(t, m)
	})
}

func TestAfterTheEndThereAreNoClients(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m, err := newManager(silent(t.Context()), Config{URL: startServer(t).URL()})
		must(t, err)
		c := client(t, m, sites())
		must(t, m.Close(context.Background()))
		if !c.Closed() {
			t.Error("the client was not closed")
		}
		_, err = Client[*site](t.Context(), m, sites())
		mustSay(t, err, "the manager has stopped")
	})
}
