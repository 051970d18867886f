package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/registry"
)

// Whoever names a bucket by its flag gets what the registry knows of it: secrets, schema, controllers, what cascades.
func TestABucketOfTheRegistryIsItsKind(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, args := range [][]string{
			{"get", "-b", "websites", "shop/home", "-o", "yaml"},
			{"get", "-b", "websites", "--namespaced", "shop/home", "-o", "json"},
			{"describe", "-b", "websites", "--status-bucket", "websites-status", "shop/home"},
			{"get", "-b", "websites", "-o", "json"},
		} {
			if said := w.ok(args...); strings.Contains(said, "hunter2") || !strings.Contains(said, "(secret)") {
				t.Errorf("%v shows the secret, or no secret:\n%s", args, said)
			}
		}
		w.runs(0, []string{"delete", "-b", "websites", "shop/home", "--show"}, "pages/shop/home-0", "pages/shop/home-1")
		invalid := `{"metadata":{"name":"home","namespace":"shop"},"spec":{"pages":1000}}`
		w.with(invalid, CodeUsage, "apply", "-f", "-", "-b", "websites")
		w.with(invalid, CodeUsage, "validate", "-f", "-", "-b", "websites")
		w.with(`{"kind":"Other","metadata":{"name":"a","namespace":"shop"}}`, CodeUsage, "apply", "-f", "-", "-b", "websites")
		w.runs(CodeUsage, []string{"patch", "-b", "websites", "shop/home", "-p", `{"spec":{"pages":-1}}`}, "spec.pages")
		w.runs(0, []string{"reconcile", "-b", "websites", "shop/home"}, "is reconciled")
		w.runs(0, []string{"get", "-b", "websites", "Website.example.com/shop/home", "websites/shop/cart", "-o", "name"},
			"Website.example.com/shop/home\nWebsite.example.com/shop/cart\n")

		const use = "Website.example.com"
		w.runs(CodeUsage, []string{"get", "-b", "websites", "--namespaced=false"}, use, "leave --namespaced out")
		w.runs(CodeUsage, []string{"get", "-b", "websites", "--status-bucket=-"}, use, "websites-status")
		w.runs(CodeUsage, []string{"get", "-b", "websites", "--status-bucket=other"}, use, "websites-status")
	})
}

func TestABucketOfSeveralKindsNamesThem(t *testing.T) {
	inWorld(t, func(w *world) {
		kv, err := w.js.KeyValue(w.Context(), registry.Bucket)
		w.must(err)
		_, err = kv.Put(w.Context(), "Aaa", []byte(`{"schemaVersion":1,"kind":"Aaa","bucket":"websites"}`))
		w.must(err)
		for _, args := range [][]string{{"get", "-b", "websites"}, {"delete", "-b", "websites", "shop/home"}} {
			w.runs(CodeUsage, args, "Aaa, Website.example.com", "instead of --bucket")
		}
	})
}

// A bucket that the registry has not is plain, and what it shows of an object can be given to the next command.
func TestAPlainBucketTakesItsOwnNames(t *testing.T) {
	inWorld(t, func(w *world) {
		plain := []string{"-b", "pages", "--namespaced", "--status-bucket", "-"}
		names := w.ok(append([]string{"get", "-n", "shop", "-o", "name"}, plain...)...)
		first, _, _ := strings.Cut(names, "\n")
		w.same(first, "pages/shop/home-0")
		w.ok(append([]string{"get", first, "shop/home-1"}, plain...)...)
		w.same(w.ok(append([]string{"label", first, "a=b"}, plain...)...), first+" changed\n")
	})
}

// What one command calls an object is taken by each other one.
func TestAnObjectHasOneName(t *testing.T) {
	inWorld(t, func(w *world) {
		const name = "Website.example.com/shop/home"
		w.event("Website", "shop", "home", "Reason", "text", time.Now(), 1)
		for _, args := range [][]string{
			{"get", "-n", "shop", "websites", "home", "-o", "name"}, {"get", "-b", "websites", "-o", "name"},
			{"label", "websites/shop/home", "a=b"}, {"annotate", "websites/shop/home", "a=b"},
			{"patch", "websites/shop/home", "-p", `{"spec":{"theme":"dark"}}`, "--dry-run"},
			{"patch", "websites/shop/home", "-p", `{"spec":{"theme":"dark"}}`, "-o", "name"},
			{"wait", "websites/shop/home"}, {"reconcile", "websites/shop/home"}, {"suspend", "websites/shop/home"},
			{"resume", "websites/shop/home"}, {"tree", "websites/shop/home"}, {"trace", "websites/shop/home"},
			{"events", "websites/shop/home"}, {"why", "websites/shop/home"}, {"delete", "websites/shop/home", "--show"},
			{"describe", "-b", "pages", "--namespaced", "--status-bucket=-", "shop/home-0"}, {"delete", "websites/shop/home"},
		} {
			r := w.nagi(args...)
			said := strings.ReplaceAll(r.out+r.err, name, "NAME")
			if r.code != 0 || !strings.Contains(said, "NAME") || strings.Contains(strings.ToLower(said), "websites/shop/home") ||
				strings.Contains(said, "Website/shop") {
				t.Errorf("%v: exit code %d, with another name than %s\n%s", args, r.code, name, r.out+r.err)
			}
		}
		w.ok("get", "Website.example.com/shop/cart", "website/shop/cart", "Website/shop/cart", "websites/shop/cart")
	})
}
