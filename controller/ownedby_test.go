package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwnedByListsWhatTheReconciledPrimaryOwns, and neither what another primary owns nor what one of the same name in
// another installation does.
func TestOwnedByListsWhatTheReconciledPrimaryOwns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		foreign := &page{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
		entity.SetOwner(foreign, "Site", "home", "another-installation")
		must(t, pages.Create(t.Context(), foreign))
		listed := make(chan string, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if _, err := sites.Lister().Get(req.Key); err != nil {
				return Result{}, nil
			}
			mine := &page{ObjectMeta: metav1.ObjectMeta{Name: req.Key + ".front"}}
			if _, err := CreateOrUpdate(ctx, pages, mine, func(*page) error { return nil }); err != nil {
				return Result{}, err
			}
			owned, err := OwnedBy(ctx, pages.Lister())
			said := req.Key + ":"
			for _, p := range owned {
				said += " " + p.Name
			}
			listed <- fmt.Sprint(said, ", error ", err)
			return Result{}, nil
		}), Owns(pages))
		must(t, err)
		w.run(c)
		for _, name := range []string{"home", "other"} {
			must(t, sites.Create(t.Context(), newSite(name, "x")))
			got := <-listed
			for !strings.HasPrefix(got, name+":") { // a page's own event makes its site due again
				got = <-listed
			}
			if want := fmt.Sprintf("%s: %s.front, error <nil>", name, name); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if _, err := OwnedBy(t.Context(), pages.Lister()); err == nil {
			t.Error("it answers outside of a reconcile")
		}
	})
}
