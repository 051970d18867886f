package registry

import (
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
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// about are the lines of a log about who describes the kind.
func (l *lines) about() (told []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if text := fmt.Sprint(line); line["describer"] != nil {
			told = append(told, text)
		}
	}
	return told
}

// warnings are a recorder that counts the events about who describes a kind.
type warnings struct{ atomic.Int64 }

func (w *warnings) Event(_ kruntime.Object, eventType, reason, _ string) {
	if eventType == "Warning" && reason == ReasonDescriberNotThere {
		w.Add(1)
	}
}

// ghost is an entry that a controller is said to describe.
func ghost(statusBucket, bucket string) string {
	status := ""
	if statusBucket != "" {
		name, _ := json.Marshal(statusBucket)
		status = fmt.Sprintf(`"statusBucket":%s,`, name)
	}
	return fmt.Sprintf(`{"schemaVersion":1,"kind":"Site","apiVersion":"example.com/v1","bucket":%q,"namespaced":false,
		"describedBy":"ghost",%s"schema":{"title":"ghost"},"controllers":[{%s"name":"ghost"}]}`, bucket, status, status)
}

// TestAnInventedControllerDoesNotDescribeAKind: who may write the registry alone can say that another controller
// describes a kind. A status bucket that is not there, or is another controller's, shows that there is none. Where that
// cannot be told the entry stays, and that is told, once.
func TestAnInventedControllerDoesNotDescribeAKind(t *testing.T) {
	holds := func(bucket, controller string) func(*world) {
		return func(w *world) {
			kv, err := w.js.CreateKeyValue(w.Context(), jetstreamKV(bucket, nil))
			w.must(err)
			if controller != "" {
				_, err = kv.PutString(w.Context(), "_nagi.controller", controller)
				w.must(err)
			}
		}
	}
	for name, test := range map[string]struct {
		prepare      func(*world)
		statusBucket string
		bucket       string // of the documents, as it says
		denied       bool   // to look
		ours         bool   // the kind is described by our controller
		says         string // in the one line; "": there is none
	}{
		"no status bucket of that name":   {statusBucket: "ghost-status", ours: true, says: "not there"},
		"another controller's":            {holds("ghost-status", "other"), "ghost-status", "", false, true, "not there"},
		"a name that no bucket can have":  {statusBucket: "a.> b", ours: true, says: "not there"},
		"another bucket of documents":     {statusBucket: "ghost-status", bucket: "other", ours: true, says: "not there"},
		"it is there":                     {prepare: holds("ghost-status", "ghost"), statusBucket: "ghost-status"},
		"nothing says whose bucket it is": {holds("ghost-status", ""), "ghost-status", "", false, false, "cannot be told"},
		"it has no status bucket":         {says: "cannot be told"},
		"no right to look": {statusBucket: "ghost-status", denied: true,
			says: "$JS.API.STREAM.MSG.GET.KV_ghost-status"},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w := newWorld(t, natstest.WithConfig(func(o *server.Options) {
					denied := &server.Permissions{Publish: &server.SubjectPermission{}}
					if test.denied {
						denied.Publish.Deny = []string{"$JS.API.STREAM.MSG.GET.KV_ghost-status"}
					}
					o.Users = []*server.User{
						{Username: "admin", Password: "x"}, {Username: "user", Password: "x", Permissions: denied}}
					o.NoAuthUser = "admin"
				}))
				if test.prepare != nil {
					test.prepare(w)
				}
				w.must(bucketOf(w.js).open(w.Context(), entity.Config{Storage: jetstream.MemoryStorage}))
				bucket := test.bucket
				if bucket == "" {
					bucket = "sites"
				}
				w.put(ghost(test.statusBucket, bucket))
				var complaints atomic.Int64
				user := w.connect(nats.UserInfo("user", "x"), nats.ErrorHandler(
					func(*nats.Conn, *nats.Subscription, error) { complaints.Add(1) }))
				var warned warnings
				c := run(w, "sites", client[*site](w, user, sitesConfig), Publish(Options{Interval: time.Minute}),
					controller.WithEventRecorder(&warned))
				natstest.Eventually(w, "it leads", func() bool { return c.Stats().Leading })
				time.Sleep(10 * time.Minute)
				entry := w.published("it is published", func(e *Entry) bool { return len(e.Controllers) == 2 })
				by, title := "ghost", true
				if test.ours {
					by, title = "sites", false
				}
				if entry.DescribedBy != by || strings.Contains(string(entry.Schema), "ghost") != title ||
					test.ours && (entry.StatusBucket != "sites-status" || entry.Bucket != "sites") {
					t.Errorf("the entry is %+v", entry)
				}
				told := c.log.about()
				if test.says == "" && len(told) > 0 ||
					test.says != "" && (len(told) != 1 || !strings.Contains(told[0], test.says)) {
					t.Errorf("told %q", told)
				}
				if test.ours != (warned.Load() == 1) {
					t.Errorf("%d events", warned.Load())
				}
				if errs := c.log.errors(); len(errs) > 0 || complaints.Load() > 0 {
					t.Errorf("told %q; the connection has told of %d denials", errs, complaints.Load())
				}
			})
		})
	}
}

