package entity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// limited starts a server whose account has limits of JetStream, as a hosted one has.
func limited(t testing.TB, limits string) jetstream.JetStream {
	t.Helper()
	srv := natstest.Start(t, natstest.WithConfigText(fmt.Sprintf(
		`accounts: { A: { jetstream: { %s }, users: [ { user: a, password: a } ] } }, no_auth_user: a`, limits)))
	_, js := natstest.Connect(t, srv.URL())
	return js
}

// TestARefusalToCreateABucketSaysWhichFieldToSet: the limits are those of the account or of the server.
func TestARefusalToCreateABucketSaysWhichFieldToSet(t *testing.T) {
	for name, test := range map[string]struct {
		limits string
		change func(*entity.Config)
		says   []string
		mend   func(*entity.Config) // nil if that is none of the client's
	}{
		"sizes are required": {
			limits: "max_bytes_required: true",
			says:   []string{`creating bucket "websites"`, "set Config.MaxBytes", "1 << 30", "10113"},
			mend:   func(c *entity.Config) { c.MaxBytes = 1 << 20 },
		},
		"a size above that of a stream": {
			limits: "disk_max_stream_bytes: 1MB",
			change: func(c *entity.Config) { c.MaxBytes = 2 << 20 },
			says:   []string{`creating bucket "websites"`, "Config.MaxBytes is 2097152", "lower", "10122"},
			mend:   func(c *entity.Config) { c.MaxBytes = 1 << 20 },
		},
		"a size of the status bucket above that of a stream": {
			limits: "disk_max_stream_bytes: 1MB",
			change: func(c *entity.Config) { c.MaxBytes, c.StatusMaxBytes = 1<<20, 2<<20 },
			says:   []string{`creating bucket "websites-status"`, "Config.StatusMaxBytes is 2097152", "lower", "10122"},
			mend:   func(c *entity.Config) { c.StatusMaxBytes = 0 },
		},
		"more than the account has": {
			limits: "max_file: 3MB",
			change: func(c *entity.Config) { c.MaxBytes = 2 << 20 },
			says: []string{`creating bucket "websites-status"`, "StatusMaxBytes", "2097152",
				"reserves", "lower"},
			mend: func(c *entity.Config) { c.StatusMaxBytes = 1 << 20 },
		},
		"streams": {
			limits: "max_streams: 1",
			says:   []string{`creating bucket "websites-status"`, "max_streams", "two buckets", "10027"},
			mend:   func(c *entity.Config) { c.StatusBucket = entity.NoStatusBucket },
		},
		"replicas on one server": {
			change: func(c *entity.Config) { c.Replicas = 3 },
			says:   []string{`creating bucket "websites"`, "Config.Replicas is 3", "no cluster", "10074"},
			mend:   func(c *entity.Config) { c.Replicas = 1 },
		},
		"a description that is too long": {
			change: func(c *entity.Config) { c.Description = strings.Repeat("a", 5000) },
			says:   []string{`creating bucket "websites"`, "description is too long", "10052"},
			mend:   func(c *entity.Config) { c.Description = "websites of the shop" },
		},
	} {
		t.Run(name, virtually(func(t *testing.T) {
			js := limited(t, test.limits)
			cfg := websites
			if test.change != nil {
				test.change(&cfg)
			}
			_, err := entity.NewClient[*Website](testContext(t), js, cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			test.mend(&cfg)
			must(t, newClient[*Website](t, js, cfg).Create(testContext(t), website("a")))
		}))
	}
}

// TestReplicasThatTheClusterHasNotAreRefusedByName: three of two servers.
func TestReplicasThatTheClusterHasNotAreRefusedByName(t *testing.T) {
	_, js := natstest.Connect(t, natstest.StartCluster(t, 2).URLs()) // a cluster needs real time
	cfg := websites
	cfg.Replicas = 3
	_, err := entity.NewClient[*Website](testContext(t), js, cfg)
	if err == nil || !strings.Contains(err.Error(), "Config.Replicas is 3") {
		t.Errorf("replicas: %v", err)
	}
	cfg.Replicas, cfg.Placement = 1, &jetstream.Placement{Tags: []string{"ssd"}}
	_, err = entity.NewClient[*Website](testContext(t), js, cfg)
	if err == nil || !strings.Contains(err.Error(), `Config.Placement (tags ["ssd"])`) {
		t.Errorf("placement: %v", err)
	}
}

// TestABucketIsCreatedWithTheDuplicateWindowThatTheServerAllows: the server's limit may be below its own default.
func TestABucketIsCreatedWithTheDuplicateWindowThatTheServerAllows(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 2 * time.Minute,
		"jetstream { limits { duplicate_window: 30s } }": 30 * time.Second,
		"jetstream { limits { duplicate_window: 1h } }":  2 * time.Minute,
	} {
		t.Run(text, virtually(func(t *testing.T) {
			_, js := natstest.Connect(t, natstest.Start(t, natstest.WithConfigText(text)).URL())
			newClient[*Website](t, js, websites)
			for _, name := range []string{"KV_websites", "KV_websites-status"} {
				stream, err := js.Stream(testContext(t), name)
				must(t, err)
				if got := stream.CachedInfo().Config.Duplicates; got != want {
					t.Errorf("%s: duplicate window %v, want %v", name, got, want)
				}
			}
		}))
	}
}

