package controller

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/record"
)

// homePage gives each site a page of its key, and tells what came of it.
func homePage(pages entity.IEntityClient[*page], outcome chan<- error) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		if req.Operations.Has(OperationDelete) {
			return Result{}, nil
		}
		_, err := CreateOrUpdate(ctx, pages, named(req.Key), titled("ours"))
		outcome <- err
		return Result{}, err
	}
}

func TestCreateOrUpdateSetsTheOwnerInsideAReconcile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		createOrUpdateIs(t, pages, named("outside"), titled("one"), OperationResultCreated)
		p, err := pages.Get(ctx, "outside")
		must(t, err)
		if kind, key, ok := OwnerOf(p); ok {
			t.Fatalf("outside a reconcile it was given an owner, %s %q", kind, key)
		}
		did := make(chan OperationResult, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			result, err := CreateOrUpdate(ctx, pages, named(req.Key), titled("one"))
			did <- result
			return Result{}, err
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("home", "one")))
		if got := receive(t, "the reconcile", did); got != OperationResultCreated {
			t.Errorf("it was %q, want %q", got, OperationResultCreated)
		}
		p, err = pages.Get(ctx, "home")
		must(t, err)
		kind, owner, ok := OwnerOf(p)
		ours := ok && kind == "Site" && owner == "home" && entity.InstanceOf(p) == c.engine.InstanceID()
		if !ours || p.Labels[OwnerKeyLabel] != "home" {
			t.Errorf("owner %s %q of instance %q, labels %v", kind, owner, entity.InstanceOf(p), p.Labels)
		}
		c.Enqueue("home", OperationManual)
		if got := receive(t, "the next reconcile", did); got != OperationResultNone {
			t.Errorf("it was %q the second time, want %q", got, OperationResultNone)
		}
	})
}

// TestCreateOrUpdateTakesOverNothingThatNamesNoOwner: a document that a person put is not changed, not stripped of
// what the Go type does not know, and not deleted with the primary of its name.
func TestCreateOrUpdateTakesOverNothingThatNamesNoOwner(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		w.put("pages", "home", `{"spec":{"title":"theirs"},"unknown":{"by":"hand"}}`)
		theirs := w.raw("pages", "home")
		events, outcome := record.NewFakeRecorder(1000), make(chan error, 1000)
		c, err := New("sites", sites, homePage(pages, outcome), Owns(pages), WithEventRecorder(butLease{events}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		err = receive(t, "the reconcile", outcome)
		exists, ok := errors.AsType[*ResourceExistsError](err)
		if !ok || exists.Kind != "Page" || exists.Key != "home" || exists.OwnerKey != "" {
			t.Fatalf("%v, want a ResourceExistsError of the page", err)
		}
		says(t, err, `Resource "home" already exists`, "Page", "names no owner", "use another name",
			OwnerkindAnnotation, OwnerKeyAnnotation)
		if event := receive(t, "the event", events.Events); !strings.Contains(event,
			"Warning "+ReasonResourceExists) {
			t.Errorf("the event is %q, want %s", event, ReasonResourceExists)
		}
		eventuallyReason(t, sites, "home", entity.ReasonRetrying)
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "the site is torn down", noRecord(t, sites, "home"))
		if now := w.raw("pages", "home"); !reflect.DeepEqual(now, theirs) {
			t.Errorf("the document is %v, want it as it was put: %v", now, theirs)
		}
	})
}

