package entity_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exampleJetStream starts a server, unlike a real program, and connects to it.
func exampleJetStream() (js jetstream.JetStream, cleanup func()) {
	server, err := natstest.New()
	if err != nil {
		log.Fatal(err)
	}
	nc, err := nats.Connect(server.URL())
	if err != nil {
		log.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		log.Fatal(err)
	}
	return js, func() { nc.Close(); server.Close() }
}

func Example() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()

	type PageSpec struct {
		Title string `json:"title"`
	}
	type PageStatus struct {
		Ready bool `json:"ready"`
	}
	type Page = entity.Object[PageSpec, PageStatus]

	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()

	page := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "front"}, Spec: PageSpec{Title: "Hello"}}
	if err := pages.Create(ctx, page); err != nil {
		log.Fatal(err)
	}
	// Any program may put a document.
	kv, err := js.KeyValue(ctx, "pages")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := kv.PutString(ctx, "shop.front", `{"spec":{"title":"Welcome"}}`); err != nil {
		log.Fatal(err)
	}
	// So an update of an object that was read before conflicts.
	page.Spec.Title = "Hi"
	fmt.Println("conflict:", apierrors.IsConflict(pages.Update(ctx, page)))

	got, err := pages.Get(ctx, "shop/front")
	if err != nil {
		log.Fatal(err)
	}
	got.Status.Ready = true
	if err := pages.UpdateStatus(ctx, got); err != nil {
		log.Fatal(err)
	}
	got, err = pages.Get(ctx, "shop/front")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Kind, got.Namespace, got.Name, got.ResourceVersion, got.Spec.Title, got.Status.Ready)
	// Output:
	// conflict: true
	// Page shop front 2 Welcome true
}

func ExampleClient_Patch() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()
	type Spec struct {
		Title string `json:"title"`
	}
	pages, err := entity.NewClient[*entity.Object[Spec, struct{}]](ctx, js,
		entity.Config{Kind: "Page", Bucket: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	kv, err := js.KeyValue(ctx, "pages")
	if err != nil {
		log.Fatal(err)
	}
	// This Go type does not know "theme". A patch keeps it; an update would not.
	if _, err := kv.PutString(ctx, "front", `{"spec":{"title":"Hello","theme":"dark"}}`); err != nil {
		log.Fatal(err)
	}
	if err := pages.Patch(ctx, "front", []byte(`{"spec":{"title":"Welcome"}}`)); err != nil {
		log.Fatal(err)
	}
	entry, err := kv.Get(ctx, "front")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(entry.Value()))
	// Output: {"spec":{"theme":"dark","title":"Welcome"}}
}

func ExampleLister() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()
	pages, err := entity.NewClient[*entity.Object[struct{}, struct{}]](ctx, js,
		entity.Config{Kind: "Page", Bucket: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	stop, err := pages.Start() // a controller does this
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	page := &entity.Object[struct{}, struct{}]{ObjectMeta: metav1.ObjectMeta{Name: "front"}}
	entity.SetOwner(page, "Website", "shop", "")
	if err := pages.Create(ctx, page); err != nil {
		log.Fatal(err)
	}
	// The lister reads this process's own writes.
	owned, err := pages.Lister().OwnedBy("Website", "shop")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(owned), owned[0].Name)
	// Output: 1 front
}

func ExampleRecords() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()
	pages, err := entity.NewClient[*entity.Object[struct{}, struct{}]](ctx, js,
		entity.Config{Kind: "Page", Bucket: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()

	// A controller writes this before it reconciles a key for the first time.
	record := &entity.Record{Controller: "pages", LastDocument: []byte(`{"spec":{}}`), DocumentRevision: 1}
	if err := pages.Records().Put(ctx, "front", record); err != nil {
		log.Fatal(err)
	}
	got, err := pages.Record(ctx, "front")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Anchor(), string(got.LastDocument))
	// Output: true {"spec":{}}
}
