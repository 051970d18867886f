package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// eventKind is what an event of the history is.
type eventKind string

const (
	written eventKind = "written" // a stream has stored a message
	purged  eventKind = "purged"  // an operator has removed a key without a message
	sampled eventKind = "sampled" // the replicas that live were asked what is degraded
)

// event is one line of the history.
type event struct {
	at   time.Time
	kind eventKind
	by   string    // the replica; "" is a user or an operator
	held string    // who held the lease when it was sent
	sent time.Time // by a replica
	message
	sequence uint64
	degraded []string // of what is sampled
}

func (e event) String() string {
	by := e.by
	if by == "" {
		by = "a user"
	}
	switch e.kind {
	case sampled:
		return fmt.Sprintf("%s degraded %q", e.at.Format("05.000"), e.degraded)
	case purged:
		return fmt.Sprintf("%s %s purged", e.at.Format("05.000"), e.subject())
	}
	what := "put"
	if e.marker {
		what = "marker"
	} else if e.key == leaseKey {
		what = "held by " + strconv.Quote(parseLease(e.value).Holder)
	} else if e.bucket == statusBucket && !strings.HasPrefix(e.key, reservedPrefix) {
		what = string(recordStep(parseRecord(e.value)))
	}
	return fmt.Sprintf("%s %s at %d by %s: %s", e.at.Format("05.000"), e.subject(), e.sequence, by, what)
}

// history is all that happened to the buckets, in order.
//
// It cannot miss a message. Watchers and mirrors can: the buckets keep one message per key, so what is overwritten soon
// may never be delivered. A subscriber to the subjects themselves gets each message from its publisher, before the
// stream stores it, and then the stream's acknowledgement, which has the sequence. The sequences of each stream must
// have no gap in the end, up to the last one that the stream itself tells.
type history struct {
	nc   *nats.Conn
	subs []*nats.Subscription
	in   chan *nats.Msg
	done chan struct{}

	mu      sync.Mutex
	events  []event
	waiting map[string]event // for their acknowledgement, by reply subject
	latest  map[string]event // by subject, if the key is there
	marks   map[string]chan struct{}
}

const (
	purges      = "$JS.API.STREAM.PURGE.*"
	purgePrefix = "$JS.API.STREAM.PURGE.KV_"
	markPrefix  = "history.mark."
)

func newHistory(t *testing.T, url string) *history {
	t.Helper()
	nc, _ := natstest.Connect(t, url)
	h := &history{
		nc: nc, in: make(chan *nats.Msg, 1<<14), done: make(chan struct{}),
		waiting: map[string]event{}, latest: map[string]event{}, marks: map[string]chan struct{}{},
	}
	for _, subject := range []string{"$KV.>", nats.InboxPrefix + ">", purges, markPrefix + ">"} {
		sub, err := nc.ChanSubscribe(subject, h.in) // one channel, so that the order is the server's
		must(t, err)
		h.subs = append(h.subs, sub)
	}
	must(t, nc.Flush())
	go func() {
		defer close(h.done)
		for msg := range h.in {
			h.take(msg)
		}
	}()
	t.Cleanup(func() {
		nc.Close()
		close(h.in)
		<-h.done
	})
	return h
}

func (h *history) take(msg *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if mark, ok := h.marks[msg.Subject]; ok {
		close(mark)
		return
	}
	if bucket, key, ok := splitSubject(msg.Subject); ok {
		h.waiting[msg.Reply] = event{
			kind: written, by: msg.Header.Get(replicaHeader), held: msg.Header.Get(holderHeader),
			sent:    parseSent(msg.Header.Get(sentHeader)),
			message: message{bucket, key, msg.Header.Get("KV-Operation") != "", msg.Data},
		}
		return
	}
	if bucket, ok := strings.CutPrefix(msg.Subject, purgePrefix); ok {
		var request struct {
			Filter string `json:"filter"`
		}
		_ = json.Unmarshal(msg.Data, &request) // tests alone send them
		_, key, _ := splitSubject(request.Filter)
		h.waiting[msg.Reply] = event{kind: purged, message: message{bucket: bucket, key: key}}
		return
	}
	e, ok := h.waiting[msg.Subject]
	if !ok {
		return
	}
	delete(h.waiting, msg.Subject)
	var answer struct {
		Sequence uint64 `json:"seq"`
		Error    any    `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil || answer.Error != nil {
		return // refused
	}
	e.at, e.sequence = time.Now(), answer.Sequence
	h.addLocked(e)
}

func (h *history) addLocked(e event) {
	h.events = append(h.events, e)
	if e.kind == purged || e.marker {
		delete(h.latest, e.subject())
	} else if e.kind == written {
		h.latest[e.subject()] = e
	}
}

// sample adds what is degraded now.
func (h *history) sample(degraded []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(event{at: time.Now(), kind: sampled, degraded: degraded})
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// get returns what a key holds.
func (h *history) get(bucket, key string) (e event, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok = h.latest[message{bucket: bucket, key: key}.subject()]
	return e, ok
}

// keys returns the keys of a bucket that begin with a prefix, and are there.
func (h *history) keys(bucket, prefix string) (keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.latest {
		if e.bucket == bucket && strings.HasPrefix(e.key, prefix) {
			keys = append(keys, e.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// writtenBy reports whether another replica than this one has written the key since.
func (h *history) writtenBy(from int, m message, notBy string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.events[from:], func(e event) bool {
		return e.kind == written && e.by != "" && e.by != notBy && e.bucket == m.bucket && e.key == m.key
	})
}

// whole returns the events once all that the server has sent is in, and fails if any is missing.
func (h *history) whole(t *testing.T, js jetstream.JetStream) []event {
	t.Helper()
	last := map[string]uint64{}
	for _, bucket := range []string{sitesBucket, pagesBucket, statusBucket} {
		stream, err := js.Stream(t.Context(), "KV_"+bucket)
		must(t, err)
		last[bucket] = stream.CachedInfo().State.LastSeq
	}
	mark, arrived := markPrefix+nats.NewInbox(), make(chan struct{})
	h.mu.Lock()
	h.marks[mark] = arrived
	h.mu.Unlock()
	must(t, h.nc.Publish(mark, nil))
	within(t, "the history is read", arrived)
	for _, sub := range h.subs {
		if n, err := sub.Dropped(); n > 0 || err != nil {
			t.Fatalf("the history has dropped %d messages of %s: %v", n, sub.Subject, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for bucket, sequence := range last {
		var have []uint64
		for _, e := range h.events {
			if e.kind == written && e.bucket == bucket && e.sequence <= sequence {
				have = append(have, e.sequence)
			}
		}
		if !slices.IsSorted(have) || uint64(len(have)) != sequence {
			t.Fatalf("the history of %s is not whole: %d is the last, it has %v", bucket, sequence, have)
		}
	}
	return slices.Clone(h.events)
}
