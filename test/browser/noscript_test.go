package browser

import (
	"strings"

	"github.com/chromedp/chromedp"
)

type css = chromedp.CSS

// withoutScript looks at each view in a browser that runs no scripts. The search works all the same.
func withoutScript(b *tab) {
	b.script(false)
	for path, texts := range map[string][]string{
		"/": {"websites", "parked", "As of",
			"The brake of notes holds 14 deletes"},
		"/kinds":                                 {"Website.example.com", "v1.2.3"},
		"/kinds/Website.example.com":             {"many/site-00", "Synced", "Next page", "of 66 that fit"},
		"/kinds/Website.example.com/shop%2Fhome": {"https://home.example", "Synced", "Why it is where it is", "home-0"},
		"/waits":                                 {"no such domain", "keys are not well"},
		"/brake/notes": {"note-00", "14 documents can be put back",
			"How many deletes to let go"},
	} {
		b.open(path)
		b.has(path, texts...)
	}
	b.open("/kinds/Website.example.com")
	b.run(chromedp.SendKeys(css("#q"), "site-0"), chromedp.Click(css(".filter button")),
		chromedp.WaitVisible(css(`#q[value="site-0"]`)))
	b.has("the search", "1 to 10 of 10 that fit, of 66 in all")
	b.run(chromedp.Click(css(`a[href$="many%2Fsite-09"]`)), chromedp.WaitVisible(css("#writing")))
	b.has("a row", "site-09.example")
}

// has wants texts to be seen.
func (b *tab) has(what string, texts ...string) {
	b.Helper()
	says := b.says()
	for _, text := range texts {
		if !strings.Contains(says, text) {
			b.Errorf("%s does not say %q:\n%s", what, text, says)
		}
	}
}

// offersNoActs: a page that may not act has no form that does, and says so.
func offersNoActs(b *tab) {
	for _, v := range views {
		b.open(v.path)
		if forms := b.texts(`[...document.querySelectorAll("form[method=post], [name=token], [name=do]")].map((e) => e.outerHTML)`); len(forms) > 0 {
			b.Errorf("%s may not act, and has %s", v.path, strings.Join(forms, "\n"))
		}
	}
	b.heard() // one of them is missing
}
