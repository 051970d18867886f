package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var buttonsIn = regexp.MustCompile(`<button [^>]*name="do" value="([a-z-]+)"[^>]* title="[^"]+"`)

// offers are the acts that a page has buttons for.
func (b *browser) offers(path string, texts ...string) string {
	b.Helper()
	var all []string
	for _, found := range buttonsIn.FindAllStringSubmatch(b.get(path, texts...), -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestThePageOffersWhatCanApply(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(true)
		for key, want := range map[string]string{
			"shop%2Fhome": "reconcile suspend", // is as it should be
			"shop%2Fcart": "reconcile suspend", // fails
			"shop%2Fblog": "suspend unpark",
			"lab%2Fold":   "resume",
			"lab%2Fnew":   "suspend", // is invalid: a reconcile would do nothing
		} {
			if got := b.offers("/kinds/Website.example.com/" + key); got != want {
				t.Errorf("of %s: %q, want %q", key, got, want)
			}
		}
		b.offers("/kinds/Website.example.com/shop%2Fblog", "Its reconcile failed for good")
		b.offers("/kinds/Website.example.com/lab%2Fnew", "Its document is invalid: mend it")
		w.put("websites", "lab.old", `{"metadata":{"annotations":{"nagi/suspend":"true",
			"nagi/suspend-reason":"moves to another host"}},"spec":{"host":"old.example"}}`)
		b.offers("/kinds/Website.example.com/lab%2Fold", "moves to another host")

		// What the document says counts, even if its controller has not seen it.
		w.put("websites", "shop.home", `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{}}`)
		if got := b.offers("/kinds/Website.example.com/shop%2Fhome"); got != "resume" {
			t.Errorf("of what was suspended just now: %q", got)
		}
		w.stopController()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := b.offers("/kinds/Website.example.com/shop%2Fcart", "once its controller answers"); got != "" {
			t.Errorf("while no controller answers: %q", got)
		}
	})
}

func TestThePageShowsAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		const at = "/kinds/Website.example.com/"
		b.get(at+"shop%2Fhome", `<h2 id="attempts-title">Attempts</h2>`, ">succeeded<", "Revision 1",
			"Earlier attempts are not recorded")
		b.get(at+"shop%2Fcart", ">failed<", " in a row", "the API of domains is away", "not recorded")
		b.get(at+"shop%2Fblog", ">failed for good<", "no such domain")
		b.get(at+"lab%2Fold", "No attempt is recorded")
		w.stopController()
		time.Sleep(10 * time.Second)
		b.get(at+"shop%2Fcart", ">Retrying<", "by its record")
	})
}
