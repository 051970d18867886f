package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/backup"
	"github.com/nagi-runtime/nagi/internal/nagi/setup"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

func (w *world) removeBuckets() {
	w.Helper()
	for _, stream := range []string{"KV_websites", "KV_websites-status"} {
		w.must(w.js.DeleteStream(w.Context(), stream))
	}
}

// TestARestoreOfDocumentsAndRecordsDeletesNothing: both buckets are lost, and come back from a backup. The controller
// goes on, and the brake goes off by itself, as nothing is missing.
func TestARestoreOfDocumentsAndRecordsDeletesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites(vanishing)
		dir := filepath.Join(t.TempDir(), "monday")
		w.runs(0, []string{"backup", "websites", "--to", dir}, "KV_websites: 12 documents", "is backed up in "+dir)
		w.runs(5, []string{"backup", "websites", "--to", dir}, "exists")
		document := w.value("websites", "shop.s003")
		w.runs(5, []string{"restore", "--from", dir}, "controller \"websites\" answers")
		w.runs(5, []string{"restore", "--from", dir, "--stopped"}, "holds the lease")
		w.stopController()
		w.runs(5, []string{"restore", "--from", dir}, "writes over nothing", "nats stream rm -f KV_websites")
		w.removeBuckets()
		w.runs(0, []string{"restore", "--from", dir}, "KV_websites: 12 documents", "The brake is on", "nagi brake websites")
		if got := w.value("websites", "shop.s003"); got != document {
			t.Errorf("restored is %s, want %s", got, document)
		}
		if brake := w.value("websites-status", "_nagi.brake"); !strings.Contains(brake, `"engaged":true`) {
			t.Errorf("the brake is %s", brake)
		}
		w.startController()
		w.settle()
		if n := w.pagesThere(); n != vanishing {
			t.Errorf("%d pages are there, want %d", n, vanishing)
		}
		natstest.Eventually(w, "the brake is off", func() bool { return w.nagi("brake").code == 0 })
		w.put("websites", "shop.new", `{"spec":{"host":"new.example","pages":2}}`)
		w.settle()
		if n := w.pagesThere(); n != vanishing+2 {
			t.Errorf("%d pages are there, want %d", n, vanishing+2)
		}
	})
}

// TestWhatIsYoungerThanTheBackupStays until somebody decides about it: it is listed, with its owner.
func TestWhatIsYoungerThanTheBackupStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sites(vanishing)
		dir := filepath.Join(t.TempDir(), "monday")
		w.ok("backup", "websites", "--to", dir)
		w.put("websites", "shop.young", `{"spec":{"host":"young.example","pages":1}}`)
		w.settle()
		w.stopController()
		w.removeBuckets()
		w.ok("restore", "--from", dir)
		w.startController()
		time.Sleep(20 * time.Second) // the lease that the backup has is waited for: 15 s, and until the next try
		w.settle()
		if n := w.pagesThere(); n != vanishing+1 {
			t.Errorf("%d pages are there, want %d", n, vanishing+1)
		}
		w.runs(0, []string{"orphans", "websites"}, "shop/young", "neverWas")
	})
}

// TestABackupThatWasChangedIsNotRestored: nothing is made before all checksums are compared.
func TestABackupThatWasChangedIsNotRestored(t *testing.T) {
	inWorld(t, func(w *world) {
		dir := filepath.Join(w.TempDir(), "monday")
		var m backup.Manifest
		w.must(json.Unmarshal([]byte(w.ok("backup", "websites", "--to", dir, "-o", "json")), &m))
		if m.Kind != "Website" || len(m.Streams) != 2 || m.Streams[0].Holds != backup.Records || m.Streams[1].Messages != 5 ||
			m.Streams[1].Created.IsZero() || len(m.Controllers) != 1 || m.Version == "" {
			t.Errorf("%+v", m)
		}
		w.stopController()
		w.removeBuckets()
		for _, s := range m.Streams {
			for _, f := range s.Files {
				path := filepath.Join(dir, s.Name, f.Name)
				data, err := os.ReadFile(path)
				w.must(err)
				changed := append([]byte(nil), data...)
				changed[len(changed)/2] ^= 1
				w.must(os.WriteFile(path, changed, 0o600))
				w.runs(1, []string{"restore", "--from", dir}, path, "nothing is restored")
				w.must(os.Remove(path))
				w.runs(3, []string{"restore", "--from", dir}, "not whole")
				w.must(os.WriteFile(path, data, 0o600))
			}
		}
		if _, err := w.js.Stream(w.Context(), "KV_websites"); err == nil {
			t.Error("a stream was made")
		}
		w.ok("restore", "--from", dir)
	})
}

