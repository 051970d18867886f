package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
)

type book = entity.Object[struct {
	Title string `json:"title"`
}, struct{}]

// A primary takes over the document that a person has put under its name.
func ExampleWithAdopt() {
	adopting := func(books entity.IEntityClient[*book]) controller.ReconcilerFunc {
		return func(ctx context.Context, req controller.Request) (controller.Result, error) {
			obj := &book{}
			obj.Name = req.Key
			_, err := controller.CreateOrUpdateWith(ctx, books, obj, func(b *book) error {
				b.Spec.Title = "Moby-Dick"
				return nil
			}, controller.WithAdopt())
			return controller.Result{}, err
		}
	}
	fmt.Println(adopting != nil)
	// Output: true
}
