package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
)

// TestANightOnCallOfWhoMayOnlyRead: whoever has the roles of a reader finds each fault of the night, and is told of each
// act which permission it takes and where that is printed. No act is half done, and nothing waits for a timeout.
func TestANightOnCallOfWhoMayOnlyRead(t *testing.T) {
	set := readerSet(t)
	for _, cfg := range []entity.Config{
		{Bucket: "notes"}, {Bucket: "pages", Namespaced: true, StatusBucket: entity.NoStatusBucket},
	} {
		more, err := entity.Permissions(cfg, entity.RoleReader)
		if err != nil {
			t.Fatal(err)
		}
		set = set.Join(more)
	}
	inWorldOf(t, set, func(w *world) {
		w.vanishedNotes()
		w.put("pages", "shop.mine", `{"spec":{"title":"mine"}}`)
		w.settle()
		timed := func(code int, stdin string, args []string, says ...string) {
			t.Helper()
			began := time.Now()
			w.wants(w.nagiWith(stdin, asReader(args...)...), code, args, says...)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%v took %v", args, took)
			}
		}
		for _, c := range []struct {
			code int
			args string
			says []string
		}{
			{CodeNotSo, "get --not-ok", []string{"no such domain", "the API of domains is away", "lab/new", "lab/old", "held"}},
			{CodeNotSo, "doctor", []string{"brake", "notes", "lab/new"}},
			{0, "why", []string{"no such domain", "the API of domains is away"}},
			{0, "why websites/shop/blog", []string{"failed for good", "nagi unpark"}},
			{0, "describe websites/shop/blog", []string{"no such domain", "Terminal"}},
			{0, "events websites/shop/blog", []string{"no such domain"}},
			{0, "tree websites/shop/home", []string{"pages/shop/home-0"}},
			{0, "trace pages/shop/home-0", []string{"Website.example.com/shop/home"}},
			{0, "top --once", []string{"websites", "holds 12"}},
			{CodeNotSo, "brake", []string{"engaged", "nagi restore Note"}},
			{CodeNotSo, "brake notes", []string{"s000"}},
			{0, "restore notes --list", []string{"s000", "yes"}},
			{0, "orphans", []string{"no orphans"}},
			{0, "kinds", []string{"Website"}},
			{0, "explain websites.spec", []string{"host"}},
			{0, "get websites -o yaml", []string{"(secret)"}},
			{0, "diff websites/shop/home", nil},
			{0, "wait websites/shop/home", nil},
			{0, "delete websites/shop/home --show", []string{"pages/shop/home-0"}},
			{0, "bootstrap websites --print=permissions", []string{"operator"}},
		} {
			timed(c.code, "", strings.Fields(c.args), c.says...)
		}
		before := map[string]uint64{}
		for _, bucket := range []string{"websites", "pages", "notes"} {
			before[bucket] = w.lastOf(bucket)
		}
		const granted, where = "permission", "nagi bootstrap KIND --print=permissions"
		two := homeFile + "spec: {theme: dark}\n---" + strings.ReplaceAll(homeFile, "home", "other")
		for _, c := range []struct{ args, stdin, right string }{
			{"reconcile websites/shop/home", "", "nagi.websites.act.reconcile.shop"},
			{"unpark websites/shop/blog", "", "nagi.websites.act.unpark.shop"},
			{"resync websites", "", "nagi.websites.act.resync"},
			{"suspend websites/shop/home", "", "$KV.websites.shop.home"},
			{"resume websites/lab/old", "", "$KV.websites.lab.old"},
			{"brake release notes --expect 12", "", "nagi.notes.act.brake-release"},
			{"brake release notes --expect 12 --offline", "", "$KV.notes-status._nagi."},
			{"restore notes --expect 12", "", "nagi.notes.act.brake-restore"},
			{"apply -f -", two, "$KV.websites.shop.home"},
			{"create -f -", strings.ReplaceAll(homeFile, "home", "other"), "$KV.websites.shop.other"},
			{"patch websites/shop/home -p {\"spec\":{\"theme\":\"dark\"}}", "", "$KV.websites.shop.home"},
			{"label websites/shop/home a=b", "", "$KV.websites.shop.home"},
			{"annotate websites/shop/home a=b", "", "$KV.websites.shop.home"},
			{"delete websites/shop/home", "", "$KV.websites.shop.home"},
			{"delete websites --all --yes", "", "$KV.websites.lab.new"},
			{"backup websites --to " + filepath.Join(t.TempDir(), "b"), "", "$JS.API.STREAM.SNAPSHOT.KV_websites"},
		} {
			timed(CodeForbidden, c.stdin, strings.Fields(c.args), c.right, granted, where)
		}
		for bucket, last := range before {
			if now := w.lastOf(bucket); now != last {
				t.Errorf("bucket %s was written: it is at %d, and was at %d", bucket, now, last)
			}
		}
	})
}

// lastOf is the sequence of the last message of a bucket.
func (w *world) lastOf(bucket string) uint64 {
	w.Helper()
	stream, err := w.js.Stream(w.Context(), "KV_"+bucket)
	w.must(err)
	return stream.CachedInfo().State.LastSeq
}
