package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
)

func TestKeysAreReconciledAndUnparkedByTheirController(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runs(0, []string{"reconcile", "websites/shop/home", "Website/shop/cart"},
			"Website.example.com/shop/home is reconciled by controller websites\n",
			"Website.example.com/shop/cart is reconciled by controller websites\n")
		w.runs(5, []string{"reconcile", "websites/shop/blog"}, "unpark")
		w.runs(0, []string{"unpark", "websites", "blog", "-n", "shop"}, "shop/blog is tried again")
		w.runs(5, []string{"unpark", "websites/shop/home"}, "is not parked")
		w.runs(3, []string{"reconcile", "websites/shop/none"}, "neither a document nor a record")
		w.runs(2, []string{"reconcile", "websites/none"}, "namespace/name")
		w.runs(2, []string{"reconcile", "websites"}, "a key is needed")
		w.runs(0, []string{"resync", "websites"}, "4 keys are reconciled by controller websites")
		w.runs(0, []string{"resync", "websites", "-n", "lab"}, "1 key is reconciled")
	})
}

// TestOneKeyThatIsRefusedKeepsNoOtherFromIt: those that can be are done, and the code is that of the first refusal.
func TestOneKeyThatIsRefusedKeepsNoOtherFromIt(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.nagiWith("websites/shop/none\n\nWebsite.example.com/shop/home\n", "reconcile", "-", "-o", "json")
		var all []struct {
			Key, Says, Controller string
			Done                  bool
		}
		w.must(json.Unmarshal([]byte(r.out), &all))
		if r.code != 3 || len(all) != 2 || all[0].Done || all[0].Says == "" || !all[1].Done || all[1].Controller != "websites" {
			t.Errorf("%+v: %s", r, r.out)
		}
	})
}

// TestMoreKeysThanARateTakesAreAllDone: a process takes five acts a second.
func TestMoreKeysThanARateTakesAreAllDone(t *testing.T) {
	inWorld(t, func(w *world) {
		lines := strings.Repeat("websites/shop/home\n", 40)
		r := w.nagiWith(lines, "reconcile", "-")
		if n := strings.Count(r.out, "is reconciled"); r.code != 0 || n != 40 {
			t.Errorf("exit code %d, %d of 40 are reconciled\n%s", r.code, n, r.err)
		}
	})
}

func TestADocumentIsSuspendedWithAReasonThatIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runs(0, []string{"suspend", "websites/shop/home", "--reason", "moves to \x1b[31mthe new region"}, "is suspended\n")
		document := w.value("websites", "shop.home")
		for _, part := range []string{`"nagi/suspend":"true"`, `"nagi/suspend-reason":"moves to`, `"password":"hunter2"`} {
			if !strings.Contains(document, part) {
				t.Errorf("the document lacks %s: %s", part, document)
			}
		}
		w.runs(0, []string{"suspend", "websites/shop/home"}, "was suspended already")
		w.runs(0, []string{"resume", "websites/shop/home"}, "is resumed")
		if document := w.value("websites", "shop.home"); strings.Contains(document, "nagi/") {
			t.Errorf("something stays: %s", document)
		}
		w.runs(0, []string{"resume", "websites/shop/home"}, "was not suspended")
		w.runs(3, []string{"suspend", "websites/shop/none"}, "not found")
	})
}

// TestADocumentIsSuspendedThoughNoControllerAnswers, with the rights of the user, and every member as it was.
func TestADocumentIsSuspendedThoughNoControllerAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		const more = `{"spec":{"host":"home.example","more":9007199254740993},"other":[1.50]}`
		w.put("websites", "shop.more", more)
		w.stopController()
		w.runs(7, []string{"reconcile", "websites/shop/more"}, "controller \"websites\" is not asked")
		w.runs(0, []string{"suspend", "websites/shop/more", "--reason", "INC-7"}, "is suspended (written with your own rights")
		document := w.value("websites", "shop.more")
		for _, part := range []string{`9007199254740993`, `[1.50]`, `"nagi/suspend-reason":"INC-7"`, `"nagi/suspend":"true"`} {
			if !strings.Contains(document, part) {
				t.Errorf("the document lacks %s: %s", part, document)
			}
		}
		w.runs(0, []string{"resume", "websites/shop/more"}, "is resumed (written with your own rights")
	})
}

