package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/record"
)

// TestASecondaryThatIsWrittenWithoutAnOwnerIsWarnedAbout, once for each source, by whatever write of its client.
func TestASecondaryThatIsWrittenWithoutAnOwnerIsWarnedAbout(t *testing.T) {
	for name, write := range map[string]func(context.Context, *entity.Client[*page], string) error{
		"Create": func(ctx context.Context, pages *entity.Client[*page], name string) error {
			return pages.Create(ctx, newPage(name, "new"))
		},
		"Update": func(ctx context.Context, pages *entity.Client[*page], name string) error {
			p, err := pages.Get(ctx, "standing")
			if err != nil {
				return err
			}
			p.Spec.Title = name
			return pages.Update(ctx, p)
		},
		"Patch": func(ctx context.Context, pages *entity.Client[*page], name string) error {
			return pages.Patch(ctx, "standing", fmt.Appendf(nil, `{"spec":{"title":%q}}`, name))
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				sites, pages, routes, themes := w.sites(), w.pages(), w.client("Route", "routes"), w.client("Theme", "themes")
				for _, client := range []*entity.Client[*page]{pages, routes, themes} {
					must(t, client.Create(t.Context(), newPage("standing", "")))
				}
				events := record.NewFakeRecorder(100)
				var log logLines
				c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
					for n := range 3 {
						for _, client := range []*entity.Client[*page]{themes, pages, routes} { // themes are not owned
							if err := write(ctx, client, fmt.Sprint(req.Key, "-", n)); err != nil {
								return Result{}, TerminalError(err)
							}
						}
					}
					return Result{}, nil
				}), Owns(pages), Owns(routes), Watches(themes,
					func(context.Context, *theme) ([]string, error) { return nil, nil }), WithEventRecorder(butLease{events}))
				must(t, err)
				w.run(logging{c, log.logger()})
				for _, key := range []string{"home", "shop"} {
					must(t, sites.Create(t.Context(), newSite(key, "")))
					eventuallyReason(t, sites, key, entity.ReasonSynced)
				}
				close(events.Events)
				var told []string
				for event := range events.Events {
					told = append(told, event)
				}
				if len(told) != 2 {
					t.Fatalf("it is told %q, want once for each source", told)
				}
				lines := log.with("Secondary written without an owner: write it with CreateOrUpdate, " +
					"or name its owner before with SetOwner")
				if len(lines) != 2 || lines[0]["secondary"] != "Page" || lines[1]["secondary"] != "Route" {
					t.Errorf("the log says %v", lines)
				}
				for n, kind := range []string{"Page", "Route"} {
					for _, word := range []string{"Warning " + ReasonNoOwner + " " + kind, "SetOwner", "CreateOrUpdate"} {
						if !strings.Contains(told[n], word) {
							t.Errorf("the event does not say %q: %q", word, told[n])
						}
					}
				}
			})
		})
	}
}

// TestWhatHasAnOwnerOrNeedsNoneIsNotWarnedAbout: what names one, what CreateOrUpdate writes, the primary itself where
// its bucket has its secondaries too, and all that is written outside of the reconcile.
func TestWhatHasAnOwnerOrNeedsNoneIsNotWarnedAbout(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		events := record.NewFakeRecorder(100)
		var c *Controller[*site]
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			s, err := sites.Lister().Get(req.Key)
			if err != nil || s.Spec.Title == "seen" {
				return Result{}, err
			}
			named := newPage("named", "")
			c.SetOwner(named, req.Key)
			_, made := CreateOrUpdate(ctx, pages, newPage("made", ""), titled("one"))
			for _, err := range []error{
				pages.Create(ctx, named), made, pages.Create(t.Context(), newPage("outside", "")),
				pages.Delete(ctx, "outside"),
			} {
				if err != nil {
					return Result{}, TerminalError(err)
				}
			}
			s.Spec.Title = "seen"
			return Result{}, sites.Update(ctx, s)
		}), Owns(pages), Owns(sites), WithSelfOwnership(), WithEventRecorder(butLease{events}))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it has reconciled", func() bool {
			s, err := sites.Get(t.Context(), "home")
			return err == nil && s.Spec.Title == "seen"
		})
		eventuallyReason(t, sites, "home", entity.ReasonSynced)
		select {
		case event := <-events.Events:
			t.Errorf("it is told %q", event)
		default:
		}
	})
}
