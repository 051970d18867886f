package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	homeOnPage  = "/kinds/Website.example.com/shop%2Fhome"
	deleteOfOne = "/delete/Website.example.com/shop%2Fhome"
)

var revisionIn = regexp.MustCompile(`name="revision" value="(\d+)"`)

// deletes sends the form of a page that deletes, with a count that is typed.
func (b *browser) deletes(body, count string, change func(form url.Values)) *httptest.ResponseRecorder {
	b.Helper()
	token, revision := tokenIn.FindStringSubmatch(body), revisionIn.FindStringSubmatch(body)
	if token == nil || revision == nil {
		b.Fatalf("there is no form:\n%s", body)
	}
	form := url.Values{"token": {token[1]}, "do": {"delete"}, "kind": {"Website.example.com"}, "key": {"shop/home"},
		"revision": {revision[1]}, "count": {count}}
	if change != nil {
		change(form)
	}
	return b.ask("POST", "/act", form.Encode(), nil)
}

func TestThePageDeletesByCount(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(true)
		b.get(homeOnPage, `<a href="`+deleteOfOne+`"`)
		body := b.get(deleteOfOne, "<h1>Delete Website.example.com/shop/home?</h1>", "3 documents go", "pages/shop/home-0",
			"pages/shop/home-1")
		for count, code := range map[string]int{
			"": http.StatusBadRequest, "two": http.StatusBadRequest, "2": http.StatusConflict, "4": http.StatusConflict,
		} {
			got := b.deletes(body, count, nil)
			if got.Code != code || w.value("websites", "shop.home") == "" {
				t.Errorf("%q is typed: %d %s", count, got.Code, got.Body)
			}
			if !strings.Contains(got.Body.String(), `<a href="`+deleteOfOne+`">Back`) {
				t.Errorf("%q is typed, and no way leads back:\n%s", count, got.Body)
			}
		}
		got := b.deletes(body, "3", func(form url.Values) { form.Del("token") })
		if got.Code != http.StatusForbidden || w.value("websites", "shop.home") == "" {
			t.Errorf("without a token: %d", got.Code)
		}
		for _, revision := range []string{"", "0", "x"} {
			got := b.deletes(body, "3", func(form url.Values) { form.Set("revision", revision) })
			if got.Code != http.StatusBadRequest || w.value("websites", "shop.home") == "" {
				t.Errorf("of revision %q: %d", revision, got.Code)
			}
		}
		got = b.deletes(body, "3", nil)
		const after = "/kinds/Website.example.com?did=delete"
		if at := got.Header().Get("Location"); got.Code != http.StatusSeeOther || at != after ||
			w.value("websites", "shop.home") != "" {
			t.Errorf("with the count: %d, to %q\n%s", got.Code, at, got.Body)
		}
		b.get(after, "It is deleted")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.value("pages", "shop.home-0") != "" {
			t.Error("what it owned stays")
		}
		if got := b.ask("GET", deleteOfOne, "", nil); got.Code != http.StatusNotFound {
			t.Errorf("of what is gone: %d", got.Code)
		}
	})
}

func TestThePageDeletesNoLaterRevision(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(true)
		body := b.get(deleteOfOne)
		w.put("websites", "shop.home", `{"spec":{"host":"new.example","pages":2}}`)
		time.Sleep(10 * time.Second)
		got := b.deletes(body, "3", nil)
		if got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "has changed since") ||
			w.value("websites", "shop.home") == "" {
			t.Errorf("what has changed: %d %s", got.Code, got.Body)
		}
		body = b.get(deleteOfOne)
		w.put("websites", "shop.home", `{"spec":{"host":"new.example","pages":5}}`)
		time.Sleep(10 * time.Second)
		got = b.deletes(body, "3", nil)
		if got.Code != http.StatusConflict || !strings.Contains(got.Body.String(), "6 documents would go") {
			t.Errorf("what owns more: %d %s", got.Code, got.Body)
		}
	})
}

func TestThePageSaysWhatStaysWhenItDeletes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.home",
			`{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}},"spec":{"host":"home.example","pages":2}}`)
		time.Sleep(10 * time.Second)
		b := w.ui(true)
		body := b.get(deleteOfOne, "1 document goes", "What it owns stays")
		if strings.Contains(body, "pages/shop/home-0") {
			t.Error("what stays is among what goes")
		}
		if got := b.deletes(body, "1", nil); got.Code != http.StatusSeeOther {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.value("pages", "shop.home-0") == "" {
			t.Error("what it owned is gone")
		}
	})
}

func TestAReadOnlyPageDeletesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.ui(false)
		if strings.Contains(b.get(homeOnPage), "/delete/") {
			t.Error("it leads to a delete")
		}
		if got := b.ask("GET", deleteOfOne, "", nil); got.Code != http.StatusForbidden {
			t.Errorf("the form is shown: %d", got.Code)
		}
		form := "do=delete&kind=Website.example.com&key=shop%2Fhome&revision=1&count=3&token="
		if got := b.ask("POST", "/act", form, nil); got.Code != http.StatusForbidden ||
			w.value("websites", "shop.home") == "" {
			t.Errorf("it deletes: %d", got.Code)
		}
	})
}

// TestThePageAndTheToolCountAlikeWhatGoes: not what another installation owns, nor what stays by its policy or may stay by
// its marks, and each document once, also in a circle.
func TestThePageAndTheToolCountAlikeWhatGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.family()
		marks := `"labels":{"kumori/ownerkind":"Garden","kumori/ownerkey":"south"},"annotations":{"kumori/ownerkind":"Garden",` +
			`"kumori/ownerkey":"north","nagi/ownerinstance":"here"}`
		w.put("beds", "torn", `{"metadata":{`+marks+`}}`)
		w.put("beds", "kept", `{"metadata":{"annotations":{"kumori/ownerkind":"Garden","kumori/ownerkey":"north",
			"nagi/ownerinstance":"here","nagi/deletion-policy":"orphan"}}}`)
		w.put("plants", "stays", `{"metadata":{"annotations":{"kumori/ownerkind":"Bed","kumori/ownerkey":"kept"}}}`)
		body := w.ui(true).get("/delete/Garden/north", "4 documents go", "Bed/east", "Bed/kept", "plants/rose",
			"Not counted", "Bed/torn")
		var shown struct{ Cascade cascade }
		w.must(json.Unmarshal([]byte(w.ok("delete", "Garden/north", "--show", "-o", "json")), &shown))
		var names []string
		for _, d := range shown.Cascade.Documents {
			names = append(names, d.Kind+"/"+d.Key+" of "+d.Owner)
		}
		want := []string{"Bed/east of Garden/north", "Bed/kept of Garden/north", "plants/rose of Bed/east"}
		if !slices.Equal(names, want) || len(shown.Cascade.MayStay) != 1 || !strings.Contains(shown.Cascade.MayStay[0], "Bed/torn") {
			t.Errorf("the tool: %q and %q, want %q. The page:\n%s", names, shown.Cascade.MayStay, want, body)
		}
		for _, hidden := range []string{"elsewhere", "plants/stays"} {
			if strings.Contains(body, hidden) {
				t.Errorf("the page says that %s goes:\n%s", hidden, body)
			}
		}
	})
}