// TestAnEntityIsThePrimarysThatItsAnnotationsOrItsLabelsAloneName. Annotations are the stronger.
func TestAnEntityIsThePrimarysThatItsAnnotationsOrItsLabelsAloneName(t *testing.T) {
	const ours = `"kumori/ownerkind":"Site","kumori/ownerkey":"home"`
	const others = `"kumori/ownerkind":"Site","kumori/ownerkey":"another"`
	for name, test := range map[string]struct {
		metadata string
		owned    bool
		owner    string // whom the error names
	}{
		"annotations":                    {`"annotations":{` + ours + `}`, true, ""},
		"annotations, labels of another": {`"annotations":{` + ours + `},"labels":{` + others + `}`, true, ""},
		"annotations of another":         {`"annotations":{` + others + `}`, false, "another"},
		"annotations of another, our labels": {`"annotations":{` + others + `},"labels":{` + ours + `}`, false,
			"another"},
		"annotations of another installation": {`"annotations":{` + ours + `,"nagi/ownerinstance":"other"}`, false,
			"home"},
		"labels alone":            {`"labels":{` + ours + `}`, true, ""},
		"labels of another alone": {`"labels":{` + others + `}`, false, "another"},
		"labels of another installation, alone": {`"labels":{` + ours + `,"nagi/ownerinstance":"other"}`, false,
			"home"},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages := w.sites(), w.pages()
				w.put("pages", "home", `{"metadata":{`+test.metadata+`},"spec":{"title":"theirs"}}`)
				outcome := make(chan error, 1000)
				c, err := New("sites", sites, homePage(pages, outcome), Owns(pages))
				must(t, err)
				w.run(c)
				must(t, sites.Create(t.Context(), newSite("home", "")))
				err = receive(t, "the reconcile", outcome)
				owned, refused := errors.AsType[*AlreadyOwnedError](err)
				switch {
				case test.owned && err != nil:
					t.Errorf("it is refused: %v", err)
				case !test.owned && !refused:
					t.Errorf("%v, want an AlreadyOwnedError", err)
				case !test.owned && (owned.OwnerKey != test.owner || owned.WantedKey != "home"):
					t.Errorf("the error says %+v, want the owner %q", owned, test.owner)
				}
				p, err := pages.Get(t.Context(), "home")
				must(t, err)
				if ours := p.Spec.Title == "ours"; ours != test.owned {
					t.Errorf("its title is %q", p.Spec.Title)
				}
			})
		})
	}
}

// TestAnEntityThatIsHandedOverIsTaken as soon as its annotations name the primary, not when the next retry is due.
func TestAnEntityThatIsHandedOverIsTaken(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		w.put("pages", "home", `{"spec":{"title":"theirs"}}`)
		outcome := make(chan error, 1000)
		c, err := New("sites", sites, homePage(pages, outcome), Owns(pages), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		if err := receive(t, "the reconcile", outcome); err == nil {
			t.Fatal("what names no owner was taken over")
		}
		w.put("pages", "home",
			`{"metadata":{"annotations":{"kumori/ownerkind":"Site","kumori/ownerkey":"home"}},"spec":{"title":"theirs"}}`)
		must(t, receive(t, "the reconcile after the hand-over", outcome))
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
	})
}

// lateClient has a cache that shows an entity as it was.
type lateClient struct {
	entity.IEntityClient[*page]
	was *page
}

func (c lateClient) Lister() entity.Lister[*page] { return lateLister{c.IEntityClient.Lister(), c.was} }

type lateLister struct {
	entity.Lister[*page]
	was *page
}

func (l lateLister) Get(string) (*page, error) { return l.was.DeepCopyObject().(*page), nil }

// TestOnlyWhatTheLeaderHasIsRefused: a cache that is behind may show an entity without an owner, or with its last
// one.
func TestOnlyWhatTheLeaderHasIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for name, was := range map[string]*page{"no owner": named("home"), "another": foreignPage("home", "home")} {
			w := newWorld(t)
			sites, pages := w.sites(), w.pages()
			outcome := make(chan error, 1000)
			c, err := New("sites", sites, homePage(lateClient{pages, was}, outcome))
			must(t, err)
			w.put("pages", "home", `{"metadata":{"annotations":{"kumori/ownerkind":"Site","kumori/ownerkey":"home"}}}`)
			r := w.run(c)
			must(t, sites.Create(t.Context(), newSite("home", "")))
			if err := receive(t, "the reconcile", outcome); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			r.halt()
		}
	})
}

func TestCreateOrUpdateRefusesWhatAnotherPrimaryOwns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		ctx := t.Context()
		outcome := make(chan error, 10)
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			_, err := CreateOrUpdate(ctx, pages, named("shared"), titled(req.Key))
			outcome <- err
			return Result{}, nil
		}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(ctx, newSite("first", "one")))
		must(t, receive(t, "the first reconcile", outcome))
		must(t, sites.Create(ctx, newSite("second", "one")))
		err = receive(t, "the second reconcile", outcome)
		owned, ok := errors.AsType[*AlreadyOwnedError](err)
		if !ok || owned.OwnerKey != "first" || owned.WantedKey != "second" {
			t.Fatalf("a page of another site was taken over: %v", err)
		}
		p, err := pages.Get(ctx, "shared")
		must(t, err)
		if p.Spec.Title != "first" {
			t.Errorf("it was written all the same: %+v", p.Spec)
		}
	})
}
