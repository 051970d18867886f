package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// soon makes a publisher look often.
const soon = 20 * time.Millisecond

func TestALeaderPublishesItsKindAndWritesOnlyChanges(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := client[*site](w, w.js, sitesConfig)
		pages := client[*site](w, w.js, entity.Config{Kind: "Page", Bucket: "pages"})
		opts := []controller.Option{controller.Owns(pages), Publish(Options{Version: "v1.2.3", Interval: soon})}
		first := run(w, "sites", sites, opts...)
		entry := w.published("the kind is published", anything)
		if entry.Kind != "Site" || entry.Bucket != "sites" || entry.StatusBucket != "sites-status" || entry.Namespaced ||
			entry.DescribedBy != "sites" || len(entry.Columns) != len(DefaultColumns()) {
			t.Errorf("the entry is %+v", entry)
		}
		owned := Resource{In: InNATS, Kind: "Page", Bucket: "pages", StatusBucket: "pages-status"}
		self := entry.Controllers[0]
		if len(entry.Controllers) != 1 || self.Version != "v1.2.3" || self.Instance != first.Instance() ||
			self.Since.IsZero() || !slices.Equal(self.Owns, []Resource{owned}) || self.Watches != nil {
			t.Errorf("the controller is %+v", self)
		}
		if !strings.Contains(string(entry.Schema), `"x-nagi-secret":true`) {
			t.Errorf("the schema marks no secret: %s", entry.Schema)
		}
		_, revision := w.value()
		first.stop()
		again := client[*site](w, w.js, sitesConfig)
		second := run(w, "sites", again, opts[1], controller.Owns(client[*site](w, w.js, pages.Config())))
		natstest.Eventually(w, "another term has begun", func() bool { return second.Stats().Leading })
		w.put(`{"gone":"another one wrote this"}`) // which shows when it has looked
		natstest.Eventually(w, "it has looked", func() bool { return len(second.log.errors()) > 0 })
		if _, now := w.value(); now != revision+1 {
			t.Errorf("without a change it wrote: revision %d after %d", now, revision)
		}
	})
}

func TestTheEntryFollowsTheSourcesOfItsController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pages := client[*site](w, w.js, entity.Config{Kind: "Page", Bucket: "pages"})
		c := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: soon}))
		owns := func(n int) func(*Entry) bool {
			return func(e *Entry) bool { return len(e.Controllers[0].Owns) == n }
		}
		w.published("it owns nothing", owns(0))
		added, err := c.AddSource(w.Context(), controller.Owns(pages))
		w.must(err)
		w.published("it owns pages", owns(1))
		w.must(added.Remove(w.Context()))
		w.published("it owns nothing any more", owns(0))
	})
}

func TestADeletedEntryComesBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: soon}))
		w.published("the kind is published", anything)
		kv, err := w.js.KeyValue(t.Context(), Bucket)
		w.must(err)
		w.must(kv.Delete(t.Context(), "Site.example.com"))
		w.published("it is published again", anything)
		w.must(w.js.DeleteStream(t.Context(), "KV_"+Bucket))
		w.published("it is published again in a new bucket", anything)
	})
}

func TestControllersOfOneKindMergeTheirParts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		type other struct {
			Color string `json:"color"`
		}
		checks := sitesConfig
		checks.StatusBucket = "checks-status"
		run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Version: "v1", Interval: soon}))
		w.published("the first is there", anything)
		run(w, "checks", client[*entity.Object[other, status]](w, w.js, checks),
			Publish(Options{Version: "v7", Interval: soon}))
		both := func(e *Entry) bool { return len(e.Controllers) == 2 }
		entry := w.published("both are there", both)
		if c := entry.Controllers[0]; c.Name != "checks" || c.StatusBucket != "checks-status" || c.Version != "v7" ||
			!strings.Contains(string(c.Schema), "color") {
			t.Errorf("the second says %+v", c)
		}
		if c := entry.Controllers[1]; c.Name != "sites" || c.Version != "v1" || c.Schema != nil || entry.DescribedBy != "sites" ||
			strings.Contains(string(entry.Schema), "color") {
			t.Errorf("the first says %+v in %+v", c, entry)
		}
		_, revision := w.value()
		w.looked(func() int64 { return 0 })
		if _, now := w.value(); now != revision {
			t.Errorf("they write over each other: revision %d after %d", now, revision)
		}
	})
}

func TestWhatOthersWroteIntoAnEntryStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := client[*site](w, w.js, sitesConfig)
		w.must(bucketOf(w.js).open(t.Context(), entity.Config{Storage: jetstream.MemoryStorage}))
		w.put(`{"schemaVersion":1,"kind":"Site","apiVersion":"example.com/v1","bucket":"sites","icon":{"big":12345678901234567890},
		"describedBy":"gone","controllers":[{"name":"zz","lang":"rust","since":"2026-01-01T00:00:00Z","owns":[{"in":"moon"}]},
		{"name":"sites","statusBucket":"sites-status","contact":"me@example.com","filter":"old.>"}]}`)
		run(w, "sites", sites, Publish(Options{Interval: soon}))
		entry := w.published("it is published", func(e *Entry) bool { return e.DescribedBy == "sites" })
		value, _ := w.value()
		for _, part := range []string{
			`"icon":{"big":12345678901234567890}`, `"lang":"rust"`, `"owns":[{"in":"moon"}]`, `"contact":"me@example.com"`,
		} {
			if !strings.Contains(value, part) {
				t.Errorf("%s is lost: %s", part, value)
			}
		}
		if c := entry.Controllers[0]; c.Filter != "" {
			t.Errorf("its own part keeps what it does not say any more: %+v", c)
		}
	})
}