// TestWhatACreatedBucketIsAskedToBe: and what its status bucket is.
func TestWhatACreatedBucketIsAskedToBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := limited(t, "max_bytes_required: true")
		cfg := websites
		cfg.MaxBytes, cfg.Compression, cfg.Description = 10<<20, jetstream.S2Compression, "of the shop"
		cfg.Metadata = map[string]string{"team": "shop"}
		client := newClient[*Website](t, js, cfg)
		for name, holds := range map[string]string{"KV_websites": "documents", "KV_websites-status": "records"} {
			stream, err := js.Stream(testContext(t), name)
			must(t, err)
			c := stream.CachedInfo().Config
			if c.MaxBytes != 10<<20 || c.Compression != jetstream.S2Compression || c.Description != "of the shop" ||
				c.Metadata["team"] != "shop" || c.Metadata[entity.MetadataHolds] != holds {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if w := client.Warnings(); len(w) != 0 {
			t.Errorf("warnings %q", w)
		}
		other := cfg
		other.Bucket, other.MaxBytes, other.StatusMaxBytes = "others", 2<<20, 1<<20
		newClient[*Website](t, js, other)
		stream, err := js.Stream(testContext(t), "KV_others-status")
		must(t, err)
		if got := stream.CachedInfo().Config.MaxBytes; got != 1<<20 {
			t.Errorf("the status bucket has %d bytes", got)
		}
	})
}

// TestABucketThatExistsKeepsItsSettingsAndSaysWhatDiffers: only of what was asked for.
func TestABucketThatExistsKeepsItsSettingsAndSaysWhatDiffers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		newClient[*Website](t, js, websites)
		before := streamConfig(t, js, "KV_websites")
		if w := newClient[*Website](t, js, websites).Warnings(); len(w) != 0 {
			t.Errorf("nothing was asked for: %q", w)
		}
		cfg := websites
		cfg.MaxBytes, cfg.StatusMaxBytes = 10<<20, 1<<20
		cfg.Compression, cfg.Storage, cfg.Replicas = jetstream.S2Compression, jetstream.MemoryStorage, 3
		cfg.Placement = &jetstream.Placement{Cluster: "east", Tags: []string{"ssd"}}
		warnings := newClient[*Website](t, js, cfg).Warnings()
		for i, want := range []string{
			`bucket "websites" exists and is not changed: it differs from Config in MaxBytes (no limit, not 10485760), ` +
				`Replicas (1, not 3), Storage (File, not Memory), ` +
				`Placement (none, not cluster "east", tags ["ssd"]), Compression (None, not S2): change it ` +
				`(nats stream edit KV_websites), where the server allows that, or Config`,
			`bucket "websites-status" exists and is not changed: it differs from Config in StatusMaxBytes ` +
				`(no limit, not 1048576), Replicas`,
		} {
			if len(warnings) != 2 || !strings.Contains(warnings[i], want) {
				t.Errorf("got %q, want %q", warnings, want)
			}
		}
		if after := streamConfig(t, js, "KV_websites"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("changed from %+v to %+v", before, after)
		}
	})
}

func streamConfig(t testing.TB, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(testContext(t), name)
	must(t, err)
	return stream.CachedInfo().Config
}
