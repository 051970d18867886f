package entity_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two controllers over one bucket: each has a client with a status bucket of its own, and both read one cache.
func ExampleClient_WithStatusBucket() {
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

	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	audited, err := pages.WithStatusBucket(ctx, "pages-audit")
	if err != nil {
		log.Fatal(err)
	}
	defer audited.Close()

	// A controller starts its client. Here, the first read of each lister does.
	if _, err := audited.Lister().List(nil); err != nil {
		log.Fatal(err)
	}

	// What is written through one client, the other one reads at once.
	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: "front"}, Spec: PageSpec{Title: "Hello"}}
	if err := pages.Create(ctx, page); err != nil {
		log.Fatal(err)
	}
	seen, err := audited.Lister().Get("front")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seen.Spec.Title)

	// Each has statuses of its own.
	seen.Status.Ready = true
	if err := audited.UpdateStatus(ctx, seen); err != nil {
		log.Fatal(err)
	}
	for _, client := range []*entity.Client[*Page]{pages, audited} {
		page, err := client.Lister().Get("front")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(client.Config().StatusBucket, page.Status.Ready)
	}
	// Output:
	// Hello
	// pages-status false
	// pages-audit true
}