// TestABackupThatFailsLeavesNothing, neither under its name nor beside it.
func TestABackupThatFailsLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		parent := w.TempDir()
		w.runs(3, []string{"backup", "--bucket", "nowhere", "--to", filepath.Join(parent, "b")}, "KV_nowhere")
		left, err := os.ReadDir(parent)
		w.must(err)
		if len(left) != 0 {
			t.Errorf("left is %v", left)
		}
		w.runs(2, []string{"backup", "websites"}, "--to is needed")
		w.runs(3, []string{"restore", "--from", parent}, "is no backup")
	})
}

// TestARestoreThatFailsTakesBackWhatItMade.
func TestARestoreThatFailsTakesBackWhatItMade(t *testing.T) {
	inWorld(t, func(w *world) {
		dir := filepath.Join(w.TempDir(), "monday")
		w.ok("backup", "websites", "--to", dir)
		w.stopController()
		w.removeBuckets()
		// The records cannot be restored: another stream has their subjects.
		_, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: "OTHER", Subjects: []string{"$KV.websites-status.>"}, Storage: jetstream.MemoryStorage,
		})
		w.must(err)
		w.runs(1, []string{"restore", "--from", dir}, "KV_websites-status", "KV_websites, which was restored, is taken away")
		if _, err := w.js.Stream(w.Context(), "KV_websites"); err == nil {
			t.Error("the documents are there without their records")
		}
		w.must(w.js.DeleteStream(w.Context(), "OTHER"))
		w.ok("restore", "--from", dir)
	})
}

// TestPrintedRightsAreThoseThatTheControllerWouldPrint.
func TestPrintedRightsAreThoseThatTheControllerWouldPrint(t *testing.T) {
	inWorld(t, func(w *world) {
		own, _ := natstest.Connect(w.T, w.srv.URL())
		svc, err := service.New(service.Config{Conn: own})
		w.must(err)
		c, err := controller.New("websites", w.websites, w.reconciler(), controller.Owns(w.pages),
			svc.Controller(), registry.Publish(registry.Options{}))
		w.must(err)
		var printed setup.Rights
		w.must(json.Unmarshal([]byte(w.ok("bootstrap", "websites", "--print=permissions")), &printed))
		events := recorder.Config{}
		beside := map[entity.Role][]string{
			entity.RoleBootstrap: events.SetUpSubjects(), entity.RoleController: events.RecordSubjects(),
			entity.RoleReader: events.ListSubjects(), entity.RoleOperator: events.ListSubjects(),
		}
		if len(printed.Roles) != 7 {
			t.Errorf("%d roles are printed", len(printed.Roles))
		}
		for _, role := range printed.Roles {
			if role.Role == setup.RoleBackup {
				continue // no controller prints it
			}
			opts := []entity.PermissionOption{entity.WithInboxPrefix("_INBOX_" + string(role.Role))}
			switch role.Role {
			case entity.RoleReader, entity.RoleOperator, entity.RoleWriter:
				opts = append(opts, entity.WithCommandLine())
			}
			want, err := service.Config{}.Permissions()
			if role.Role != setup.RoleService {
				want, err = c.PermissionsOf(role.Role, opts...)
				want = want.Join(entity.PermissionSet{Publish: beside[role.Role]})
			}
			w.must(err)
			if got := role.PermissionSet; got.NATS() != want.NATS() {
				t.Errorf("%s: got\n%swant\n%s", role.Role, got.NATS(), want.NATS())
			}
		}
	})
}

