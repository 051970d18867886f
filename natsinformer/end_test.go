package natsinformer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/nagi-runtime/nagi/test/natstest"
)

func TestAHeartbeatBetweenMessagesIsNotTheEnd(t *testing.T) {
	const inbox = "_INBOX.x"
	message := func(n, pending int) *nats.Msg {
		return &nats.Msg{
			Subject: "$KV.b.k", Reply: fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%d.1700000000000000001.%d", 10*n, n, pending),
		}
	}
	heartbeat := func(pull string, sent, scanned int) *nats.Msg {
		return &nats.Msg{Subject: inbox + "." + pull, Header: nats.Header{
			"Status": {"100"}, "Nats-Last-Consumer": {strconv.Itoa(sent)}, "Nats-Last-Stream": {strconv.Itoa(scanned)},
		}}
	}
	for name, test := range map[string]struct {
		arrived []*nats.Msg
		end     bool
	}{
		"nothing is pending": {
			[]*nats.Msg{message(1, 7), message(2, 0), heartbeat("pull", 2, 20)}, true,
		},
		"something is pending": {
			[]*nats.Msg{message(1, 7), message(2, 6), heartbeat("pull", 2, 20)}, false,
		},
		"something is, by a wrong count": {
			[]*nats.Msg{message(1, 7), heartbeat("probe1", 1, 10), heartbeat("probe1", 1, 12)}, true,
		},
		"a message lies between two": {
			[]*nats.Msg{message(1, 7), heartbeat("probe1", 1, 10), message(2, 6), heartbeat("probe1", 2, 20)}, false,
		},
		"two, because two pulls wait": {
			[]*nats.Msg{message(1, 7), heartbeat("pull", 1, 10), heartbeat("probe1", 1, 10)}, false,
		},
		"two, because two probes wait": {
			[]*nats.Msg{message(1, 7), heartbeat("probe1", 1, 10), heartbeat("probe2", 1, 10)}, false,
		},
		"nothing has come yet": {[]*nats.Msg{heartbeat("probe1", 0, 5)}, false},
		"nothing has come, and nothing will": {
			[]*nats.Msg{heartbeat("probe1", 0, 5), heartbeat("probe1", 0, 5)}, true,
		},
		"a message is still on the way to us": {[]*nats.Msg{message(1, 0), heartbeat("pull", 0, 5)}, false},
		"it came before the message":          {[]*nats.Msg{heartbeat("pull", 0, 5), message(1, 0)}, false},
	} {
		s := &session{src: &source{}, inbox: inbox, pending: unknownPending}
		for _, m := range test.arrived {
			s.take(m)
		}
		if s.atEnd != test.end || s.failed != nil {
			t.Errorf("%s: at the end is %v, want %v; %v", name, s.atEnd, test.end, s.failed)
		}
	}
}

