package recorder_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/test/natstest"
)

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestRecordingReturnsAtOnceAndStaysSmallWhileTheServerIsDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const events, queue = 3_000, 500
		rec, srv, _ := start(t, recorder.Config{QueueSize: queue})
		rec.Event(website("", "before"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the first event is published", func() bool { return rec.Stats().NATS.Published == 1 })
		srv.Stop()

		before := heap()
		begin := time.Now()
		for i := range events {
			message := fmt.Sprint(i, strings.Repeat("x", 20_000)) // 60 MB, if they were kept
			rec.Event(website("", fmt.Sprintf("site-%d", i)), corev1.EventTypeNormal, "Synced", message)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("recording took %v", took)
		}
		wantNow(t, "the queue is looked at", func() bool { return rec.Stats().NATS.Pending <= queue })
		grown := int64(heap()) - int64(before)
		// Most of it is what the queue holds, 10 MB, and client-go's memory of up to 4,096 objects, for counting.
		if grown > 32<<20 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		s := rec.Stats().NATS
		accounted(t, s)
		if s.Published < queue || s.Dropped == 0 {
			t.Errorf("what fitted did not arrive: %+v", s)
		}
		newest := list(t, rec, "Website", "")
		if uint64(len(newest)) != s.Published-1 && uint64(len(newest)) != s.Published {
			t.Errorf("%d events are stored, %d were published", len(newest), s.Published)
		}
	})
}

func TestAFullQueueDropsAndDoesNotWait(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		rec, _, _ := start(t, recorder.Config{QueueSize: 10, Correlator: record.CorrelatorOptions{
			KeyFunc: func(e *corev1.Event) (string, string) { // holds up the only reader of the queue
				<-release
				return record.EventAggregatorByReasonFunc(e)
			},
		}})
		record := func(n int) {
			rec.Event(website("", fmt.Sprint("site-", n)), corev1.EventTypeNormal, "Synced", "done")
		}
		record(0)
		synctest.Wait() // it is out of the queue, and held up
		recorded := make(chan struct{})
		go func() {
			defer close(recorded)
			for i := range 99 {
				record(i + 1)
			}
		}()
		synctest.Wait()
		select {
		case <-recorded:
		default:
			t.Error("Event waits for room in the queue")
		}
		if s := rec.Stats().NATS; s.Recorded != 100 || s.Dropped != 89 {
			t.Errorf("%+v", s)
		}
		close(release)
		<-recorded
		flush(t, rec)
		accounted(t, rec.Stats().NATS)
	})
}