// TestRightsArePrintedWithNothingRunning, from a file and from flags.
func TestRightsArePrintedWithNothingRunning(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: natstest.Start(t)}
		w.srv.Stop()
		const file = "kind: Shop\nbucket: shops\ncontroller: shops\nowns:\n- {in: nats, kind: Page, bucket: pages}\n" +
			"- {in: kubernetes, group: apps, version: v1, resource: deployments}\n---\nkind: Fair\nbucket: fairs\n"
		r := w.nagiWith(file, "bootstrap", "-f", "-", "--print=nats")
		w.wants(r, 0, []string{"bootstrap"}, "nagi_controller = {", `"$KV.pages.>"`, `"$KV.fairs-status.>"`, "_INBOX_reader")
		r = w.nagiWith(file, "bootstrap", "-f", "-", "--print=rbac")
		w.wants(r, 0, []string{"bootstrap"}, `name: "shops"`, `apiGroups: ["apps"]`, `"delete"`)
		w.runs(0, []string{"bootstrap", "--kind", "Shop", "--bucket", "shops", "--owns", "Page=pages", "--print=permissions"},
			`"role": "bootstrap"`, `"$JS.API.STREAM.CREATE.KV_pages"`)
		w.wants(w.nagiWith("kind: Shop\nbuckets: shops\n", "bootstrap", "-f", "-"), 2, nil, "buckets")
		w.runs(2, []string{"bootstrap", "--kind", "Shop"}, "both needed")
		w.runs(2, []string{"bootstrap"}, "one of these")
		w.runs(2, []string{"bootstrap", "--kind", "Shop", "--bucket", "shops", "--owns", "pages"}, "want KIND=BUCKET")
	})
}

// TestBucketsAreMadeForAControllerThatMayNot: one that only binds finds all of them, with safe settings.
func TestBucketsAreMadeForAControllerThatMayNot(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: natstest.Start(t)}
		w.nc, w.js = natstest.Connect(t, w.srv.URL())
		args := []string{"bootstrap", "--kind", "Shop", "--bucket", "shops", "--namespaced", "--owns", "Page=pages",
			"--storage", "memory", "--max-bytes", "1048576"}
		w.runs(0, args, "KV_shops ", "KV_shops-status", "KV_pages", "KV_nagi-kinds", "NAGI_EVENTS", "made")
		if out := w.runs(0, args); strings.Contains(out, "made") {
			t.Errorf("made once more:\n%s", out)
		}
		for _, cfg := range []entity.Config{
			{Kind: "Shop", Bucket: "shops", Namespaced: true, BindOnly: true},
			{Kind: "Page", Bucket: "pages", StatusBucket: entity.NoStatusBucket, BindOnly: true},
		} {
			client, err := entity.NewClient[*website](w.Context(), w.js, cfg)
			w.must(err)
			if warnings := client.Warnings(); len(warnings) > 0 {
				t.Errorf("%s: %q", cfg.Kind, warnings)
			}
			client.Close()
		}
		info, err := w.js.Stream(w.Context(), "KV_shops")
		w.must(err)
		if c := info.CachedInfo().Config; c.MaxBytes != 1<<20 || c.Storage != jetstream.MemoryStorage || !c.DenyDelete {
			t.Errorf("%+v", c)
		}
		w.runs(0, append(args, "--replicas", "1", "--max-bytes", "2097152"), "is not changed", "MaxBytes")
	})
}

// shopRights are the rights that bootstrap prints for the world's websites.
func shopRights(t *testing.T) map[string]entity.PermissionSet {
	t.Helper()
	d := setup.Definition{
		Kind: "Website", APIVersion: "example.com/v1", Bucket: "websites", Namespaced: true, Controller: "websites",
		Owns: []registry.Resource{{In: registry.InNATS, Kind: "Page", Bucket: "pages"}},
	}
	rights, err := setup.RightsOf([]setup.Definition{d}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]entity.PermissionSet{}
	for _, role := range rights.Roles {
		sets[string(role.Role)] = role.PermissionSet
	}
	return sets
}

