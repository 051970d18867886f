package entity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allowRollups makes the buckets of websites as any KV client does, which allows rollups.
func allowRollups(t testing.TB, js jetstream.JetStream, markers time.Duration) {
	t.Helper()
	for _, bucket := range []string{"websites", "websites-status"} {
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, LimitMarkerTTL: markers})
		must(t, err)
	}
}

// denyRollups does what the warning says.
func denyRollups(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	for _, name := range []string{"KV_websites", "KV_websites-status"} {
		stream, err := js.Stream(t.Context(), name)
		must(t, err)
		cfg := stream.CachedInfo().Config
		cfg.AllowRollup, cfg.SubjectDeleteMarkerTTL = false, 0
		updated, err := js.UpdateStream(t.Context(), cfg)
		must(t, err)
		if updated.CachedInfo().Config.AllowRollup {
			t.Fatalf("%s still allows rollups", name)
		}
	}
}

// marker returns the headers of the last message of a key.
func marker(t testing.TB, js jetstream.JetStream, bucket, key string) nats.Header {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	must(t, err)
	last, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+bucket+"."+key)
	must(t, err)
	return last.Header
}

// purgesAll puts purge markers in each way there is, and checks that they are rollups where those are wanted.
func purgesAll(t *testing.T, js jetstream.JetStream, client *entity.Client[*Website], rollups bool) {
	t.Helper()
	ctx := testContext(t)
	const reserved = entity.ReservedPrefix + ".test"
	must(t, client.Create(ctx, website("a")))
	must(t, client.Delete(ctx, "a", entity.Purge()))
	rec := &entity.Record{Controller: "c", DocumentRevision: 1}
	must(t, client.Records().Put(ctx, "a", rec))
	must(t, client.Records().Delete(ctx, "a", rec.Revision))
	revision, err := client.Records().PutReserved(ctx, reserved, []byte("1"), 0)
	must(t, err)
	must(t, client.Records().DeleteReserved(ctx, reserved, revision))
	for _, at := range [][2]string{{"websites", "a"}, {"websites-status", "a"}, {"websites-status", reserved}} {
		header := marker(t, js, at[0], at[1])
		if is := header.Get(jetstream.MsgRollup) != ""; header.Get("KV-Operation") != "PURGE" || is != rollups {
			t.Errorf("the marker of %q in %q has the headers %v, want a rollup: %t", at[1], at[0], header, rollups)
		}
	}
	must(t, client.Create(ctx, website("a"))) // over the marker
	must(t, client.Delete(ctx, "a"))
}

// TestPurgesAreRollupsOnlyWhereTheyAreAllowed, and work either way, whether or not the caches run.
func TestPurgesAreRollupsOnlyWhereTheyAreAllowed(t *testing.T) {
	for name, prepare := range map[string]func(testing.TB, jetstream.JetStream){
		"denied":  func(testing.TB, jetstream.JetStream) {},
		"allowed": func(t testing.TB, js jetstream.JetStream) { allowRollups(t, js, 0) },
	} {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			prepare(t, js)
			client := newClient[*Website](t, js, websites)
			purgesAll(t, js, client, name == "allowed")
			start(t, client)
			purgesAll(t, js, client, name == "allowed")
		}))
	}
}

// TestRollupsMayBeDeniedWhileAClientRuns: the next purge marker is refused once, and goes without.
func TestRollupsMayBeDeniedWhileAClientRuns(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for _, started := range []bool{false, true} {
			js := newServer(t)
			allowRollups(t, js, time.Hour)
			client := newClient[*Website](t, js, websites)
			if started {
				start(t, client)
			}
			purgesAll(t, js, client, true)
			denyRollups(t, js)
			purgesAll(t, js, client, false)
		}
	})
}

// TestARollupOfANamespaceIsReported with the buckets' settings, and no more when those are as it says.
func TestARollupOfANamespaceIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		markers time.Duration
		change  func(*entity.Config)
		want    []string // of each warning
	}{
		"without markers": {change: func(*entity.Config) {}, want: []string{
			"nats stream edit KV_websites --no-allow-rollup), or set Config.AllowRollup",
			"nats stream edit KV_websites-status --no-allow-rollup)",
		}},
		"with markers": {markers: time.Hour, change: func(*entity.Config) {}, want: []string{
			"nats stream edit KV_websites --no-allow-rollup --subject-del-markers-ttl=0s), or set Config.AllowRollup",
			"nats stream edit KV_websites-status --no-allow-rollup --subject-del-markers-ttl=0s)",
		}},
		"meant": {markers: time.Hour, change: func(c *entity.Config) { c.AllowRollup = true }, want: []string{
			"nats stream edit KV_websites-status --no-allow-rollup --subject-del-markers-ttl=0s)",
		}},
		"of one owner": {markers: time.Hour, change: func(c *entity.Config) { c.Namespaced = false }},
	} {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			allowRollups(t, js, test.markers)
			cfg := websites
			cfg.Namespaced = true
			test.change(&cfg)
			rollups := func() (found []string) {
				for _, warning := range newClient[*Website](t, js, cfg).Warnings() {
					if strings.Contains(warning, "rollup") {
						found = append(found, warning)
					}
				}
				return found
			}
			found := rollups()
			if len(found) != len(test.want) {
				t.Fatalf("warnings %q", found)
			}
			for i, want := range test.want {
				if !strings.Contains(found[i], want) {
					t.Errorf("got %q, want %q", found[i], want)
				}
			}
			denyRollups(t, js)
			if found := rollups(); len(found) > 0 {
				t.Errorf("when they are denied: %q", found)
			}
		}))
	}
}

// TestAUserOfOneNamespaceCannotRollUpAnother: the header is refused whatever it says, and nothing is removed.
func TestAUserOfOneNamespaceCannotRollUpAnother(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
			o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "ns1", Password: "x",
				Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: []string{"$KV.websites.ns1.>"}},
					Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
				}}}
		}))
		_, admin := natstest.Connect(t, s.URL(), nats.UserInfo("admin", "x"))
		nc, _ := natstest.Connect(t, s.URL(), nats.UserInfo("ns1", "x"))
		cfg := websites
		cfg.Namespaced = true
		client := newClient[*Website](t, admin, cfg)
		for _, namespace := range []string{"ns1", "ns2"} {
			must(t, client.Create(t.Context(), &Website{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}))
		}
		for _, rollup := range []string{"all", "sub", "ALL"} {
			answer, err := nc.RequestMsgWithContext(testContext(t), &nats.Msg{
				Subject: "$KV.websites.ns1.a", Header: nats.Header{jetstream.MsgRollup: {rollup}}, Data: []byte(`{}`),
			})
			must(t, err)
			if !strings.Contains(string(answer.Data), "rollup not permitted") {
				t.Errorf("%s: the server says %s", rollup, answer.Data)
			}
		}
		for _, namespace := range []string{"ns1", "ns2"} {
			_, err := client.Get(t.Context(), namespace+"/a")
			must(t, err)
		}
	})
}
