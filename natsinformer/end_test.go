package natsinformer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
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
		const between = 20_000
		server := natstest.Start(t)
		proxy := natstest.StartProxy(t, server.URL())
		admin, js := connect(t, server.URL()), connect(t, proxy.URL())
		kv := bucket(t, admin, jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage})
		put(t, kv, "k", 1)
		put(t, kv, "anchor", 1)
		r := start(t, js, Config{Bucket: "b"}).synced(t)
		proxy.Refuse()
		replaced := put(t, kv, "k", 2)
		for i := range between {
			_, err := admin.PublishAsync(fmt.Sprint("$KV.b.between", i), doc(i))
			must(t, err)
			if i%500 == 499 {
				<-admin.PublishAsyncComplete()
			}
		}
		put(t, kv, "k", 3)

		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		asking.Go(func() {
			name := ""
			for stream, err := admin.Stream(ctx, "KV_b"); err == nil && ctx.Err() == nil; {
				if _, err := stream.Consumer(ctx, name); err == nil {
					time.Sleep(probeExpires + probeExpires/4) // longer than a probe lives, so that none gets two heartbeats
					continue
				}
				for name = range stream.ConsumerNames(ctx).Name() {
				}
				time.Sleep(time.Millisecond)
			}
		})
		proxy.Resume()
		r.reaches(t, replaced, time.Minute)
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
			must(t, s.createConsumer(t.Context(), "c", 0, slowRequest))
			must(t, s.start("c", true))
			s.made = s.made.Add(-age)
			s.take(&nats.Msg{Subject: s.inbox + "." + s.listPull(), Header: nats.Header{"Status": {"404"}}})
			info.State.LastSeq = 0 // all was written since the list began
			next, _, err := w.collect(t.Context(), s, newKeys(), info)
			must(t, err)
			if n := len(next.live); n == 10 != (age > 0) {
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
			s := &session{listing: true, made: time.Now().Add(-time.Minute), credit: pullBatch}
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
