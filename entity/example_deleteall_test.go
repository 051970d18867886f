package entity_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// All documents of one team go. They are most of all, so their number is asked for first.
func ExampleClient_DeleteAllOf() {
	ctx := context.Background()
	js, cleanup := exampleJetStream()
	defer cleanup()

	type Site = entity.Object[struct{}, struct{}]
	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	if err != nil {
		log.Fatal(err)
	}
	defer sites.Close()
	for i := range 12 {
		site := &Site{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("site-", i)}}
		site.Labels = map[string]string{"team": []string{"blue", "blue", "blue", "blue", "blue", "red"}[i%6]}
		if err := sites.Create(ctx, site); err != nil {
			log.Fatal(err)
		}
	}

	blue := entity.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"team": "blue"})}
	_, err = sites.DeleteAllOf(ctx, blue)
	if mass, ok := errors.AsType[*entity.MassDeleteError](err); ok {
		fmt.Println(mass.Chosen, "of", mass.Known)
	}
	deleted, err := sites.DeleteAllOf(ctx, blue, entity.IfCount(10))
	fmt.Println(deleted, err)
	// Output:
	// 10 of 12
	// 10 <nil>
}
