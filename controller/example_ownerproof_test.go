package controller_test

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller that deletes only what it has proven to be its own. CreateOrUpdate proves what it writes; what the
// reconciler writes by other means needs SetProvenOwner.
func ExampleWithOwnerProof() {
	js, cleanUp := connect()
	defer cleanUp()
	ctx, stop := context.WithCancel(context.Background())

	sites, err := entity.NewClient[*Site](ctx, js, entity.Config{Kind: "Site", Bucket: "sites"})
	check(err)
	defer sites.Close()
	pages, err := entity.NewClient[*Page](ctx, js, entity.Config{Kind: "Page", Bucket: "pages"})
	check(err)
	defer pages.Close()

	secret := []byte("of a file that only the controller reads") // first the one that signs, then older ones
	var c *controller.Controller[*Site]
	c, err = controller.New("sites", sites, controller.ReconcilerFunc(
		func(ctx context.Context, req controller.Request) (controller.Result, error) {
			page := &Page{ObjectMeta: metav1.ObjectMeta{Name: req.Key}, Spec: pageSpec{Text: "welcome"}}
			c.SetProvenOwner(page, req.Key, controller.ProofOfBucket("pages"))
			err := pages.Create(ctx, page)
			if apierrors.IsAlreadyExists(err) { // the event of the page makes the site due once more
				err = nil
			}
			return controller.Result{}, err
		}), controller.Owns(pages), controller.WithOwnerProof(secret))
	check(err)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()

	site := &Site{ObjectMeta: metav1.ObjectMeta{Name: "home"}}
	check(sites.Create(ctx, site))
	check(entity.WaitReconciled(ctx, sites, "home", uint64(site.Generation)))
	page, err := pages.Get(ctx, "home")
	check(err)
	fmt.Println("proven:", page.Annotations[entity.OwnerProofAnnotation] != "")

	stop()
	check(<-done)
	// Output: proven: true
}
