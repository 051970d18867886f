package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestNewRefusesOneClientInTwoSources of a sort, and a primary that owns itself without saying so.
func TestNewRefusesOneClientInTwoSources(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages, themes := w.sites(), w.pages(), w.client("Theme", "themes")
		derived := func(client *entity.Client[*site], statusBucket string) *entity.Client[*site] {
			other, err := client.WithStatusBucket(t.Context(), statusBucket)
			must(t, err)
			t.Cleanup(other.Close)
			return other
		}
		sites2, pages2 := derived(sites, "sites-2"), derived(pages, "pages-2")
		none := func(context.Context, *site) ([]string, error) { return nil, nil }
		for name, test := range map[string]struct {
			opts []Option
			says string // "" if it is fine
		}{
			"owned twice": {
				[]Option{Owns(pages), Owns(pages)}, "Owns(Page) is given twice with one client",
			},
			"owned twice, once embedded": {
				[]Option{Owns(pages), Owns(&counted{IEntityClient: pages})}, "Owns(Page) is given twice with one client",
			},
			"watched twice": {
				[]Option{Watches(themes, none), Watches(themes, none)}, "Watches(Theme) is given twice",
			},
			"a primary owned":                          {[]Option{Owns(sites)}, "WithSelfOwnership()"},
			"that says so":                             {[]Option{Owns(sites), WithSelfOwnership()}, ""},
			"a primary watched":                        {[]Option{Watches(sites, none)}, ""},
			"owned and watched":                        {[]Option{Owns(pages), Watches(pages, none)}, ""},
			"owned through a derived client":           {[]Option{Owns(pages), Owns(pages2)}, ""},
			"watched through a derived client":         {[]Option{Watches(pages2, none), Watches(pages, none)}, ""},
			"a primary owned through a derived client": {[]Option{Owns(sites2)}, "WithSelfOwnership()"},
			"that the user has embedded":               {[]Option{Owns(&counted{IEntityClient: sites2})}, "WithSelfOwnership()"},
			"two clients, one kind":                    {[]Option{Owns(pages), Owns(w.client("Page", "more-pages"))}, ""},
		} {
			_, err := New("sites", sites, (&calls{}).reconciler(nil), test.opts...)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: error %v, want one that says %q", name, err, test.says)
			}
		}
	})
}

// TestNewRefusesANameThatCannotBeKept. Others stay what they are: a name may not change with a new version.
func TestNewRefusesANameThatCannotBeKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		for name, says := range map[string]string{
			"":                       "needs a name",
			strings.Repeat("ä", 65):  "has 130 bytes",
			"sites\xff":              "not UTF-8",
			"sites\n":                `contains '\n'`,
			"si\u202etes":            `contains '\u202e'`,
			"sites":                  "",
			"Sites of München/v1 #2": "",
			strings.Repeat("x", 128): "",
		} {
			_, err := New(name, sites, (&calls{}).reconciler(nil))
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%q: error %v, want one that says %q", name, err, says)
			}
		}
	})
}
