package worlds

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// stored is one message of the status bucket's stream, as the server has it.
type stored struct {
	stream int // the first of a night is 1; one that was restored, or made anew, is another one
	seq    uint64
	at     time.Time
	key    string
	value  []byte // of what says who has slots
	// gone says that it is a marker, and expired that the server has written that.
	gone, expired bool
	id            string // of the write; "" if no replica has written it
	// expected is at which sequence the key had to be, or that of the fence; checked says that the server looked.
	expected uint64
	checked  bool
	fence    string        // the key; "" if there is none
	ttl      time.Duration // 0: it stays
}

// sharesKey begins the keys that say who has slots.
const (
	sharesKey  = "_nagi.shards."
	membersKey = sharesKey + "member."
	slotsKey   = sharesKey + "slot."
)

const (
	writeIDHeader       = "Nagi-Write-Id"
	expectedHeader      = jetstream.ExpectedLastSubjSeqHeader
	expectedOfHeader    = jetstream.ExpectedLastSubjSeqSubjHeader
	markerReasonHeader  = "Nats-Marker-Reason"
	markerHeader        = "KV-Operation"
	ttlHeader           = jetstream.MsgTTLHeader
	watchPause          = 50 * time.Millisecond
	longestStreamAnswer = 2 * time.Second
)

// watchHistory keeps all that the status bucket's stream stores, where replicas share the keys. It misses what is written
// while it does not watch, as when the server restarts: then the sequences that it has not seen are known.
func (w *world) watchHistory(ctx context.Context) {
	for ctx.Err() == nil {
		one, end := context.WithCancel(ctx)
		w.mu.Lock()
		w.watchEnds = end
		w.mu.Unlock()
		err := w.watchStream(one)
		if err != nil && one.Err() == nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			w.note("world", "watching the history: %v", err)
		}
		end()
		sleep(ctx, watchPause)
	}
}

// watchesAnew has the history watched anew: the stream, or the server, has gone.
func (w *world) watchesAnew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchEnds != nil {
		w.watchEnds()
	}
}

// watchStream watches one stream until ctx ends.
func (w *world) watchStream(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, longestStreamAnswer)
	defer cancel()
	s, err := w.js.Stream(asking, "KV_"+w.subject.status())
	if err != nil {
		return err
	}
	created := s.CachedInfo().Created
	consumer, err := s.CreateConsumer(asking, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
	})
	if err != nil {
		return err
	}
	if s, err = w.js.Stream(asking, "KV_"+w.subject.status()); err != nil {
		return err
	}
	if !s.CachedInfo().Created.Equal(created) {
		return errors.New("it is another stream by now")
	}
	number := w.streamOf(created)
	messages, err := consumer.Messages(jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		if err := w.stores(number, m); err != nil {
			return err
		}
	}
}

// streamOf is the number of a stream.
func (w *world) streamOf(created time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.streams); n == 0 || !w.streams[n-1].created.Equal(created) {
		w.streams = append(w.streams, oneStream{created: created, since: time.Now()})
	}
	return len(w.streams)
}

// oneStream is one that the status bucket has had.
type oneStream struct {
	created time.Time
	since   time.Time // watched
	seen    uint64    // the last sequence
	count   int       // messages that were seen
}

// stores keeps a message, unless it is known.
func (w *world) stores(number int, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	one := stored{
		stream: number, seq: meta.Sequence.Stream, at: meta.Timestamp,
		key: strings.TrimPrefix(m.Subject(), "$KV."+w.subject.status()+"."),
	}
	one.reads(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := &w.streams[number-1]; one.seq > s.seen {
		s.seen, s.count = one.seq, s.count+1
		w.history = append(w.history, one)
	}
	return nil
}

// reads takes what a message says.
func (s *stored) reads(m jetstream.Msg) {
	header := m.Headers()
	s.expired = header.Get(markerReasonHeader) != ""
	s.gone = s.expired || header.Get(markerHeader) != ""
	s.id = header.Get(writeIDHeader)
	if text := header.Get(expectedHeader); text != "" {
		s.expected, _ = strconv.ParseUint(text, 10, 64)
		s.checked = true
	}
	if of := header.Get(expectedOfHeader); of != "" {
		s.fence = of[strings.Index(of, "_nagi"):]
	}
	if seconds, err := strconv.Atoi(strings.TrimSuffix(header.Get(ttlHeader), "s")); err == nil {
		s.ttl = time.Duration(seconds) * time.Second
	}
	if strings.HasPrefix(s.key, sharesKey) {
		s.value = m.Data()
	}
}

// hindrance is a time in which a replica, or none, may be able to do what it should.
type hindrance struct {
	who      string // "": all
	from, to time.Time
}

// hindersFor is hinders for all replicas, for some time.
func (w *world) hindersFor(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.hindrances = append(w.hindrances, hindrance{from: now, to: now.Add(d)})
}

// hinders notes that a replica, or "" for all, is hindered from now on. The time until end is called counts.
func (w *world) hinders(who string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.hindrances)
	w.hindrances = append(w.hindrances, hindrance{who: who, from: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.hindrances[i].to.IsZero() {
			w.hindrances[i].to = time.Now()
		}
	}
}
