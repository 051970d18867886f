package manager

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	kinds "github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func bound(cfg entity.Config) entity.Config {
	cfg.BindOnly = true
	return cfg
}

func pages() entity.Config { return entity.Config{Kind: "Page", Bucket: "pages"} }

// program is what the main of a program makes, with all that needs buckets.
func program(t *testing.T, cfg Config) *Manager {
	t.Helper()
	cfg.Name = "program"
	if cfg.Conn == nil {
		cfg.InboxPrefix = "_INBOX_controller"
	}
	cfg.Lease = &Lease{Bucket: "leases", BindOnly: true}
	m := open(t, cfg)
	_, err := m.NewRecorder(recorder.Config{BindOnly: true})
	must(t, err)
	c, err := controller.New("sites", client(t, m, bound(sites())), controller.ReconcilerFunc(doNothing),
		controller.Owns(client(t, m, bound(pages()))), kinds.Publish(kinds.Options{}))
	must(t, err)
	must(t, m.Add(c))
	return m
}

// TestAnEmptyServerIsPreparedByTheProgramItself: it prints the roles without a server; on one that is configured with
// them, its bootstrap makes all buckets, and then its controller user runs it, though it may make none.
func TestAnEmptyServerIsPreparedByTheProgramItself(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		isolated(t)
		var printed bytes.Buffer
		m := program(t, Config{Only: OnlyPermissions})
		_, err := m.begin()
		must(t, err)
		must(t, m.runOnly(t.Context(), &printed))

		dir := t.TempDir()
		conf := "include roles.conf\nauthorization: { users: [\n{ user: admin, password: x }\n"
		for _, r := range roleNames {
			conf += "{ user: " + string(r.role) + ", password: x, permissions: $nagi_" + string(r.role) + " }\n"
		}
		must(t, os.WriteFile(filepath.Join(dir, "roles.conf"), printed.Bytes(), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(conf+"] }\n"), 0o600))
		parsed, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
		if err != nil {
			t.Fatalf("%v in\n%s", err, &printed)
		}
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) { o.Users = parsed.Users }))

		var denied []error
		noteDenied := []nats.Option{nats.CustomInboxPrefix("_INBOX_bootstrap"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied = append(denied, err) })}
		nc, _ := natstest.Connect(t, s.URL(), append(noteDenied, nats.UserInfo("bootstrap", "x"))...)
		boot := program(t, Config{Conn: nc, Only: OnlyBuckets})
		must(t, boot.Run(t.Context()))
		_, admin := natstest.Connect(t, s.URL(), nats.UserInfo("admin", "x"))
		var streams []string
		for name := range admin.StreamNames(t.Context()).Name() {
			streams = append(streams, name)
		}
		slices.Sort(streams)
		if want := []string{"KV_leases", "KV_nagi-kinds", "KV_pages", "KV_pages-status", "KV_sites", "KV_sites-status",
			"NAGI_EVENTS"}; !slices.Equal(streams, want) {
			t.Errorf("there are %q, want %q", streams, want)
		}

		running := program(t, Config{URL: s.URL(), User: "controller", Password: "x"})
		life := start(t, running)
		natstest.Eventually(t, "it leads, and has published its kind", func() bool {
			_, err := kinds.Get(t.Context(), admin, "Site", "")
			return err == nil
		})
		must(t, life.stop())
		must(t, errors.Join(denied...))
	})
}

func TestOnlyTakesWhatItKnows(t *testing.T) {
	_, err := New(t.Context(), Config{Only: "everything"})
	if err == nil || !strings.Contains(err.Error(), `"permissions", "buckets" or empty`) {
		t.Error(err)
	}
}