func TestRepeatsDuringAnOutageTakeTheRoomOfOne(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, srv, js := start(t, recorder.Config{QueueSize: 30})
		site := website("", "blog")
		rec.Event(site, corev1.EventTypeWarning, "Failed", "again")
		wantNow(t, "the first is published", func() bool { return rec.Stats().NATS.Published == 1 })
		srv.Stop()
		wantNow(t, "the client noticed", func() bool { return !js.Conn().IsConnected() })
		sent := js.Conn().Stats().OutMsgs
		for range 20 {
			rec.Event(site, corev1.EventTypeWarning, "Failed", "again")
		}
		wantNow(t, "the repeats are merged", func() bool { return rec.Stats().NATS.Pending == 1 })
		if now := js.Conn().Stats().OutMsgs; now != sent {
			t.Errorf("%d messages fill the reconnect buffer of the user's connection", now-sent)
		}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		if events := list(t, rec, "Website", "blog"); len(events) != 1 || events[0].Count != 21 {
			t.Errorf("%+v", events)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestTheOldestEventsGiveWayInAnOutage(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, srv, js := start(t, recorder.Config{QueueSize: 5})
		streamReady(t, js)
		srv.Stop()
		wantNow(t, "the client noticed", func() bool { return !js.Conn().IsConnected() })
		for i := range 20 {
			for range 2 { // the repeat is merged once the first one has its place
				rec.Event(website("", fmt.Sprint("site-", i)), corev1.EventTypeNormal, "Synced", "done")
			}
			wantNow(t, "the event waits to be sent", func() bool { return rec.Stats().NATS.Merged == uint64(i+1) })
		}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		var got []string
		for _, e := range list(t, rec, "", "") {
			got = append(got, e.InvolvedObject.Name)
		}
		if want := "[site-15 site-16 site-17 site-18 site-19]"; fmt.Sprint(got) != want {
			t.Errorf("%v are stored, want %s", got, want)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestNoEventIsLostWhenTheServerRestarts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, srv, _ := start(t, recorder.Config{})
		const events = 300
		var restarts sync.WaitGroup
		restarts.Go(func() {
			for range 3 {
				time.Sleep(events / 4 * time.Millisecond)
				if err := srv.Restart(); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range events {
			rec.Event(website("", fmt.Sprintf("site-%d", i)), corev1.EventTypeNormal, "Synced", "done")
			time.Sleep(time.Millisecond)
		}
		restarts.Wait()
		flush(t, rec)
		if stored := list(t, rec, "Website", ""); len(stored) != events {
			t.Errorf("%d events of %d are stored: %+v", len(stored), events, rec.Stats())
		}
		if s := rec.Stats().NATS; s.Published != events {
			t.Errorf("%+v", s)
		}
	})
}

func TestARecorderStartsBeforeItsServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		srv.Stop()
		rec := newRecorder(t, recorder.Config{JetStream: js})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		if events := list(t, rec, "Website", "blog"); len(events) != 1 {
			t.Errorf("%+v", events)
		}
	})
}

func TestCloseKeepsItsDeadlineAndSaysWhatIsLost(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, srv, js := start(t, recorder.Config{})
		streamReady(t, js)
		srv.Stop()
		for i := range 10 {
			rec.Event(website("", fmt.Sprintf("site-%d", i)), corev1.EventTypeNormal, "Synced", "done")
		}
		begin := time.Now()
		err := closeWithin(rec, 300*time.Millisecond)
		if took := time.Since(begin); took != 300*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "10 events") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		rec.Event(website("", "late"), corev1.EventTypeNormal, "Synced", "done")
		if s := rec.Stats().NATS; s.Dropped != 11 {
			t.Errorf("%+v", s)
		}
		accounted(t, rec.Stats().NATS)
		if again := rec.Close(t.Context()); again == nil || again.Error() != err.Error() {
			t.Errorf("the second Close: %v", again)
		}
	})
}

func TestCloseDoesNotWaitForAConnectionThatIsClosed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		nc, js := natstest.Connect(t, srv.URL())
		rec := newRecorder(t, recorder.Config{JetStream: js})
		streamReady(t, js)
		nc.Close()
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		if err := rec.Close(context.Background()); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestAStreamDeletedByHandIsCreatedAgain(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		rec, _, js := start(t, recorder.Config{})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the event is published", func() bool { return rec.Stats().NATS.Published == 1 })
		if err := js.DeleteStream(t.Context(), recorder.DefaultStream); err != nil {
			t.Fatal(err)
		}
		rec.Event(website("", "shop"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)
		if events := list(t, rec, "", ""); len(events) != 1 || events[0].InvolvedObject.Name != "shop" {
			t.Errorf("%+v", events)
		}
	})
}

func TestAStreamThatDoesNotFitIsReportedAndNotChanged(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		config := jetstream.StreamConfig{Name: "MINE", Subjects: []string{"nagi.>"}, MaxMsgsPerSubject: 5}
		made, err := js.CreateStream(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		log := &errorLog{}
		rec := newRecorder(t, recorder.Config{JetStream: js, Stream: "MINE", Logger: log.logger()})
		for i := range 3 {
			rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
			wantNow(t, "it is published", func() bool { return rec.Stats().NATS.Published == uint64(i+1) })
		}
		flush(t, rec)
		for _, words := range []string{
			"max messages per subject is 5", "max age is unlimited", "max bytes is unlimited", "nats stream edit",
		} {
			if rec.Err() == nil || !strings.Contains(rec.Err().Error(), words) || len(log.with(words)) != 1 {
				t.Errorf("%q is missing in %v, or not once in the log", words, rec.Err())
			}
		}
		if strings.Contains(rec.Err().Error(), "subjects") {
			t.Errorf("the subjects fit: %v", rec.Err())
		}
		now, err := js.Stream(t.Context(), "MINE")
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprint(made.CachedInfo().Config), fmt.Sprint(now.CachedInfo().Config); a != b {
			t.Errorf("changed from %s to %s", a, b)
		}
		if events := list(t, rec, "Website", "blog"); len(events) != 1 || events[0].Count != 3 {
			t.Errorf("List should show the latest of each event: %+v", events)
		}
	})
}

