package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
)

func TestDeleteSaysWhatGoesFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.with("", 0, "delete", "websites/shop/home", "--show")
		w.same(r.out, "DOCUMENT                        GOES WITH\nWebsite.example.com/shop/home   \n"+
			"pages/shop/home-0               Website.example.com/shop/home\n"+
			"pages/shop/home-1               Website.example.com/shop/home\n")
		if w.value("websites", "shop.home") == "" {
			t.Fatal("--show has deleted it")
		}
		r = w.with("", 0, "delete", "websites", "shop/home", "--wait")
		w.same(r.out, "Website.example.com/shop/home deleted\n")
		w.same(r.err, "What is owned goes, too: 2 in pages.\n")
		if w.value("websites", "shop.home") != "" || w.value("pages", "shop.home-0") != "" {
			t.Error("--wait did not wait until the pages are gone")
		}
		if r := w.with("", 3, "delete", "websites/shop/home"); !strings.Contains(r.err, "there is no Website.example.com/shop/home") {
			t.Error(r.err)
		}
		w.with("", 0, "delete", "websites/shop/home", "--ignore-not-found")
	})
}

// TestDeleteCountsWhatOwnersOfOneIndexValueOwn: the values of the index by owner are hashes, which owners share.
func TestDeleteCountsWhatOwnersOfOneIndexValueOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		byValue, keys := map[string]string{}, []string(nil)
		for i := 0; keys == nil; i++ {
			key := fmt.Sprintf("lab/twin-%d", i)
			value := entity.OwnerIndexValue("Website", key)
			if other, shared := byValue[value]; shared {
				keys = []string{key, other}
			}
			byValue[value] = key
		}
		for _, key := range keys {
			w.put("websites", strings.Replace(key, "/", ".", 1), `{"spec":{"host":"twin.example","pages":1}}`)
			w.with("", 0, "wait", "websites/"+key)
		}
		r := w.with("", 0, "delete", "websites", keys[0], keys[1], "--show")
		for _, key := range keys {
			if !strings.Contains(r.out, "pages/"+key+"-0") {
				t.Errorf("the page of %s is not counted:\n%s", key, r.out)
			}
		}
	})
}

func TestDeleteOfSeveralIsConfirmed(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.with("", 2, "delete", "websites", "shop/home", "shop/blog")
		if !strings.Contains(r.err, "2 documents: --yes deletes without asking") {
			t.Error(r.err)
		}
		w.with("", 2, "delete", "websites", "-n", "shop", "-l", "tier=gold")
		w.with("", 5, "delete", "websites", "-n", "shop", "--all", "--expect", "2")
		w.with("", 2, "delete", "websites", "-n", "shop")
		w.with("", 2, "delete", "websites", "-l", "a=(")
		w.with("", 5, "delete", "websites", "-l", "tier=none", "--expect", "1")
		for _, key := range []string{"shop.home", "shop.blog", "shop.cart"} {
			if w.value("websites", key) == "" {
				t.Fatalf("%s is gone", key)
			}
		}
		w.same(w.ok("delete", "websites", "-n", "shop", "-l", "tier in (tin,gold)", "--yes", "-o", "name"),
			"Website.example.com/shop/blog\nWebsite.example.com/shop/home\n")
		w.same(w.with(homeFile+"---"+strings.ReplaceAll(homeFile, "home", "cart"), 0, "delete", "-f", "-",
			"--ignore-not-found").out, "Website.example.com/shop/cart deleted\n")
	})
}

func TestDeleteAsksInATerminal(t *testing.T) {
	inWorld(t, func(w *world) {
		if r := w.typed("no\n", "delete", "websites", "-n", "shop", "--all"); r.code != 5 {
			t.Error(r)
		}
		r := w.typed("3\n", "delete", "websites", "-n", "shop", "--all")
		if r.code != 0 || !strings.Contains(r.err, "These go:\n  Website.example.com/shop/blog\n"+
			"  Website.example.com/shop/cart\n  Website.example.com/shop/home\nDelete 3 documents? Type 3 to go on: ") {
			t.Error(r)
		}
		w.with("", 2, "delete", "websites", "-n", "", "--all", "--yes") // a script's variable that is empty
		if w.value("websites", "lab.old") == "" {
			t.Error("-n without a namespace deletes those of all")
		}
	})
}

