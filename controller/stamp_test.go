package controller

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stampOf is what a page carries of its owner's revision.
func stampOf(t *testing.T, pages *entity.Client[*page], key string) (revision, stream string) {
	t.Helper()
	p, err := pages.Get(t.Context(), key)
	must(t, err)
	revision, stream, _ = strings.Cut(p.Annotations[entity.OwnerRevisionAnnotation], "@")
	return revision, stream
}

// TestWhatIsOwnedCarriesARevisionOfItsOwner, and is not written again because the owner has another.
func TestWhatIsOwnedCarriesARevisionOfItsOwner(t *testing.T) {
	for name, mutate := range map[string]func(*page) error{
		"":                       func(*page) error { return nil },
		" by what it sets alone": func(p *page) error { p.Annotations = map[string]string{"mine": "1"}; return nil },
	} {
		t.Run("kept"+name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				var seen calls
				c, err := New("sites", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
					_, err := CreateOrUpdate(ctx, pages, named(req.Key), mutate)
					return Result{}, err
				}), Owns(pages))
				must(t, err)
				w.run(c)
				s := newSite("home", "one")
				must(t, sites.Create(t.Context(), s))
				eventuallyReason(t, sites, "home", entity.ReasonSynced)
				rec, err := sites.Record(t.Context(), "home")
				must(t, err)
				revision, stream := stampOf(t, pages, "home")
				if revision != s.ResourceVersion || stream != rec.Stream || stream == "" {
					t.Errorf("it carries %q of %q, want %s of %q", revision, stream, s.ResourceVersion, rec.Stream)
				}

				before := w.lastSequence("pages")
				s.Spec.Title = "two"
				must(t, sites.Update(t.Context(), s))
				changed, err := strconv.ParseUint(s.ResourceVersion, 10, 64)
				must(t, err)
				must(t, entity.WaitReconciled(t.Context(), sites, "home", changed))
				if after := w.lastSequence("pages"); after != before {
					t.Errorf("%d writes of what has not changed", after-before)
				}

				// One that the owner has not reached is from a later state of the stream, and is put right.
				must(t, pages.Patch(t.Context(), "home",
					[]byte(`{"metadata":{"annotations":{"`+entity.OwnerRevisionAnnotation+`":"1000@`+stream+`"}}}`)))
				natstest.Eventually(t, "it is put right", func() bool {
					revision, _ := stampOf(t, pages, "home")
					return revision == s.ResourceVersion
				})
			})
		})
	}
}

func TestSetOwnerNamesARevisionOfTheOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, (&calls{}).reconciler(nil))
		must(t, err)
		w.run(c)
		s := newSite("home", "one")
		must(t, sites.Create(t.Context(), s))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		obj := &metav1.ObjectMeta{}
		c.SetOwner(obj, "home")
		if text := obj.Annotations[entity.OwnerRevisionAnnotation]; !strings.HasPrefix(text, s.ResourceVersion+"@") {
			t.Errorf("it carries %q, the owner is at %s", text, s.ResourceVersion)
		}
		obj = &metav1.ObjectMeta{}
		c.SetOwner(obj, "nobody")
		if text, ok := obj.Annotations[entity.OwnerRevisionAnnotation]; ok {
			t.Errorf("of an owner without a document it carries %q", text)
		}
	})
}
