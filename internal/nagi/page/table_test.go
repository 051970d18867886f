package page

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkAPageOf100000Rows reads a page of a bucket of so many documents, searched through. What an operation costs is
// what a reader waits for after the bucket was read once.
func BenchmarkAPageOf100000Rows(b *testing.B) {
	nc, js := natstest.Connect(b, natstest.Start(b).URL())
	ctx := context.Background()
	for _, bucket := range []string{registry.Bucket, "many"} {
		if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage}); err != nil {
			b.Fatal(err)
		}
	}
	entry := `{"schemaVersion":1,"kind":"Many","bucket":"many","controllers":[],"columns":[{"name":"N","jsonPath":"$.spec.n","type":"integer"}]}`
	if _, err := js.Publish(ctx, "$KV."+registry.Bucket+".Many", []byte(entry)); err != nil {
		b.Fatal(err)
	}
	for i := range 100000 {
		value := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}},"spec":{"n":%d}}`, i%10, i)
		if _, err := js.PublishAsync(fmt.Sprintf("$KV.many.key-%06d", i), []byte(value)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	p, err := New(Config{Conn: nc, JS: js, Timeout: 10 * time.Second, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	get := func(path string) {
		answer := httptest.NewRecorder()
		p.ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		if answer.Code != 200 || answer.Body.Len() < 5000 {
			b.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	began := time.Now()
	for {
		kind, err := p.kind(ctx, "Many")
		if err != nil {
			b.Fatal(err)
		}
		if bucket, err := p.followed(ctx, kind); err == nil && bucket.Synced() {
			break
		}
	}
	b.Logf("the bucket was read in %v", time.Since(began))
	for i := 0; b.Loop(); i++ {
		get(fmt.Sprintf("/kinds/Many?q=n%%3D3+%d&after=key-050000", i%10)) // another search each time
	}
}