// TestThePrintedRolesAreEnoughForTheTool, and no more: a reader acts on nothing.
func TestThePrintedRolesAreEnoughForTheTool(t *testing.T) {
	inWorldWithUsers(t, shopRights(t), func(w *world) {
		with := func(role string, args ...string) []string {
			return append([]string{"--user", role, "--password", role, "--inbox-prefix", "_INBOX_" + role}, args...)
		}
		for _, reads := range [][]string{{"kinds"}, {"brake"}, {"orphans"}, {"restore", "websites", "--list"}} {
			w.runs(0, with("reader", reads...))
			w.runs(0, with("operator", reads...))
		}
		for _, acts := range [][]string{
			{"reconcile", "websites/shop/home"}, {"resync", "websites"}, {"suspend", "websites/shop/home", "--reason", "x"},
			{"resume", "websites/shop/home"}, {"unpark", "websites/shop/blog"},
		} {
			w.runs(6, with("reader", acts...), "refuses to publish")
			w.runs(0, with("operator", acts...))
		}
		w.runs(0, with("backup", "backup", "websites", "--to", filepath.Join(w.TempDir(), "b")))
		w.runs(6, with("reader", "backup", "websites", "--to", filepath.Join(w.TempDir(), "b")), "STREAM.SNAPSHOT")
		w.runs(0, with("bootstrap", "bootstrap", "--kind", "Website", "--api-version", "example.com/v1", "--bucket",
			"websites", "--namespaced", "--owns", "Page=pages"), "there")
		w.stopController()
		w.runs(0, with("operator", "suspend", "websites/shop/cart"), "written with your own rights")
		w.runs(6, with("reader", "suspend", "websites/shop/home"), "$KV.websites.shop.home")
	})
}

// subject is what a backup of the world has.
var subject = backup.Subject{
	Kind: "Website", Bucket: "websites", Namespaced: true, StatusBuckets: []string{"websites-status"},
	Controllers: []string{"websites"},
}

// TestABackupSaysThatItIsNotOfOneMoment, with how much was written between records and documents.
func TestABackupSaysThatItIsNotOfOneMoment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		still, err := backup.Make(w.Context(), w.js, subject, filepath.Join(w.TempDir(), "still"), func(int) {})
		w.must(err)
		if !still.Moment.One {
			t.Errorf("nothing was written: %+v", still.Moment)
		}
		written := false
		moved, err := backup.Make(w.Context(), w.js, subject, filepath.Join(w.TempDir(), "moved"), func(int) {
			if !written { // the records come first
				written = true
				w.put("websites", "shop.more", `{"spec":{}}`)
				w.put("websites-status", "shop.more", `{}`)
			}
		})
		w.must(err)
		if m := moved.Moment; m.One || m.Documents != 1 || m.Records != 1 || moved.Streams[1].Messages != 6 {
			t.Errorf("%+v", moved)
		}
	})
}

// TestAnInterruptLeavesNothingHalfDone: no directory of a backup, and no stream of a restore.
func TestAnInterruptLeavesNothingHalfDone(t *testing.T) {
	inWorld(t, func(w *world) {
		parent := w.TempDir()
		dir := filepath.Join(parent, "monday")
		ctx, cancel := context.WithCancel(w.Context())
		if _, err := backup.Make(ctx, w.js, subject, dir, func(int) { cancel() }); err == nil {
			t.Error("it was not interrupted")
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
			t.Errorf("left is %v (%v)", left, err)
		}
		m, err := backup.Make(w.Context(), w.js, subject, dir, func(int) {})
		w.must(err)
		w.stopController()
		w.removeBuckets()
		ctx, cancel = context.WithCancel(w.Context())
		if err := backup.Restore(ctx, w.js, dir, m, func(int) { cancel() }); err == nil {
			t.Error("it was not interrupted")
		}
		w.settle()
		if exist, err := backup.Existing(w.Context(), w.js, m); err != nil || len(exist) != 0 {
			t.Errorf("there are %v (%v)", exist, err)
		}
		w.must(backup.Restore(w.Context(), w.js, dir, m, func(int) {}))
	})
}
