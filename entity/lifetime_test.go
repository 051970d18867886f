package entity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestATypedWriteKeepsWhatIsLeftOfATTL, however often it comes: NATS rounds each TTL up to whole seconds.
func TestATypedWriteKeepsWhatIsLeftOfATTL(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, client *entity.Client[*Website], replicas int) error{
		"update": func(t *testing.T, client *entity.Client[*Website], replicas int) error {
			site, err := client.Get(t.Context(), "a")
			if err != nil {
				return err
			}
			site.Spec.Replicas = replicas
			return client.Update(t.Context(), site)
		},
		"update of an object made by hand": func(t *testing.T, client *entity.Client[*Website], replicas int) error {
			site, err := client.Get(t.Context(), "a")
			if err != nil {
				return err
			}
			by := website("a")
			by.Spec.Replicas, by.ResourceVersion = replicas, site.ResourceVersion
			return client.Update(t.Context(), by)
		},
		"patch": func(t *testing.T, client *entity.Client[*Website], replicas int) error {
			patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
			return client.Patch(t.Context(), "a", patch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutCaches(t, func(t *testing.T, prepare func(*entity.Client[*Website])) {
				js := newServer(t)
				client := newClient[*Website](t, js, websites)
				prepare(client)
				began := time.Now()
				_, err := keyValue(t, js, "websites").Create(t.Context(), "a", []byte(`{}`), jetstream.KeyTTL(10*time.Second))
				must(t, err)
				writes := 0
				for ; err == nil && writes < 100; writes++ {
					time.Sleep(300 * time.Millisecond)
					err = write(t, client, writes+1)
				}
				if took := time.Since(began); !apierrors.IsNotFound(err) || took <= 10*time.Second-300*time.Millisecond ||
					took > 10*time.Second+300*time.Millisecond {
					t.Errorf("after %d writes and %v: %v", writes, took, err)
				}
				time.Sleep(time.Second)
				if _, err := client.Get(t.Context(), "a"); !apierrors.IsNotFound(err) {
					t.Errorf("a second after its time: %v", err)
				}
			})
		})
	}
}

// TestAnUpdateOfWhatAnotherClientReadKeepsItsTTL: it asks the leader.
func TestAnUpdateOfWhatAnotherClientReadKeepsItsTTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client, other := newClient[*Website](t, js, websites), newClient[*Website](t, js, websites)
		_, err := keyValue(t, js, "websites").Create(t.Context(), "a", []byte(`{}`), jetstream.KeyTTL(10*time.Second))
		must(t, err)
		site, err := other.Get(t.Context(), "a")
		must(t, err)
		site.Spec.Replicas = 2
		must(t, client.Update(t.Context(), site))
		was := other.EnginePort().DocumentExpires("a", 1)
		if is := client.EnginePort().DocumentExpires("a", 2); is != was || is == "" {
			t.Errorf("it expires at %q, and was to at %q", is, was)
		}
		time.Sleep(11 * time.Second)
		if _, err := client.Get(t.Context(), "a"); !apierrors.IsNotFound(err) {
			t.Errorf("it did not expire: %v", err)
		}
	})
}

// TestAWriteKeepsThatADocumentOutlivesTheAgeLimit of the bucket, and gives no TTL to one that has none.
func TestAWriteKeepsThatADocumentOutlivesTheAgeLimit(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.DocumentsExpire = true
		client := newClient[*Website](t, js, cfg)
		stream, err := js.Stream(t.Context(), "KV_websites")
		must(t, err)
		aged := stream.CachedInfo().Config
		aged.MaxAge, aged.Duplicates = time.Minute, time.Minute
		_, err = js.UpdateStream(t.Context(), aged)
		must(t, err)
		stays := nats.NewMsg("$KV.websites.stays")
		stays.Data = []byte(`{}`)
		stays.Header.Set(jetstream.MsgTTLHeader, "never")
		_, err = js.PublishMsg(t.Context(), stays)
		must(t, err)
		must(t, client.Create(t.Context(), &Website{ObjectMeta: metav1.ObjectMeta{Name: "goes"}}))
		for _, key := range []string{"stays", "goes"} {
			must(t, client.Patch(t.Context(), key, []byte(`{"spec":{"replicas":2}}`)))
			site, err := client.Get(t.Context(), key)
			must(t, err)
			site.Spec.Replicas = 3
			must(t, client.Update(t.Context(), site))
		}
		time.Sleep(2 * time.Minute)
		if _, err := client.Get(t.Context(), "stays"); err != nil {
			t.Errorf("what is to stay: %v", err)
		}
		if _, err := client.Get(t.Context(), "goes"); !apierrors.IsNotFound(err) {
			t.Errorf("what is to go with its age: %v", err)
		}
	})
}
