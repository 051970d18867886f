package controller

import (
	"errors"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// titled is a mutate function that sets the title and nothing else.
func titled(title string) func(*page) error {
	return func(p *page) error {
		p.Spec.Title = title
		return nil
	}
}

func named(name string) *page { return &page{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// createOrUpdateIs calls CreateOrUpdate and checks what it says it did.
func createOrUpdateIs(
	t *testing.T, pages entity.IEntityClient[*page], obj *page, mutate func(*page) error, want OperationResult,
) {
	t.Helper()
	got, err := CreateOrUpdate(t.Context(), pages, obj, mutate)
	must(t, err)
	if got != want {
		t.Errorf("CreateOrUpdate: %q, want %q", got, want)
	}
}

// lastSequence is how many messages a bucket's stream ever had: it tells whether anything was written.
func (w *world) lastSequence(bucket string) uint64 {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	return stream.CachedInfo().State.LastSeq
}

func TestCreateOrUpdateCreatesUpdatesAndLeavesAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultCreated)
		createOrUpdateIs(t, pages, named("home"), titled("two"), OperationResultUpdated)
		p := named("home")
		createOrUpdateIs(t, pages, p, titled("two"), OperationResultNone)
		got, err := pages.Get(t.Context(), "home")
		must(t, err)
		if got.Spec.Title != "two" || p.Spec.Title != "two" || p.ResourceVersion != got.ResourceVersion {
			t.Errorf("stored %+v at %s, handed back %+v at %s",
				got.Spec, got.ResourceVersion, p.Spec, p.ResourceVersion)
		}
	})
}

// TestCreateOrUpdateGetsItsTurn however many others write the same entity. Without pauses each of so many fails in the
// long run.
func TestCreateOrUpdateGetsItsTurn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const writers, each = 24, 10
		w := newWorld(t)
		var all sync.WaitGroup
		for range writers {
			pages := w.away().pages() // another process
			all.Go(func() {
				for range each {
					_, err := CreateOrUpdate(t.Context(), pages, named("home"), func(p *page) error {
						p.Spec.Pages++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		got, err := w.pages().Get(t.Context(), "home")
		must(t, err)
		if got.Spec.Pages != writers*each {
			t.Errorf("%d increments, want %d", got.Spec.Pages, writers*each)
		}
	})
}

func TestCreateOrUpdateWritesNothingWhenNothingChanged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultCreated)
		p, err := pages.Get(t.Context(), "home")
		must(t, err)
		p.Status.Ready = true
		must(t, pages.UpdateStatus(t.Context(), p))
		before := w.lastSequence("pages")
		for range 5 {
			createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultNone)
		}
		// Nor does it for a change that is none on the wire.
		createOrUpdateIs(t, pages, named("home"), func(p *page) error {
			p.Labels = map[string]string{}
			return nil
		}, OperationResultNone)
		if after := w.lastSequence("pages"); after != before {
			t.Errorf("%d messages were written, want none", after-before)
		}
	})
}

// TestAMutateThatReplacesAllAnnotationsChangesNothing, where it sets what is there: else each write would wake the
// owner, which would write again.
func TestAMutateThatReplacesAllAnnotationsChangesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		replace := func(p *page) error {
			p.Annotations = map[string]string{"mine": "1"}
			return nil
		}
		createOrUpdateIs(t, pages, named("home"), replace, OperationResultCreated)
		createOrUpdateIs(t, pages, named("home"), replace, OperationResultNone)
		p, err := pages.Get(t.Context(), "home")
		must(t, err)
		p.Status.Ready = true
		must(t, pages.UpdateStatus(t.Context(), p))
		createOrUpdateIs(t, pages, named("home"), replace, OperationResultNone)
	})
}

func TestCreateOrUpdateDoesNotWriteStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultCreated)
		p, err := pages.Get(t.Context(), "home")
		must(t, err)
		p.Status.Note = "theirs"
		must(t, pages.UpdateStatus(t.Context(), p))
		documents, records := w.lastSequence("pages"), w.lastSequence("pages-status")
		createOrUpdateIs(t, pages, named("home"), func(p *page) error {
			p.Status.Note = "mine"
			return nil
		}, OperationResultNone)
		if w.lastSequence("pages") != documents || w.lastSequence("pages-status") != records {
			t.Error("a change of the status alone was written")
		}
		createOrUpdateIs(t, pages, named("home"), func(p *page) error {
			p.Spec.Title, p.Status.Note = "two", "mine"
			return nil
		}, OperationResultUpdated)
		p, err = pages.Get(t.Context(), "home")
		must(t, err)
		if p.Status.Note != "theirs" || p.Spec.Title != "two" {
			t.Errorf("spec %+v, status %+v", p.Spec, p.Status)
		}
	})
}

