package manager

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// TestTwoControllersOverOneBucketHoldOneCache, and each reads at once what the other wrote.
func TestTwoControllersOverOneBucketHoldOneCache(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		m := open(t, Config{URL: startServer(t).URL()})
		ctx := t.Context()
		first, audit := client(t, m, sites()), client(t, m, withStatus("sites-audit"))
		// The first writes, and the second reads in its own cache before it can know of an event.
		const rounds = 50
		wrote, read, done := make(chan uint64), make(chan error), make(chan error, 2)
		once := func(work func(ctx context.Context, key string) error) controller.Reconciler {
			var begun atomic.Bool
			return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
				if begun.CompareAndSwap(false, true) {
					done <- work(ctx, req.Key)
				}
				return controller.Result{}, nil
			})
		}
		writer, err := controller.New("writer", first, once(func(ctx context.Context, key string) error {
			for i := range rounds {
				s, err := first.Lister().Get(key)
				if err != nil {
					return err
				}
				s.Spec.Title = fmt.Sprint("title ", i)
				if err := first.Update(ctx, s); err != nil {
					return err
				}
				wrote <- uint64(s.Generation)
				if err := <-read; err != nil {
					return err
				}
			}
			return nil
		}))
		must(t, err)
		reader, err := controller.New("reader", audit, once(func(_ context.Context, key string) error {
			for i := range rounds {
				revision := <-wrote
				s, err := audit.Lister().Get(key)
				if err == nil && (uint64(s.Generation) != revision || s.Spec.Title != fmt.Sprint("title ", i)) {
					err = fmt.Errorf("read %q at %d, and %d was written", s.Spec.Title, s.Generation, revision)
				}
				read <- err
			}
			return nil
		}))
		must(t, err)
		must(t, m.Add(writer, reader))
		r := start(t, m)
		must(t, first.Create(ctx, newSite("home", "title")))
		for range 2 {
			must(t, <-done)
		}
		stream, err := m.JetStream().Stream(ctx, "KV_sites")
		must(t, err)
		if n := stream.CachedInfo().State.Consumers; n != 1 {
			t.Errorf("the documents have %d consumers", n)
		}
		must(t, r.stop())
		if _, err := first.Get(ctx, "home"); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("the connection is still there: %v", err)
		}
	})
}
