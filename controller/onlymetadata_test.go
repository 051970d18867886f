package controller

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func onlyMetadata(cfg *entity.Config) { cfg.OnlyMetadata = true }

// TestSecondariesOfWhichOnlyMetadataIsCachedAreKeptAsWanted: mutate gets the whole, drift is mended, a predicate tells
// changes of the spec from others, and the cascade finds them.
func TestSecondariesOfWhichOnlyMetadataIsCachedAreKeptAsWanted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages, users := w.sites(), w.client("Page", "pages", onlyMetadata), w.pages()
		var runs, emptied atomic.Int32
		r := ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			runs.Add(1)
			site, err := sites.Lister().Get(req.Key)
			if apierrors.IsNotFound(err) {
				return Result{}, nil
			}
			if err != nil {
				return Result{}, err
			}
			made := newSite(site.Name, "")
			_, err = CreateOrUpdate(ctx, pages, made, func(p *page) error {
				if p.ResourceVersion != "" && p.Spec.Title == "" {
					emptied.Add(1)
				}
				p.Spec.Title, p.Spec.Pages = site.Spec.Title, 0
				return nil
			})
			return Result{}, err
		})
		c, err := New("sites", sites, r, Owns(pages, WithPredicate(GenerationChanged())))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("a", "one")))
		title := func() string {
			p, err := users.Get(t.Context(), "a")
			if err != nil {
				return err.Error()
			}
			if p.Spec.Pages != 0 {
				return "pages"
			}
			return p.Spec.Title
		}
		natstest.Eventually(t, "it is made", func() bool { return title() == "one" })
		time.Sleep(time.Minute)
		before := runs.Load()
		must(t, users.Patch(t.Context(), "a", []byte(`{"metadata":{"labels":{"by":"hand"}}}`)))
		time.Sleep(time.Minute)
		if n := runs.Load() - before; n != 0 {
			t.Errorf("a label made %d runs", n)
		}
		for _, drift := range []string{`{"spec":{"title":"other"}}`, `{"spec":{"pages":3}}`} {
			must(t, users.Patch(t.Context(), "a", []byte(drift)))
			natstest.Eventually(t, "the drift is mended", func() bool { return title() == "one" })
		}
		if n := emptied.Load(); n != 0 {
			t.Errorf("mutate got an object without its spec %d times", n)
		}
		must(t, sites.Delete(t.Context(), "a"))
		natstest.Eventually(t, "it is gone", func() bool {
			_, err := users.Get(t.Context(), "a")
			return apierrors.IsNotFound(err)
		})
	})
}

// TestOutsideOfAReconcileTooWhatIsThereIsMutated: zeros are written, though the cache shows zeros.
func TestOutsideOfAReconcileTooWhatIsThereIsMutated(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.client("Page", "pages", onlyMetadata)
		stop, err := pages.Start()
		must(t, err)
		defer stop()
		made := newSite("a", "one")
		made.Spec.Pages = 3
		must(t, pages.Create(t.Context(), made))
		time.Sleep(time.Second)
		result, err := CreateOrUpdate(t.Context(), pages, newSite("a", ""), func(p *page) error {
			if p.Spec.Pages != 3 {
				return errors.New("mutate got an emptied object")
			}
			p.Spec.Pages = 0
			return nil
		})
		must(t, err)
		if p, err := pages.Get(t.Context(), "a"); err != nil || p.Spec.Pages != 0 || result != OperationResultUpdated {
			t.Errorf("%v, %+v, %v", result, p.Spec, err)
		}
	})
}

func TestPrimariesOfWhichOnlyMetadataIsCachedAreRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := New("sites", w.client("Site", "sites", onlyMetadata), new(calls).reconciler(nil))
		if err == nil || !strings.Contains(err.Error(), "give the controller a client of its own without it") {
			t.Errorf("error %v", err)
		}
	})
}