func TestCreateOrUpdateKeepsTheFieldsOfOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		theirs := newSite("home", "one")
		theirs.Spec.Pages = 7
		theirs.Labels = map[string]string{"team": "a"}
		theirs.Annotations = map[string]string{"note": "b"}
		must(t, w.away().pages().Create(t.Context(), theirs))
		natstest.Eventually(t, "the cache has it", func() bool {
			_, err := pages.Lister().Get("home")
			return err == nil
		})
		createOrUpdateIs(t, pages, named("home"), titled("two"), OperationResultUpdated)
		p, err := pages.Get(t.Context(), "home")
		must(t, err)
		if p.Spec.Title != "two" || p.Spec.Pages != 7 || p.Labels["team"] != "a" || p.Annotations["note"] != "b" {
			t.Errorf("spec %+v, labels %v, annotations %v", p.Spec, p.Labels, p.Annotations)
		}
	})
}

// TestCreateOrUpdateResolvesConflicts lets another writer come between read and write.
func TestCreateOrUpdateResolvesConflicts(t *testing.T) {
	for _, test := range []struct {
		name   string
		before bool // whether the page is there at first
		other  func(t *testing.T, others *entity.Client[*page])
		want   OperationResult
		pages  int
	}{
		{"updated meanwhile", true, func(t *testing.T, others *entity.Client[*page]) {
			must(t, others.Patch(t.Context(), "home", []byte(`{"spec":{"pages":7}}`)))
		}, OperationResultUpdated, 7},
		{"created meanwhile", false, func(t *testing.T, others *entity.Client[*page]) {
			p := newSite("home", "theirs")
			p.Spec.Pages = 7
			must(t, others.Create(t.Context(), p))
		}, OperationResultUpdated, 7},
		{"deleted meanwhile", true, func(t *testing.T, others *entity.Client[*page]) {
			must(t, others.Delete(t.Context(), "home"))
		}, OperationResultCreated, 0},
		{"made the same meanwhile", false, func(t *testing.T, others *entity.Client[*page]) {
			must(t, others.Create(t.Context(), newSite("home", "mine")))
		}, OperationResultNone, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				pages, others := w.pages(), w.away().pages()
				if test.before {
					createOrUpdateIs(t, pages, named("home"), titled("one"), OperationResultCreated)
				}
				called := 0
				createOrUpdateIs(t, pages, named("home"), func(p *page) error {
					if called++; called == 1 {
						test.other(t, others)
					}
					p.Spec.Title = "mine"
					return nil
				}, test.want)
				p, err := pages.Get(t.Context(), "home")
				must(t, err)
				if p.Spec.Title != "mine" || p.Spec.Pages != test.pages {
					t.Errorf("%+v, want our title and %d pages", p.Spec, test.pages)
				}
				if called != 2 {
					t.Errorf("mutate was called %d times, want twice", called)
				}
			})
		})
	}
}

func TestCreateOrUpdateRefusesAMutateThatRenamesOrFails(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := w.pages()
		rename := func(p *page) error { p.Name = "other"; return nil }
		move := func(p *page) error { p.Namespace = "other"; return nil }
		refused := errors.New("not today")
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "other"}, "thing", errors.New("of something else"))
		for range 2 { // first without the page, then with it
			for what, mutate := range map[string]func(*page) error{"renames": rename, "moves": move} {
				if _, err := CreateOrUpdate(t.Context(), pages, named("home"), mutate); err == nil {
					t.Errorf("a mutate that %s is no error", what)
				} else {
					says(t, err, "Page", `"home"`, "must not change name or namespace")
				}
			}
			if _, err := CreateOrUpdate(t.Context(), pages, named("home"),
				func(*page) error { return refused }); !errors.Is(err, refused) {
				t.Errorf("the error of mutate is lost: %v", err)
			}
			called := 0
			if _, err := CreateOrUpdate(t.Context(), pages, named("home"),
				func(*page) error { called++; return conflict }); !apierrors.IsConflict(err) || called != 1 {
				t.Errorf("a conflict that mutate returns: %v after %d calls, want it back after one", err, called)
			}
			createOrUpdateIs(t, pages, named("home"), titled("one"),
				map[bool]OperationResult{true: OperationResultNone,
					false: OperationResultCreated}[exists(t, pages, "home")])
		}
		if exists(t, pages, "other") {
			t.Error("the renamed one was written")
		}
	})
}
