package controller

import (
	"context"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onePage makes each site own one page of its name, with its title.
func onePage(sites entity.IEntityClient[*site], pages entity.IEntityClient[*page]) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil {
			return Result{}, ignoreNotFound(err)
		}
		p := &page{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
		_, err = CreateOrUpdate(ctx, pages, p, func(p *page) error {
			p.Spec.Title = s.Spec.Title
			return nil
		})
		return Result{}, err
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func TestSecondariesFollowTheirPrimary(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(onePage(sites, pages)), Owns(pages))
		must(t, err)
		w.run(c)
		ctx := t.Context()

		s := newSite("home", "one")
		must(t, sites.Create(ctx, s))
		titled := func(title string) func() bool {
			return func() bool {
				p, err := pages.Get(ctx, "home")
				return err == nil && p.Spec.Title == title
			}
		}
		natstest.Eventually(t, "a page for the new site", titled("one"))
		must(t, sites.Patch(ctx, "home", []byte(`{"spec":{"title":"two"}}`)))
		natstest.Eventually(t, "the page follows the update", titled("two"))
		must(t, pages.Delete(ctx, "home"))
		natstest.Eventually(t, "the deleted page is made again", titled("two"))
		must(t, sites.Delete(ctx, "home"))
		natstest.Eventually(t, "the page goes with its site", func() bool {
			_, err := pages.Get(ctx, "home")
			return apierrors.IsNotFound(err)
		})
		natstest.Eventually(t, "no record is left", func() bool {
			_, err := sites.Record(ctx, "home")
			return apierrors.IsNotFound(err)
		})
		if n := seen.with("home", OperationDelete); n != 1 {
			t.Errorf("the teardown reconciled %d times with Delete, want once: %v", n, seen.of("home"))
		}
	})
}
