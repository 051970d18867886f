package entity_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A cache of secondaries that keeps their metadata, and nothing of what they hold.
func ExampleConfig_onlyMetadata() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()

	type PageSpec struct {
		HTML string `json:"html"`
	}
	type Page = entity.Object[PageSpec, struct{}]
	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages", OnlyMetadata: true})
	if err != nil {
		log.Fatal(err)
	}
	defer pages.Close()
	stop, err := pages.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	page := &Page{ObjectMeta: metav1.ObjectMeta{Name: "home"}, Spec: PageSpec{HTML: "<h1>Home</h1>"}}
	if err := pages.Create(ctx, page); err != nil {
		log.Fatal(err)
	}
	cached, err := pages.Lister().Get("home")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("cached: %q\n", cached.Spec.HTML)

	// An update of what the cache shows keeps what it does not show.
	cached.Labels = map[string]string{"site": "shop"}
	if err := pages.Update(ctx, cached); err != nil {
		log.Fatal(err)
	}
	whole, err := pages.Get(ctx, "home")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("live: %q, %v\n", whole.Spec.HTML, whole.Labels)
	// Output:
	// cached: ""
	// live: "<h1>Home</h1>", map[site:shop]
}