// TestOfTwoControllersTheFirstDescribesWhileItIsThere, also while it does not run. Once its status bucket is gone the
// other one takes over within the interval, and keeps it when the first comes back.
func TestOfTwoControllersTheFirstDescribesWhileItIsThere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		checks := sitesConfig
		checks.StatusBucket = "checks-status"
		first := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: time.Minute}))
		w.published("the first is there", anything)
		second := run(w, "checks", client[*site](w, w.js, checks), Publish(Options{Interval: time.Minute}))
		by := func(name string) func(*Entry) bool {
			return func(e *Entry) bool { return len(e.Controllers) == 2 && e.DescribedBy == name }
		}
		w.published("both are there", by("sites"))
		first.stop()
		time.Sleep(10 * time.Minute)
		w.published("the first describes", by("sites"))
		if told := second.log.about(); len(told) > 0 {
			t.Errorf("told %q", told)
		}
		w.must(w.js.DeleteStream(t.Context(), "KV_sites-status"))
		time.Sleep(2 * time.Minute)
		w.published("the second describes", by("checks"))
		back := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: time.Minute}))
		time.Sleep(10 * time.Minute)
		w.published("the second describes still", by("checks"))
		if told := append(second.log.about(), back.log.about()...); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
}

// by are the controllers that described the kind, one after another, as seen each second for a while.
func (w *world) by(registry jetstream.JetStream, during time.Duration) (names []string) {
	w.Helper()
	for began := time.Now(); time.Since(began) < during; time.Sleep(time.Second) {
		entry, err := Get(w.Context(), registry, "Site", "example.com/v1")
		w.must(err)
		if n := len(names); n == 0 || names[n-1] != entry.DescribedBy {
			names = append(names, entry.DescribedBy)
		}
	}
	return names
}

// TestTwoLivingControllersDoNotTakeTurns where the registry is in another account than their own buckets: neither can
// see the status bucket of the other one. Each says once that it cannot tell.
func TestTwoLivingControllersDoNotTakeTurns(t *testing.T) {
	checks := sitesConfig
	checks.StatusBucket = "checks-status"
	natstest.Test(t, func(t *testing.T) {
		hub, a, b := newWorld(t), newWorld(t), newWorld(t)
		options := Publish(Options{Interval: time.Minute, JetStream: hub.js})
		first := run(a, "sites", client[*site](a, a.js, sitesConfig), options)
		hub.published("the first is there", anything)
		options = Publish(Options{Interval: time.Minute, JetStream: hub.js})
		second := run(b, "checks", client[*site](b, b.js, checks), options)
		hub.published("both are there", func(e *Entry) bool { return len(e.Controllers) == 2 })
		if by := hub.by(hub.js, 10*time.Minute); !slices.Equal(by, []string{"sites"}) {
			t.Errorf("one after another the kind was described by %q", by)
		}
		if told := first.log.about(); len(told) > 0 {
			t.Errorf("the first has told %q", told)
		}
		if told := second.log.about(); len(told) != 1 || !strings.Contains(told[0], "Options.JetStream") {
			t.Errorf("the second has told %q", told)
		}
	})
}

// TestAControllerThatDescribesAgainLives: another one has displaced it, as its status bucket was not there. That it is
// named again shows that it writes the registry, so it stays, whatever became of that bucket. That is told once.
func TestAControllerThatDescribesAgainLives(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		checks := sitesConfig
		checks.StatusBucket = "checks-status"
		first := run(w, "sites", client[*site](w, w.js, sitesConfig), Publish(Options{Interval: time.Minute}))
		w.published("the first is there", anything)
		second := run(w, "checks", client[*site](w, w.js, checks), Publish(Options{Interval: time.Minute}))
		w.published("both are there", func(e *Entry) bool { return len(e.Controllers) == 2 })
		first.stop()
		before, _ := w.value()
		w.must(w.js.DeleteStream(t.Context(), "KV_sites-status"))
		if by := w.by(w.js, 10*time.Minute); !slices.Equal(by, []string{"sites", "checks"}) {
			t.Errorf("without its status bucket the kind was described by %q", by)
		}
		if told := second.log.about(); len(told) != 1 || !strings.Contains(told[0], "was removed") ||
			!strings.Contains(told[0], "another account") {
			t.Errorf("without the status bucket of the first it told %q", told)
		}
		w.put(before) // as the first does where it finds that the second is not there
		if by := w.by(w.js, 10*time.Minute); !slices.Equal(by, []string{"sites"}) {
			t.Errorf("described again, the kind was described by %q", by)
		}
		if told := second.log.about(); len(told) != 2 || !strings.Contains(told[1], "again") {
			t.Errorf("told %q", told)
		}
	})
}