func TestAnotherStreamOnTheSubjectsIsNamed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		_, js := natstest.Connect(t, srv.URL())
		all := jetstream.StreamConfig{Name: "ALL", Subjects: []string{"nagi.>"}}
		if _, err := js.CreateStream(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		log := &errorLog{}
		rec := newRecorder(t, recorder.Config{JetStream: js, Logger: log.logger()})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "what to do is said", func() bool { return len(log.with("nats stream find --subject")) == 1 })
		wantNow(t, "the other stream is named", func() bool {
			err := rec.Err()
			return err != nil && strings.Contains(err.Error(), "stored by the stream ALL instead of NAGI_EVENTS")
		})
	})
}

// user lets the user c publish on these subjects and subscribe on inboxes.
func user(allow ...string) natstest.Option {
	return natstest.WithConfig(func(o *server.Options) {
		o.Users = []*server.User{{Username: "c", Password: "c", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: allow},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}, {Username: "admin", Password: "admin"}}
	})
}

func TestTheDocumentedPermissionsSuffice(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, user(
			"nagi.events.>", "$JS.API.STREAM.INFO.NAGI_EVENTS", "$JS.API.STREAM.CREATE.NAGI_EVENTS",
			"$JS.API.CONSUMER.CREATE.NAGI_EVENTS.>", "$JS.API.CONSUMER.MSG.NEXT.NAGI_EVENTS.*",
			"$JS.API.CONSUMER.INFO.NAGI_EVENTS.*", "$JS.API.CONSUMER.DELETE.NAGI_EVENTS.*"))
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("c", "c"))
		rec := newRecorder(t, recorder.Config{JetStream: js})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)
		if events := list(t, rec, "Website", "blog"); len(events) != 1 {
			t.Errorf("%+v", events)
		}
		stream, err := js.Stream(t.Context(), recorder.DefaultStream)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Consumers; n != 0 || rec.Err() != nil || js.Conn().LastError() != nil {
			t.Errorf("%d consumers are left, Err %v, the connection's %v", n, rec.Err(), js.Conn().LastError())
		}
	})
}

func TestListNeverPassesADenialOffAsNoEvents(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, user("nagi.events.>", "$JS.API.STREAM.*.NAGI_EVENTS",
			"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.DELETE.>"))
		ignore := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("c", "c"), ignore)
		rec := newRecorder(t, recorder.Config{JetStream: js})
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)
		events, err := rec.List(t.Context(), "Website", "blog")
		if err == nil || !strings.Contains(err.Error(), `grant publish on "$JS.API.CONSUMER.MSG.NEXT.NAGI_EVENTS.*"`) {
			t.Errorf("%d events and the error %v", len(events), err)
		}
	})
}

func TestADeniedPublishIsReportedOnceAndNamesTheSubject(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, user("$JS.API.STREAM.INFO.*", "$JS.API.STREAM.CREATE.*"))
		ignore := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("c", "c"), ignore)
		log := &errorLog{}
		rec := newRecorder(t, recorder.Config{JetStream: js, Logger: log.logger()})
		for i := range 3 {
			rec.Event(website("", fmt.Sprint(i)), corev1.EventTypeNormal, "Synced", "done")
		}
		wantNow(t, "the refusal is logged", func() bool {
			return len(log.with(`grant publish on \"nagi.events.>\"`)) > 0
		})
		if !strings.Contains(rec.Err().Error(), `grant publish on "nagi.events.>"`) {
			t.Errorf("Err: %v", rec.Err())
		}
		time.Sleep(time.Minute) // it is tried again and again; the log must not grow with it
		if n := len(log.with("not recorded as they should")); n != 1 {
			t.Errorf("%d lines in the log: %q", n, log.lines)
		}
		if s := rec.Stats().NATS; s.Pending != 3 {
			t.Errorf("they should wait for the permission: %+v", s)
		}
	})
}

func TestWhoMayOnlyPublishStillRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t, user("nagi.events.>"))
		_, admin := natstest.Connect(t, srv.URL(), nats.UserInfo("admin", "admin"))
		owner := newRecorder(t, recorder.Config{JetStream: admin})
		streamReady(t, admin)
		quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
		for name, bindOnly := range map[string]bool{"bind": true, "look": false} {
			_, js := natstest.Connect(t, srv.URL(), nats.UserInfo("c", "c"), quiet)
			log := &errorLog{}
			rec := newRecorder(t, recorder.Config{JetStream: js, BindOnly: bindOnly, Logger: log.logger()})
			rec.Event(website("", name), corev1.EventTypeNormal, "Synced", "done")
			flush(t, rec)
			if events := list(t, owner, "Website", name); len(events) != 1 {
				t.Errorf("BindOnly %v: %+v", bindOnly, events)
			}
			want := 1
			if bindOnly {
				want = 0
			}
			if n := len(log.with(`grant publish on \"$JS.API.STREAM.INFO.NAGI_EVENTS\"`)); n != want {
				t.Errorf("BindOnly %v: %d reports, want %d: %q", bindOnly, n, want, log.lines)
			}
		}
	})
}

func TestWithoutJetStreamTheErrorSaysSo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		log := &errorLog{}
		rec, _, _ := start(t, recorder.Config{Logger: log.logger()}, natstest.WithoutJetStream())
		rec.Event(website("", "blog"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "it is reported", func() bool { return len(log.with("enable JetStream")) == 1 })
	})
}

func TestAnEventTheServerCannotTakeDoesNotHoldUpOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		log := &errorLog{}
		rec, _, _ := start(t, recorder.Config{Logger: log.logger()}, natstest.WithMaxPayload(1200))
		rec.Event(website("", "big"), corev1.EventTypeNormal, "Synced", strings.Repeat("x", 1000))
		rec.Event(website("", "small"), corev1.EventTypeNormal, "Synced", "done")
		flush(t, rec)
		if events := list(t, rec, "", ""); len(events) != 1 || events[0].InvolvedObject.Name != "small" {
			t.Errorf("%+v", events)
		}
		if s := rec.Stats().NATS; s.Failed != 1 || len(log.with("giving up on the event Synced about Website /big")) != 1 {
			t.Errorf("%+v %q", s, log.lines)
		}
		accounted(t, rec.Stats().NATS)
	})
}

func TestAHalfOpenConnectionBlocksNobody(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		proxy := natstest.StartProxy(t, srv.URL())
		_, js := natstest.Connect(t, proxy.URL())
		rec := newRecorder(t, recorder.Config{JetStream: js})
		rec.Event(website("", "before"), corev1.EventTypeNormal, "Synced", "done")
		wantNow(t, "the first is published", func() bool { return rec.Stats().NATS.Published == 1 })
		proxy.Blackhole()
		begin := time.Now()
		for i := range 1000 {
			rec.Event(website("", fmt.Sprint(i)), corev1.EventTypeNormal, "Synced", "done")
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("recording took %v", took)
		}
		proxy.Resume()
		flush(t, rec)
		if events := list(t, rec, "", ""); len(events) != 1001 {
			t.Errorf("%d events are stored, want 1001: %+v", len(events), rec.Stats())
		}
	})
}

// Readers of the stream get events in the order in which they happened, even if the connection was lost with events on
// the wire and others behind them.
func TestEventsSentAgainAfterALostConnectionAreStoredInOrder(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const events = 200 // more than may be on the wire
		srv := natstest.Start(t)
		var over atomic.Bool
		var lost atomic.Int64
		nc, js := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
			acknowledgement := bytes.Contains(m.Data, []byte(`"stream":"`+recorder.DefaultStream+`"`))
			if over.Load() || !acknowledgement {
				return true
			}
			lost.Add(1)
			return false
		}))
		rec := newRecorder(t, recorder.Config{JetStream: js})
		for i := range events {
			rec.Event(website("", fmt.Sprintf("site-%03d", i)), corev1.EventTypeNormal, "Synced", "done")
		}
		wantNow(t, "as many as may be are on the wire", func() bool { return lost.Load() >= 64 })
		over.Store(true)
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		flush(t, rec)
		stored := list(t, rec, "", "")
		slices.SortFunc(stored, func(a, b corev1.Event) int {
			return cmp.Or(
				cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)),
				cmp.Compare(a.ResourceVersion, b.ResourceVersion))
		})
		if len(stored) != events {
			t.Fatalf("%d events are stored, want %d: %+v", len(stored), events, rec.Stats())
		}
		for i, event := range stored {
			if want := fmt.Sprintf("site-%03d", i); event.InvolvedObject.Name != want {
				t.Fatalf("number %d of the stream is about %s, want %s", i, event.InvolvedObject.Name, want)
			}
		}
	})
}