// TestTheCursorIsNotMisledByWhoAsksForTheConsumer: tools and monitoring ask for the INFO of consumers. The server then
// sends heartbeats to the pulls that wait, also in the middle of a backlog. A key whose first revision was replaced by
// one at the end of the backlog is in the store at neither until the end has come.
func TestTheCursorIsNotMisledByWhoAsksForTheConsumer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const between, middle = 2 * pullBatch, 10 * time.Millisecond
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage})
		put(t, kv, "k", 1)
		put(t, kv, "anchor", 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		before := r.Cursor()
		proxy.Refuse()
		replaced := put(t, kv, "k", 2)
		for i := range between {
			must(t, admin.Conn().Publish(fmt.Sprint("$KV.b.between", i), doc(i)))
		}
		put(t, kv, "k", 3)

		// Half of the backlog is delivered, and the next pulls come to the server later.
		pulls, probe, last := 0, "", delivery{}
		pull := natstest.To(nextRequests)
		proxy.Tamper(func(m *natstest.Message) natstest.Fate {
			if d, err := parseDelivery(m.Reply); err == nil {
				last = d
			}
			if !pull(m) {
				return natstest.Fate{}
			}
			if strings.Contains(m.Reply, "."+probeToken) {
				probe = m.Reply
			} else if pulls++; pulls == 1 {
				return natstest.Fate{}
			}
			return natstest.Fate{Late: middle}
		})
		proxy.Resume()
		within(t, prompt, "half of the backlog has come", func() bool {
			return r.get(fmt.Sprint("between", pullBatch-1)) != nil
		})
		synctest.Wait()
		must(t, admin.Conn().PublishMsg(&nats.Msg{Subject: probe, Header: nats.Header{
			"Status":             {"100"},
			"Nats-Last-Consumer": {strconv.FormatUint(last.consSeq, 10)},
			"Nats-Last-Stream":   {strconv.FormatUint(last.streamSeq, 10)},
		}}))
		synctest.Wait()
		if c := r.Cursor(); c != before || last.consSeq != pullBatch {
			t.Errorf("the cursor has passed from %d to %d with %d of %d messages", before, c, last.consSeq, between+1)
		}
		r.reaches(t, replaced, prompt)
		if !r.has("k", 3) {
			t.Errorf("the cursor has passed %d with %d of %d keys in the store",
				replaced, len(r.GetStore().ListKeys()), between+2)
		}
	})
}

// TestAnOldConsumerIsAskedAgainWhetherItsListIsAtTheEnd: the server also ends the pulls of a list when it checks
// whether somebody still waits.
func TestAnOldConsumerIsAskedAgainWhetherItsListIsAtTheEnd(t *testing.T) {
	for name, age := range map[string]time.Duration{"young": 0, "old": inactiveThreshold} {
		subtest(t, name, func(t *testing.T) {
			js := connect(t, natstest.Start(t).URL())
			kv := bucket(t, js, jetstream.KeyValueConfig{Bucket: "b"})
			for i := range 10 {
				put(t, kv, fmt.Sprint("k", i), i)
			}
			informer, err := New(js, Config{Bucket: "b", Decode: decodeThing})
			must(t, err)
			w := newWorker(sourceOf(informer))
			s, err := newSession(w.source, make(chan nats.Status))
			must(t, err)
			defer s.close()
			info, err := s.info(t.Context())
			must(t, err)
			must(t, s.createConsumer(t.Context(), "c", 0, slowRequest, info))
			must(t, s.start("c", true))
			s.made = s.made.Add(-age)
			s.take(&nats.Msg{Subject: s.inbox + "." + s.listPull(), Header: nats.Header{"Status": {"404"}}})
			info.State.LastSeq = 0 // all was written since the list began
			next, _, err := w.collect(t.Context(), s, newKeys(), info)
			must(t, err)
			if n := next.live.len(); n == 10 != (age > 0) {
				t.Errorf("the list has %d of 10 keys", n)
			}
		})
	}
}

// TestAPullThatIsCutShortIsAtTheEnd for servers before v2.11, and one whose time is over is not: both end with the same
// status.
func TestAPullThatIsCutShortIsAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		waited time.Duration
		ended  bool
	}{"cut short": {0, true}, "its time is over": {listExpires, false}} {
		t.Run(name, func(t *testing.T) {
			s := &session{listing: true, made: time.Now().Add(-time.Minute), credit: pullBatch, batch: pullBatch}
			pull := s.listPull()
			s.made = s.made.Add(-c.waited)
			must(t, s.takeListStatus(&nats.Msg{Header: nats.Header{
				"Status": {"408"}, "Description": {"Request Timeout"}, "Nats-Pending-Messages": {"4000"},
			}}, pull))
			if s.ended != c.ended {
				t.Errorf("the list is at the end: %t", s.ended)
			}
			if want := pullBatch - 4000; !c.ended && s.credit != want {
				t.Errorf("the server may still send %d messages, want %d", s.credit, want)
			}
		})
	}
}

func sourceOf(i Informer) *source { return i.(*informer).src }