// TestAPlainBucketIsSuspendedWithoutARegistry, which needs no controller.
func TestAPlainBucketIsSuspendedWithoutARegistry(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("pages", "shop.own", `{"spec":{"title":"mine"}}`)
		w.runs(0, []string{"suspend", "--bucket", "pages", "--status-bucket=-", "--namespaced", "shop/own"}, "is suspended")
		if document := w.value("pages", "shop.own"); !strings.Contains(document, `"nagi/suspend":"true"`) {
			t.Error(document)
		}
		w.runs(0, []string{"reconcile", "--bucket", "websites", "--namespaced", "--controller", "websites", "shop/home"},
			"shop/home is reconciled")
	})
}

// TestWhoMayActInOneNamespaceActsThere, and who may only read changes nothing: both are told at once.
func TestWhoMayActInOneNamespaceActsThere(t *testing.T) {
	kinds, err := registry.Permissions(entity.RoleReader, entity.WithInboxPrefix("_INBOX_operator"))
	if err != nil {
		t.Fatal(err)
	}
	shop := kinds.Join(entity.PermissionSet{Publish: []string{"nagi.*.read.*.shop", "nagi.*.act.*.shop"}})
	documents, err := entity.Permissions(entity.Config{Bucket: "websites", Namespaced: true}, entity.RoleReader,
		entity.WithCommandLine())
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]entity.PermissionSet{"shop": shop, "reader": kinds.Join(documents)}
	inWorldWithUsers(t, sets, func(w *world) {
		began := time.Now()
		w.runs(0, as("shop", "reconcile", "websites/shop/home"), "is reconciled")
		w.runs(6, as("shop", "reconcile", "websites/lab/old"), "nagi.websites.act.reconcile.lab")
		w.runs(0, as("shop", "suspend", "websites/shop/home"), "is suspended\n")
		w.runs(6, as("reader", "reconcile", "websites/shop/home"), "nagi.websites.act.reconcile.shop")
		w.runs(6, as("reader", "suspend", "websites/shop/cart"), "$KV.websites.shop.cart")
		w.runs(6, as("reader", "orphans"), "nagi.websites.read.orphans")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v: a denied request is told at once", took)
		}
	})
}

// TestAnInterruptEndsBetweenTwoKeys, and says how many are done.
func TestAnInterruptEndsBetweenTwoKeys(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		defer cancel()
		r := w.during(ctx, strings.Repeat("websites/shop/home\n", 100), "reconcile", "-")
		synctest.Wait()
		if r.code == 0 || !strings.Contains(r.err, "of 100 keys are done") {
			t.Errorf("%+v", r)
		}
	})
}

// TestTwoControllersOfOneKindAreBothAsked about keys, and one has to be named where something is deleted or restored.
func TestTwoControllersOfOneKindAreBothAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.secondController()
		w.runs(0, []string{"reconcile", "websites/shop/home"}, "is reconciled by controller audits, websites\n")
		w.runs(0, []string{"reconcile", "websites/shop/home", "--controller", "audits"}, "by controller audits\n")
		w.runs(0, []string{"unpark", "websites/shop/blog"}, "is tried again by controller websites\n")
		w.runs(0, []string{"suspend", "websites/shop/home", "--reason", "x"}, "is suspended\n")
		w.runs(0, []string{"brake"}, "audits", "websites")
		for _, args := range [][]string{
			{"brake", "release", "websites", "--expect", "1"}, {"restore", "websites"}, {"orphans", "delete", "websites"},
		} {
			w.runs(2, args, `name one with --controller: "audits", "websites"`)
			w.runs(5, append(args, "--controller", "audits"))
		}
		w.runs(0, []string{"bootstrap", "websites", "--print=nats"}, "KV_audits-status", "KV_websites-status")
	})
}