func TestAnInterruptEndsTheQuestion(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close() // ends who reads
	asked := &tool{Env: Env{Streams: out.Streams{In: r, Out: io.Discard, Err: io.Discard, Interactive: true}}}
	interrupt()
	if err := asked.confirm(ctx, sure{expect: -1}, 1, "1 document"); err == nil ||
		!strings.Contains(err.Error(), "interrupted") {
		t.Errorf("it says %v", err)
	}
}

func TestAPatchOfWhatHasNoKindOfTextIsNoPanic(t *testing.T) {
	odd := map[string]any{"kind": map[string]any{"a": "b"}}
	if err := keepsPlace(odd, deepCopy(odd)); err != nil {
		t.Error(err)
	}
}

func TestDeleteTellsOfOrphans(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("websites", "shop.home",
			`{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}},"spec":{"host":"home.example","pages":2}}`)
		w.with("", 0, "wait", "websites/shop/home")
		r := w.with("", 0, "delete", "websites/shop/home", "--wait")
		w.same(r.err, "What Website.example.com/shop/home owns stays: nagi/deletion-policy is orphan.\n")
		if w.value("pages", "shop.home-0") == "" {
			t.Error("its page is gone")
		}
	})
}

func TestWaitEndsWithWhatItWaitsFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.same(w.ok("wait", "websites/shop/home"), "Website.example.com/shop/home reconciled\n")
		for _, c := range []struct {
			code int
			says string
			args []string
		}{
			{4, "no such domain", []string{"websites/shop/blog"}},
			{4, "the API of domains is away", []string{"websites/shop/cart", "--wait-timeout", "2s"}},
			{4, "Suspended", []string{"websites/lab/old"}},
			{4, "spec.pages", []string{"websites", "lab/new"}},
			{3, "there is no Website.example.com/shop/none", []string{"websites/shop/none"}},
			{3, "there is no", []string{"websites/shop/none", "--for", "condition=Ready"}},
			{0, "", []string{"websites/shop/none", "--for", "deleted"}},
			{0, "", []string{"websites/shop/blog", "--for", "condition=Reconciled=false"}},
			{4, "Ready is True", []string{"websites/shop/home", "--for", "condition=Ready", "--wait-timeout", "1s"}},
			{0, "", []string{"websites/shop/home", "--for", "jsonpath={.status.url}=https://home.example"}},
			{0, "", []string{"websites/shop/home", "--for", "jsonpath=$.record.conditions[?(@.type=='Reconciled')].status=True"}},
			{4, "it finds \"https://home.example\"", []string{"websites/shop/home", "--for", "jsonpath={.status.url}=x", "--wait-timeout", "1s"}},
			{4, "it finds nothing", []string{"websites/shop/home", "--for", "jsonpath=$.status.x", "--wait-timeout", "1s"}},
			{4, "its document is there", []string{"websites/shop/home", "--for", "deleted", "--wait-timeout", "1s"}},
			{2, "--for is", []string{"websites/shop/home", "--for", "ready"}},
			{2, "jsonpath", []string{"websites/shop/home", "--for", "jsonpath=x"}},
		} {
			r := w.nagi(append([]string{"wait"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.err, c.says) {
				t.Errorf("wait %v: exit code %d, want %d, with %q\n%s", c.args, r.code, c.code, c.says, r.err)
			}
		}
	})
}

func TestWaitHearsOfChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		done := make(chan ran)
		go func() {
			done <- w.nagi("wait", "websites/shop/cart", "--for", "jsonpath={.status.url}=https://cart.example")
		}()
		go func() { done <- w.nagi("wait", "websites/shop/blog", "--for", "jsonpath={.spec.host}=blog.example") }()
		w.put("websites", "shop.cart", `{"spec":{"host":"cart.example"}}`)
		w.put("websites", "shop.blog", `{"spec":{"host":"blog.example"}}`)
		for range 2 {
			if r := <-done; r.code != 0 {
				t.Error(r)
			}
		}
		w.stopController()
		w.put("websites", "shop.cart", `{"spec":{"host":"cart2.example"}}`)
		r := w.with("", 4, "wait", "websites/shop/cart", "--wait-timeout", "3s")
		if !strings.Contains(r.err, "its record is Synced, at revision") {
			t.Error(r.err)
		}
	})
}
