package controller

import (
	"context"
	"strings"
	"testing"
)

// TestNewRefusesOneClientInTwoSources of a sort, and a primary that owns itself without saying so.
func TestNewRefusesOneClientInTwoSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sites, pages, themes := w.sites(), w.pages(), w.client("Theme", "themes")
	none := func(context.Context, *site) ([]string, error) { return nil, nil }
	for name, test := range map[string]struct {
		opts []Option
		says string // "" if it is fine
	}{
		"owned twice":           {[]Option{Owns(pages), Owns(pages)}, "Owns(Page) is given twice with one client"},
		"watched twice":         {[]Option{Watches(themes, none), Watches(themes, none)}, "Watches(Theme) is given twice"},
		"a primary owned":       {[]Option{Owns(sites)}, "WithSelfOwnership()"},
		"that says so":          {[]Option{Owns(sites), WithSelfOwnership()}, ""},
		"a primary watched":     {[]Option{Watches(sites, none)}, ""},
		"owned and watched":     {[]Option{Owns(pages), Watches(pages, none)}, ""},
		"two clients, one kind": {[]Option{Owns(pages), Owns(w.client("Page", "more-pages"))}, ""},
	} {
		_, err := New("sites", sites, (&calls{}).reconciler(nil), test.opts...)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, test.says)
		}
	}
}

// TestNewRefusesANameThatCannotBeKept. Others stay what they are: a name may not change with a new version.
func TestNewRefusesANameThatCannotBeKept(t *testing.T) {
	t.Parallel()
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
}
