package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAReconcileReadsItsOwnWrites from the lister, at once: creates, updates, status, ownership, deletes.
func TestAReconcileReadsItsOwnWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		const rounds = 50
		check := func(round int, what string, ok bool, err error) {
			if !ok || err != nil {
				t.Errorf("round %d: the lister does not show the %s: %v", round, what, err)
			}
		}
		done := make(chan struct{})
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			defer close(done)
			for round := range rounds {
				name := fmt.Sprintf("p-%d", round)
				p := &page{ObjectMeta: metav1.ObjectMeta{Name: name}}
				_, err := CreateOrUpdate(ctx, pages, p, func(p *page) error { p.Spec.Title = "one"; return nil })
				check(round, "create", true, err)
				got, err := pages.Lister().Get(name)
				check(round, "create", err == nil && got.Spec.Title == "one", err)
				owned, err := pages.Lister().OwnedBy("Site", req.Key)
				check(round, "owner", len(owned) == 1, err)
				_, err = CreateOrUpdate(ctx, pages, p, func(p *page) error { p.Spec.Title = "two"; return nil })
				check(round, "update", true, err)
				got, err = pages.Lister().Get(name)
				check(round, "update", err == nil && got.Spec.Title == "two", err)
				got.Status.Ready = true
				check(round, "status", true, pages.UpdateStatus(ctx, got))
				got, err = pages.Lister().Get(name)
				check(round, "status", err == nil && got.Status.Ready, err)
				check(round, "delete", true, pages.Delete(ctx, name))
				_, err = pages.Lister().Get(name)
				check(round, "delete", apierrors.IsNotFound(err), nil)
			}
			return Result{}, nil
		}), Owns(pages))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		<-done
	})
}

var errDone = errors.New("done")
