package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	server "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/micro"
)

// readerSet is what a user needs who looks at websites with this tool, and changes nothing.
func readerSet(t *testing.T) entity.PermissionSet {
	t.Helper()
	kinds, err1 := registry.Permissions(entity.RoleReader)
	documents, err2 := entity.Permissions(entity.Config{Bucket: "websites", Namespaced: true}, entity.RoleReader)
	asks, err3 := service.Config{}.CallerPermissions(entity.RoleReader)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return kinds.Join(documents, asks, entity.PermissionSet{Publish: recorder.Config{}.ListSubjects()})
}

// inWorldOf is inWorld with a user "reader" who has these permissions. Who does not say who he is may do all.
func inWorldOf(t *testing.T, set entity.PermissionSet, test func(w *world)) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t, natstest.WithConfig(func(o *server.Options) {
			o.NoAuthUser = "all"
			o.Users = []*server.User{{Username: "all", Password: "all"}, {
				Username: "reader", Password: "reader", Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: set.Publish},
					Subscribe: &server.SubjectPermission{Allow: set.Subscribe},
				},
			}}
		}))
		w.everyday()
		test(w)
	})
}

func asReader(args ...string) []string {
	return append([]string{"--user", "reader", "--password", "reader", "--inbox-prefix", "_INBOX_reader"}, args...)
}

func TestWhoMayReadMayAskAll(t *testing.T) {
	inWorldOf(t, readerSet(t), func(w *world) {
		w.wantIn(w.ok(asReader("why", "websites/shop/blog")...), "parked", "nagi unpark")
		w.wantIn(w.ok(asReader("why")...), "parked", "retry")
		w.wantIn(w.ok(asReader("top")...), "websites", "1 ")
		w.event("Website", "shop", "a", "Reason", "text", time.Now(), 1)
		w.wantIn(w.ok(asReader("events")...), "Reason")
		if r := w.follows(false, 4*time.Second, nil, asReader("events", "-f")...); r.code != 0 ||
			!strings.Contains(r.out, "Reason") {
			t.Errorf("followed: %+v", r)
		}
		r := w.nagi(asReader("doctor", "-v", "-o", "json")...)
		if strings.Contains(r.out, "grant") || r.code != CodeNotSo {
			t.Errorf("code %d, %s\n%s", r.code, r.err, r.out)
		}
	})
}

func TestDoctorNamesTheRightsThatAreMissing(t *testing.T) {
	set := readerSet(t)
	var less []string
	for _, subject := range set.Publish {
		if !strings.HasPrefix(subject, "nagi.") && !strings.HasPrefix(subject, "$SRV.") &&
			!strings.Contains(subject, "CONSUMER.CREATE.KV_websites-status") && !strings.Contains(subject, "NAGI_EVENTS") {
			less = append(less, subject)
		}
	}
	set.Publish = less
	inWorldOf(t, set, func(w *world) {
		began := time.Now()
		r := w.nagi(asReader("doctor", "-o", "json")...)
		var all []finding
		w.must(json.Unmarshal([]byte(r.out), &all))
		wantFinding(t, all, isWarning, "rights", "websites", "nagi.websites.read.stats")
		wantFinding(t, all, isWarning, "rights", "websites-status", "$JS.API.CONSUMER.CREATE.KV_websites-status.")
		wantFinding(t, all, isInfo, "rights", "$SRV.INFO")
		if r := w.nagi(asReader("why", "websites/shop/blog")...); r.code != CodeForbidden ||
			!strings.Contains(r.out, "Terminal") || !strings.Contains(r.err, "nagi.websites.read.explain") {
			t.Errorf("%+v", r)
		}
		if r := w.nagi(asReader("events")...); r.code != CodeForbidden ||
			!strings.Contains(r.err, "$JS.API.CONSUMER.CREATE.NAGI_EVENTS.>") {
			t.Errorf("%+v", r)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v: a denied request is told at once", took)
		}
	})
}

func TestAnEngagedBrakeIsFound(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 12 {
			w.put("websites", fmt.Sprintf("shop.s%d", i), `{"spec":{"host":"s.example","pages":1}}`)
		}
		time.Sleep(10 * time.Second)
		w.stopController()
		stream, err := w.js.Stream(w.Context(), "KV_websites")
		w.must(err)
		w.must(stream.Purge(w.Context()))
		w.startController()
		time.Sleep(20 * time.Second)
		wantFinding(t, w.findings(), isError, "brake", "12 deletes", "nagi brake Website.example.com")
		said := w.ok("why", "websites/shop/s3")
		w.wantIn(said, "held", "waits for", "nagi restore Website.example.com")
		if at := strings.Index(said, "nagi brake release"); at < strings.Index(said, "nagi restore") {
			t.Errorf("what deletes does not come last:\n%s", said)
		}
		w.wantIn(w.ok("top"), "holds 12", "nagi brake Website.example.com")
		w.wantIn(w.ok("why"), "12 ", "held")
	})
}

func TestAStandbyIsNoSecondAnswer(t *testing.T) {
	inWorld(t, func(w *world) {
		leader := w.stop
		w.startController()
		time.Sleep(5 * time.Second)
		var rows []row
		w.must(json.Unmarshal([]byte(w.ok("top", "-o", "json")), &rows))
		if len(rows) != 1 || len(rows[0].Replicas) != 2 {
			t.Errorf("%+v", rows)
		}
		leader()
		time.Sleep(20 * time.Second)
		w.wantIn(w.ok("why", "websites/shop/blog"), "parked")
	})
}

func TestDoctorFindsReplicasOfOtherVersions(t *testing.T) {
	inWorld(t, func(w *world) {
		other, err := micro.AddService(w.nc, micro.Config{Name: "nagi", Version: "9.9.9", QueueGroupDisabled: true})
		w.must(err)
		w.Cleanup(func() { _ = other.Stop() })
		w.must(other.AddGroup("nagi.websites").AddEndpoint("stats", micro.HandlerFunc(func(micro.Request) {}),
			micro.WithEndpointSubject("read.stats")))
		wantFinding(t, w.findings(), isWarning, "versions", "websites", "1 of 0.0.0, 1 of 9.9.9")
	})
}
