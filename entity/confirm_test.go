package entity_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestConfirmTellsPresenceMarkerAndAbsence(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		check := func(when string, want entity.Presence) {
			t.Helper()
			got, err := client.Confirm(t.Context(), "a")
			must(t, err)
			if got != want {
				t.Errorf("%s: got %+v, want %+v", when, got, want)
			}
		}
		check("never there", entity.Presence{})
		site := website("a")
		must(t, client.Create(t.Context(), site))
		check("created", entity.Presence{Exists: true, Revision: uint64(site.Generation)})
		must(t, client.Delete(t.Context(), "a"))
		check("deleted", entity.Presence{Revision: uint64(site.Generation) + 1})
		_, err := keyValue(t, js, "websites").PutString(t.Context(), "a", "nonsense")
		must(t, err)
		check("invalid", entity.Presence{Exists: true, Revision: uint64(site.Generation) + 2})
	})
}

// staleAnswers replaces an answer of the JetStream API to a client by an earlier answer of the same kind, as from a
// leader that does not know yet that it was deposed. It leaves the requests of the client's informer alone.
type staleAnswers struct {
	mu   sync.Mutex
	last map[string][]byte // by kind
	next map[string][]byte // replaces the answers
	deaf bool              // the informer gets no messages
}

const (
	streamInfo = "io.nats.jetstream.api.v1.stream_info_response"
	msgGet     = "io.nats.jetstream.api.v1.stream_msg_get_response"
)

func (s *staleAnswers) deliver(m *nats.Msg) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []string{streamInfo, msgGet} {
		if !ofInformer(m.Subject) && bytes.Contains(m.Data, []byte(`"type":"`+kind+`"`)) {
			s.last[kind] = bytes.Clone(m.Data)
			if old, ok := s.next[kind]; ok {
				m.Data = old
			}
			return true
		}
	}
	delivered := strings.HasPrefix(m.Subject, "$KV.") || m.Header.Get("Status") != ""
	return !s.deaf || !delivered
}

// recorded returns the last answer.
func (s *staleAnswers) recorded(kind string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[kind]
}

// answerWith replaces the answers from now on: a slow one may be asked for again.
func (s *staleAnswers) answerWith(kind string, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[kind] = answer
}

// passOn replaces no answers any more.
func (s *staleAnswers) passOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.next)
}

func (s *staleAnswers) setDeaf(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

// TestConfirmRefusesAnAnswerThatIsOlderThanTheCache: a deposed leader answers for some seconds as if nothing had been
// written since. The runtime would delete what it reports as absent. Each stale answer is one that the server itself
// gave.
func TestConfirmRefusesAnAnswerThatIsOlderThanTheCache(t *testing.T) {
	type world struct {
		client *entity.Client[*Website]
		other  *entity.Client[*Website] // on another connection, as of another process
		stale  *staleAnswers
	}
	absent := func(t *testing.T, w world, key string) {
		t.Helper()
		got, err := w.client.Confirm(t.Context(), key)
		must(t, err)
		if got.Exists {
			t.Fatalf("%s exists: %+v", key, got)
		}
	}
	caught := func(t *testing.T, w world, site *Website) {
		t.Helper()
		must(t, w.client.Informer().WaitCursor(testContext(t), uint64(site.Generation)))
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, w world) // leaves stale answers for a Confirm of "a"
		exists  bool                        // what the leader says of "a"
	}{
		"of the stream, from before the key was created": {func(t *testing.T, w world) {
			absent(t, w, "a")
			old := w.stale.recorded(streamInfo)
			site := website("a")
			must(t, w.other.Create(t.Context(), site))
			caught(t, w, site)
			w.stale.answerWith(streamInfo, old)
		}, true},
		"of the stream, from before another key was created": {func(t *testing.T, w world) {
			absent(t, w, "a")
			old := w.stale.recorded(streamInfo)
			site := website("b")
			must(t, w.other.Create(t.Context(), site))
			caught(t, w, site)
			w.stale.answerWith(streamInfo, old)
		}, false},
		"of the stream, from before a write of this process that the cache has not got": {func(t *testing.T, w world) {
			absent(t, w, "a")
			old := w.stale.recorded(streamInfo)
			w.stale.setDeaf(true)
			t.Cleanup(func() { w.stale.setDeaf(false) })
			site := website("a")
			must(t, w.client.Create(t.Context(), site))
			if w.client.Informer().Cursor() >= uint64(site.Generation) {
				t.Fatal("the cache has got it")
			}
			w.stale.answerWith(streamInfo, old)
		}, true},
		"of the key, from before it was created again": {func(t *testing.T, w world) {
			must(t, w.other.Create(t.Context(), website("a")))
			must(t, w.other.Delete(t.Context(), "a"))
			absent(t, w, "a")
			old := w.stale.recorded(msgGet)
			site := website("a")
			must(t, w.other.Create(t.Context(), site))
			caught(t, w, site)
			w.stale.answerWith(msgGet, old)
		}, true},
		"of another stream": {func(t *testing.T, w world) {
			absent(t, w, "a")
			var answer map[string]any
			must(t, json.Unmarshal(w.stale.recorded(streamInfo), &answer))
			answer["created"] = time.Now().Add(time.Hour)
			another, err := json.Marshal(answer)
			must(t, err)
			w.stale.answerWith(streamInfo, another)
		}, false},
	} {
		t.Run(name, virtually(func(t *testing.T) {
			srv := natstest.Start(t)
			w := world{stale: &staleAnswers{last: map[string][]byte{}, next: map[string][]byte{}}}
			cfg := entity.Config{Kind: "Website", Bucket: "websites", StatusBucket: "-"}
			_, js := natstest.Connect(t, srv.URL())
			w.other = newClient[*Website](t, js, cfg)
			_, js = natstest.Connect(t, srv.URL(), natstest.Tamper(w.stale.deliver))
			w.client = newClient[*Website](t, js, cfg)
			start(t, w.client)
			test.prepare(t, w)
			got, err := w.client.Confirm(t.Context(), "a")
			if !apierrors.IsServiceUnavailable(err) {
				t.Errorf("the stale answer was believed: %+v, %v", got, err)
			}
			w.stale.passOn()
			if got, err = w.client.Confirm(t.Context(), "a"); err != nil || got.Exists != test.exists {
				t.Errorf("the leader's answer was not believed: %+v, %v", got, err)
			}
		}))
	}
}