func TestWhatCannotBePublishedIsToldOnceAndNothingElse(t *testing.T) {
	full := func(w *world) {
		_, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: "KV_" + Bucket, Subjects: []string{"$KV." + Bucket + ".>"}, MaxMsgsPerSubject: 1, MaxBytes: 200,
			Discard: jetstream.DiscardNew, AllowMsgTTL: true, DenyDelete: true, Storage: jetstream.MemoryStorage,
		})
		w.must(err)
	}
	holding := func(value string) func(*world) {
		return func(w *world) {
			w.must(bucketOf(w.js).open(w.Context(), entity.Config{Storage: jetstream.MemoryStorage}))
			w.put(value)
		}
	}
	for name, test := range map[string]struct {
		prepare func(*world)
		options Options
		denied  string // to publish to
		says    string
	}{
		"no bucket, and none may be made": {options: Options{BindOnly: true}, says: "does not exist"},
		"no permission to make it":        {denied: "$JS.API.STREAM.CREATE.KV_" + Bucket, says: "grant the user"},
		"no permission to read it":        {denied: "$JS.API.STREAM.MSG.GET.KV_" + Bucket, says: "grant the user"},
		"no permission to write":          {denied: "$KV." + Bucket + ".>", says: "grant the user"},
		"a full bucket":                   {prepare: full, says: "maximum bytes exceeded"},
		"garbage":                         {prepare: holding("{\"kind\":\x00"), says: "nats kv del nagi-kinds Site.example.com"},
		"a list":                          {prepare: holding(`[]`), says: "holds no entry"},
		"controllers that are none": {says: "member controllers is of another type",
			prepare: holding(`{"schemaVersion":1,"kind":"Site","apiVersion":"example.com/v2","bucket":"sites","controllers":{}}`)},
		"a newer version": {prepare: holding(`{"schemaVersion":2,"kind":{}}`), says: "schemaVersion 2"},
		"another bucket": {says: "different groups", prepare: holding(`{"schemaVersion":1,"kind":"Site",
			"apiVersion":"example.com/v1","bucket":"other","describedBy":"x","controllers":[{"name":"x"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, natstest.WithConfig(func(o *server.Options) {
					denied := &server.Permissions{Publish: &server.SubjectPermission{}}
					if test.denied != "" {
						denied.Publish.Deny = []string{test.denied}
					}
					o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "user", Password: "x", Permissions: denied}}
					o.NoAuthUser = "admin"
				}))
				if test.prepare != nil {
					test.prepare(w)
				}
				before := ""
				if test.prepare != nil && name != "a full bucket" {
					before, _ = w.value()
				}
				var denials atomic.Int64
				user := w.connect(nats.UserInfo("user", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {
					denials.Add(1)
				}))
				sites := client[*site](w, user, sitesConfig)
				test.options.Interval = soon
				c := run(w, "sites", sites, Publish(test.options))
				says := func(told string) bool { return strings.Contains(told, test.says) }
				natstest.Eventually(w, "it is told", func() bool { return slices.ContainsFunc(c.log.errors(), says) })
				w.must(sites.Create(t.Context(), &site{ObjectMeta: named("home")}))
				w.must(entity.WaitReconciled(t.Context(), sites, "home", 1))
				w.looked(denials.Load)
				// A request that had no answer in time is told, too, and then the problem again.
				told, said, late := c.log.errors(), 0, 0
				for _, text := range told {
					if says(text) {
						said++
					} else if strings.Contains(text, context.DeadlineExceeded.Error()) {
						late++
					}
				}
				if said+late != len(told) || said > 1+late {
					t.Errorf("told %q, want one that says %q", told, test.says)
				}
				if degraded := c.Stats().Degraded; len(degraded) > 0 {
					t.Errorf("degraded: %v", degraded)
				}
				if test.denied != "" && denials.Load() == 0 {
					t.Error("nothing was denied")
				}
				if before != "" {
					if after, _ := w.value(); after != before {
						t.Errorf("it was written over: %s", after)
					}
				}
				c.stop()
			})
		})
	}
}

func TestOnceThePermissionIsThereItIsPublished(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{BindOnly: true, Interval: soon}))
		natstest.Eventually(w, "it is told", func() bool { return len(c.log.errors()) > 0 })
		w.must(bucketOf(w.js).open(t.Context(), entity.Config{Storage: jetstream.MemoryStorage}))
		w.published("it is published", anything)
	})
}

func TestAKindOfWhichNothingIsKnownHasNoSchema(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := sitesConfig
		cfg.StatusBucket = entity.NoStatusBucket
		run(w, "sites", client[*unstructured.Unstructured](w, w.js, cfg), controller.WithoutTeardown(),
			Publish(Options{Interval: soon}))
		entry := w.published("it is published", anything)
		if entry.Schema != nil || entry.StatusBucket != "" || entry.Controllers[0].StatusBucket != "" {
			t.Errorf("the entry is %+v", entry)
		}
	})
}

func TestManyControllersOfOneKindWriteAtOnce(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 8
		for i := range many {
			cfg := sitesConfig
			cfg.StatusBucket = fmt.Sprintf("status-%d", i)
			run(w, fmt.Sprintf("c%d", i), client[*site](w, w.js, cfg), Publish(Options{Interval: soon}))
		}
		w.published("all are there", func(e *Entry) bool { return len(e.Controllers) == many })
	})
}

func TestNewSaysWhatIsWrongWithTheOptions(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := client[*site](w, w.js, sitesConfig)
		reconciler := controller.ReconcilerFunc(func(context.Context, controller.Request) (controller.Result, error) {
			return controller.Result{}, nil
		})
		for says, o := range map[string]Options{
			"no name":     {Columns: []Column{{Path: "$.spec", Type: "string"}}},
			"begins with": {Columns: []Column{{Name: "A", Path: ".spec", Type: "string"}}},
			"the type":    {Columns: []Column{{Name: "A", Path: "$.spec", Type: "text"}}},
			"negative":    {Interval: -1},
		} {
			if _, err := controller.New("sites", sites, reconciler, Publish(o)); err == nil ||
				!strings.Contains(err.Error(), says) {
				t.Errorf("New says %v, want %q", err, says)
			}
		}
		hidden := hiding{sites}
		if _, err := controller.New("sites", hidden, reconciler, Publish(Options{})); err == nil ||
			!strings.Contains(err.Error(), "Options.JetStream") {
			t.Errorf("New says %v", err)
		}
	})
}

// hiding is a client that does not tell its connection.
type hiding struct{ entity.IEntityClient[*site] }

func (h hiding) EnginePort() entity.EnginePort[*site] {
	return hidingPort{h.IEntityClient.EnginePort()}
}

type hidingPort struct{ entity.EnginePort[*site] }

func (hidingPort) JetStream() jetstream.JetStream { return nil }

func TestOfTwoGroupsEachHasItsKey(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		for want, of := range map[string][2]string{
			"Site": {"Site", ""}, "Site.example.com": {"Site", "example.com/v1"},
			"Web=2Esite": {"Web.site", "v1"}, "Web.site": {"Web", "site/v1"}, "S=C3=AFte": {"Sïte", ""},
			"A=3D2E": {"A=2E", ""}, "A.=2Ex=2E=2E": {"A", ".x../v1"},
		} {
			if got := Key(of[0], of[1]); got != want {
				t.Errorf("the key of %q is %q, want %q", of, got, want)
			}
		}
	})
}

func TestAReaderIsToldOfInvalidEntriesAndGetsTheOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if kinds, err := List(t.Context(), w.js); err != nil || len(kinds.Entries) > 0 {
			t.Errorf("without a bucket there are %+v, %v", kinds, err)
		}
		run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{}))
		w.published("it is published", anything)
		kv, err := w.js.KeyValue(t.Context(), Bucket)
		w.must(err)
		for key, value := range map[string]string{
			"Garbage": `{`, "Newer": `{"schemaVersion":3}`, "Other": `{"schemaVersion":1,"kind":"Site","bucket":"b"}`,
		} {
			_, err := kv.PutString(t.Context(), key, value)
			w.must(err)
		}
		_, err = kv.PutString(t.Context(), "Deleted", `{}`)
		w.must(err)
		w.must(kv.Delete(t.Context(), "Deleted"))
		kinds, err := List(t.Context(), w.js)
		w.must(err)
		if len(kinds.Entries) != 1 || kinds.Entries[0].Kind != "Site" || kinds.More != 0 {
			t.Errorf("found %+v", kinds)
		}
		var invalid []string
		for _, i := range kinds.Invalid {
			invalid = append(invalid, i.Key)
			if i.Err == nil {
				t.Errorf("%s: no error", i.Key)
			}
		}
		if !slices.Equal(invalid, []string{"Garbage", "Newer", "Other"}) {
			t.Errorf("invalid: %q", invalid)
		}
		if err := json.Unmarshal(kinds.Entries[0].Schema, &map[string]any{}); err != nil {
			t.Error(err)
		}
	})
}

// TestReplicasWithoutALeaseDoNotWriteOverEachOther: all of them work, and two binaries say two things. The one that
// started last is heard, and each brings back what was deleted.
func TestReplicasWithoutALeaseDoNotWriteOverEachOther(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := sitesConfig
		cfg.StatusBucket = entity.NoStatusBucket
		start := func(version string) {
			run(w, "sites", client[*site](w, w.js, cfg), controller.WithoutTeardown(),
				Publish(Options{Version: version, Interval: soon}))
			w.published(version+" is published", func(e *Entry) bool { return e.Controllers[0].Version == version })
		}
		start("v1")
		start("v2")
		_, revision := w.value()
		w.looked(func() int64 { return 0 })
		entry := w.published("it is there", anything)
		if _, now := w.value(); now != revision || entry.Controllers[0].Version != "v2" || len(entry.Controllers) != 1 {
			t.Errorf("revision %d after %d: %+v", now, revision, entry.Controllers)
		}
		kv, err := w.js.KeyValue(t.Context(), Bucket)
		w.must(err)
		w.must(kv.Delete(t.Context(), "Site.example.com"))
		w.published("it is there again", func(e *Entry) bool { return len(e.Controllers) == 1 })
	})
}

// TestTheRegistrysBucketHasASizeWhereThePrimarysHas: an account may want a size of every stream.
func TestTheRegistrysBucketHasASizeWhereThePrimarysHas(t *testing.T) {
	for name, test := range map[string]struct{ primary, options, want int64 }{
		"the default":   {64 << 20, 0, DefaultMaxBytes},
		"the primary's": {1 << 20, 0, 1 << 20},
		"its own":       {1 << 20, 32 << 20, 32 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, natstest.WithConfigText(`accounts: { A: { jetstream: { max_bytes_required: true },
					users: [ { user: a, password: a } ] } }, no_auth_user: a`))
				cfg := sitesConfig
				cfg.MaxBytes = test.primary
				run(w, "sites", client[*site](w, w.js, cfg), Publish(Options{Interval: soon, MaxBytes: test.options}))
				w.published("the kind is published", anything)
				stream, err := w.js.Stream(t.Context(), "KV_"+Bucket)
				w.must(err)
				if got := stream.CachedInfo().Config.MaxBytes; got != test.want {
					t.Errorf("the bucket has %d bytes, want %d", got, test.want)
				}
			})
		})
	}
}
