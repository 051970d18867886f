package entity_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nagi-runtime/nagi/test/natstest/leaks"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leaks.OfServer()...) }

type WebsiteSpec struct {
	Host     string            `json:"host,omitempty"`
	Replicas int               `json:"replicas,omitempty"`
	Paths    []string          `json:"paths,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
}

type WebsiteStatus struct {
	Ready bool     `json:"ready,omitempty"`
	URLs  []string `json:"urls,omitempty"`
}

type Website = entity.Object[WebsiteSpec, WebsiteStatus]

func website(name string) *Website {
	return &Website{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: WebsiteSpec{Host: name + ".example.com"}}
}

var websites = entity.Config{Kind: "Website", Bucket: "websites"}

// testContext ends with the test, and after a minute.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newServer starts a server and connects to it.
func newServer(t testing.TB) jetstream.JetStream {
	t.Helper()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	return js
}

func newClient[T entity.IEntity](t testing.TB, js jetstream.JetStream, cfg entity.Config) *entity.Client[T] {
	t.Helper()
	client, err := entity.NewClient[T](testContext(t), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func keyValue(t testing.TB, js jetstream.JetStream, bucket string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.KeyValue(testContext(t), bucket)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// virtually is a subtest in virtual time.
func virtually(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { natstest.Test(t, f) }
}

// start runs the client's informers until the test ends, and waits for them.
func start[T entity.IEntity](t testing.TB, client *entity.Client[T]) {
	t.Helper()
	stop, err := client.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	natstest.Eventually(t, "the caches have synced", func() bool {
		return client.Informer().HasSynced() && (client.Records() == nil || client.Records().Informer().HasSynced())
	})
}

// wantNow fails the test unless the condition holds when all has happened that can happen now. It is for virtual time.
func wantNow(t testing.TB, what string, holds func() bool) {
	t.Helper()
	synctest.Wait()
	if !holds() {
		t.Fatalf("it is not so: %s", what)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, what string, is func(error) bool, err error) {
	t.Helper()
	if !is(err) {
		t.Fatalf("%s: got error %v", what, err)
	}
}
