package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

const (
	// The pause between attempts. Its limit keeps the promise to notice within two seconds that a fault is gone.
	minPause = 20 * time.Millisecond
	maxPause = time.Second
	// quietFailures is how many sessions in a row may end early before that is a problem.
	quietFailures = 5
	// maxImpatience bounds how often the time is doubled for which a list bears silence. Without the doubling, a list
	// from a very busy server would be thrown away and begun again for ever.
	maxImpatience = 3
	// answerPatience is how long a session may be lost, or not be there at the start, before that is reported. The
	// report has to come within two seconds.
	answerPatience = 1700 * time.Millisecond
	// connectGrace is how long a connection may be lost before that is reported.
	connectGrace = time.Second
	// stopTimeout bounds the clean-up at the end.
	stopTimeout = time.Second
)

// ErrUnanswered is of a stream that has not told about itself for a while. It is tried on.
var ErrUnanswered = errors.New("no session with JetStream was established " +
	"(is JetStream up, and has the stream a leader?)")

// worker lists or watches, and recovers from whatever happens meanwhile. It runs in one goroutine.
type worker struct {
	*source
	initial bool             // list and return
	events  chan watch.Event // where a watch goes

	status    chan nats.Status
	consumers map[string]bool // names of consumers that may exist on the server, and whether each should
	items     []item
	emitted   uint64    // resourceVersion of the last event
	noticed   mode      // restored or relisted until the store reflects that stream
	noticedOf time.Time // the time of creation of the stream that was met last

	comparison  comparison
	peeked      peek
	expiries    expiries
	fetching    fetching
	fetchedSize int   // of the values fetched last, on average
	relistCause error // what the last comparison found
	impatience  int   // lists in a row in which the server fell silent
	unanswered  int   // requests for a consumer in a row, each of another name
	cropped     int   // sessions in a row in which no request for messages got more than one reply
	watched     bool  // something came in the session after its list
}

func newWorker(src *source) *worker {
	return &worker{source: src, consumers: map[string]bool{}}
}

// mode is what to do with a new session.
type mode int

const (
	resume   mode = iota // go on behind the cursor
	listing              // list, and emit the difference to what was known
	restored             // the same, of a stream that was put back to an earlier state
	relisted             // list a stream that was made anew, which has nothing of what was known
)

// run returns nil when an initial list is complete, and the context's error when it ends; nothing else ends it.
func (w *worker) run(ctx context.Context) error {
	w.status = w.js.Conn().StatusChanged()
	defer w.js.Conn().RemoveStatusListener(w.status)
	defer w.cleanUp()
	defer w.health.forget()
	w.health.expect(ctx, answerPatience, ErrUnanswered)
	for failures := 0; ; {
		if err := w.connected(ctx); err != nil {
			return err
		}
		began := time.Now()
		err := w.attempt(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		w.expectSession(ctx, err)
		var lost *lostError
		if errors.As(err, &lost) && w.watched && time.Since(began) > maxPause {
			failures = 0 // it worked for a while: try again at once
		}
		if lost == nil || failures >= quietFailures {
			w.health.failed(ctx, err)
		}
		if (failures > 0 || lost == nil) && !errors.Is(err, errSilent) { // silence was pause enough
			w.pause(ctx, failures)
		}
		failures++
	}
}

// expectSession is for a session that has ended. Another one has to be established soon.
func (w *worker) expectSession(ctx context.Context, ended error) {
	patience := answerPatience
	if errors.Is(ended, errSilent) {
		patience -= silence
	}
	w.health.expect(ctx, patience, fmt.Errorf("%w, and since then %w", ended, ErrUnanswered))
}

// lostError is the end of an established session. Only the next attempt shows whether it is a problem.
type lostError struct{ cause error }

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// connected waits until the connection is up.
func (w *worker) connected(ctx context.Context) error {
	for len(w.status) > 0 {
		<-w.status // an old change
	}
	grace := time.NewTimer(connectGrace)
	defer grace.Stop()
	known := connection.Of(w.js.Conn())
	for !w.js.Conn().IsConnected() {
		known.Look()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.status:
		case <-grace.C:
			grace.Reset(connectGrace)
			w.health.failed(ctx, notConnected(w.js.Conn()))
		}
	}
	return ctx.Err()
}

// notConnected says in what state a connection is, and why if the server does not let the user in.
func notConnected(nc *nats.Conn) error {
	state := strings.ToLower(nc.Status().String())
	why := nc.LastError()
	for _, refused := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
	} {
		if errors.Is(why, refused) {
			return fmt.Errorf("the connection to NATS is %s: %w: check the user and its credentials", state, refused)
		}
	}
	if nc.IsClosed() {
		state += " for good: " + kvstream.IfClosed
	}
	// The connection is the reason, and not the bucket for which it is missed.
	lost := notify.Because(state, fmt.Errorf("the connection to NATS is %s", state))
	if nc.IsClosed() {
		return lost
	}
	return &offlineError{lost, nc}
}

// offlineError says that a connection is down and comes back by itself. Much else notices that too.
type offlineError struct {
	error
	nc *nats.Conn
}

func (e *offlineError) Unwrap() error { return e.error }

// pause waits before the next attempt, or until the connection changes.
func (w *worker) pause(ctx context.Context, failures int) {
	d := min(maxPause, minPause<<min(failures, 6))
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.status:
	case <-ctx.Done():
	}
}

// attempt opens a session and serves it until something breaks.
func (w *worker) attempt(ctx context.Context) error {
	s, err := newSession(w.source, w.status)
	if err != nil {
		return err
	}
	defer s.close()
	w.watched = false
	m, info, err := w.establish(ctx, s)
	if err != nil {
		return w.ended(s, err)
	}
	if m != resume {
		w.relistCause = nil
		s.patience = 1 << w.impatience
		err := w.list(ctx, s, m, info)
		if err != nil {
			w.postpone(time.Now()) // where a list cannot be finished, the watch goes on between its attempts
		}
		if errors.Is(err, errSilent) {
			w.impatience = min(w.impatience+1, maxImpatience)
		}
		if err != nil || w.initial {
			return w.ended(s, err)
		}
		w.impatience, s.patience = 0, 1
	} else {
		w.health.update(func(st *Status) { st.Resumes++ })
	}
	err = w.live(ctx, s)
	w.restIfCutShort(time.Now())
	return w.ended(s, err)
}

// ended wraps an error in a lostError if it only ends the session, and another one is made at once. Any other error is
// a problem. The first silence in a list only ends the session: the server or this process may have paused. If the next
// list, which waits longer, meets silence too, that is a problem. It is one at once where a list has asked more than
// once, and each time one reply came: that is all which some accounts pass on. A watch that is quiet looks so after its
// first heartbeat, so there it takes two.
func (w *worker) ended(s *session, err error) error {
	if err == nil {
		return nil
	}
	failed := errors.Is(err, errSilent) || errors.Is(err, errSkipped)
	if failed && s.cropped() {
		w.cropped++
	} else if s.replies > s.pulls {
		w.cropped = 0
	}
	cropped := failed && s.cropped() && (s.listing && s.pulls > 1 || w.cropped > 1)
	if failed {
		err = s.explain(err, cropped)
	}
	switch {
	case cropped:
		return err
	case errors.Is(err, errSilent) && s.listing && s.patience > 1:
		return err
	case errors.Is(err, errDisconnected), errors.Is(err, errStreamChanged), errors.Is(err, errSkipped),
		errors.Is(err, errSubjectsChanged),
		err == w.relistCause, s.alive && (errors.Is(err, errSilent) || errors.Is(err, errConsumerGone)),
		errors.Is(err, errSilent) && s.listing && s.patience == 1:
		return &lostError{err}
	}
	return err
}

// establish finds out whether the stream is the one we know, and makes a consumer behind the cursor or for a list.
func (w *worker) establish(ctx context.Context, s *session) (m mode, info *streamInfo, err error) {
	if info, err = s.info(ctx); err != nil {
		return 0, nil, err
	}
	w.health.met(ctx) // what it takes the stream to make a consumer is up to its size
	if err := w.locate(ctx, s, info); err != nil {
		return 0, nil, err
	}
	if m, err = w.identify(ctx, s, info); err != nil {
		return 0, nil, err
	}
	m = w.notice(m, info)
	if len(w.consumers) > 0 && info.Cluster.alone() {
		w.doubt(time.Now()) // a cluster makes the consumer again on a server that was killed, so none would be missing
	}
	if err := w.checkServer(ctx, s); err != nil {
		return 0, nil, err
	}
	after := w.cursor
	if m != resume {
		after = 0
	}
	name, err := w.consume(ctx, s, after, info)
	if errors.Is(err, nats.ErrTimeout) {
		w.unanswered++
	}
	if err != nil {
		return 0, nil, err
	}
	w.unanswered = 0
	w.consumers[name] = true
	if m != resume {
		if err := s.confirmStream(ctx, info); err != nil {
			return 0, nil, err
		}
	}
	if err := s.start(name, m != resume); err != nil {
		return 0, nil, err
	}
	w.deleteOthers(ctx, s)
	return m, info, nil
}

// consume makes a consumer behind a sequence. Where the limit of consumers is reached, those of earlier sessions, which
// are deleted once this one has its consumer, have to go first.
func (w *worker) consume(ctx context.Context, s *session, after uint64, info *streamInfo) (name string, err error) {
	for last := false; ; last = true {
		earlier := len(w.consumers) > 0 && !w.leaves.Load()
		name = "nagi-" + nuid.Next()
		w.consumers[name] = false
		err = s.createConsumer(ctx, name, after, w.createTimeout(info), info)
		api, refused := errors.AsType[*jetstream.APIError](err)
		if !refused || api.ErrorCode != jetstream.JSErrCodeMaximumConsumersLimit || !earlier || last {
			return name, err
		}
		delete(w.consumers, name)
		w.deleteOthers(ctx, s)
		if err := s.idle(ctx); err != nil {
			return name, err
		}
	}
}

// createTimeout returns how long to wait for a consumer before asking for another one. A cluster may place it on a
// replica that was killed: up to v2.12 for minutes, later for three seconds. Then no reply comes, and it takes another
// name to be placed anew. In the end the time doubles: a stream may be so large that a consumer takes long.
func (w *worker) createTimeout(info *streamInfo) time.Duration {
	if info.Cluster == nil || info.Cluster.alone() {
		return slowRequest
	}
	return min(slowRequest, placedRequest<<min(max(w.unanswered-placedTries+1, 0), 4))
}

// deleteOthers deletes the consumers of earlier sessions. A delete that fails is tried again later. A user may lack the
// permission on purpose: then nothing is wrong, and the server drops the consumers when they were idle for
// inactiveThreshold.
func (w *worker) deleteOthers(ctx context.Context, s *session) {
	if w.leaves.Load() {
		w.leaveOthers(s)
		return
	}
	for name, should := range w.consumers {
		if name == s.consumer {
			continue
		}
		w.consumers[name] = false // in a cluster the answer to a repeat may come first, and say that it does not exist
		s.deleteConsumer(name, func(gone, already bool, err error) {
			switch {
			case gone:
				if already && should {
					w.doubt(time.Now())
				}
				delete(w.consumers, name)
			case errors.Is(err, nats.ErrPermissionViolation):
				w.consumers[name] = should
				w.mayNotDelete(ctx, err)
				w.leaveOthers(s)
			}
		})
	}
}

// mayNotDelete says once that consumers are left to the server.
func (w *worker) mayNotDelete(ctx context.Context, err error) {
	if !w.leaves.Swap(true) {
		klog.FromContext(ctx).Info("The user may not delete consumers, so the server drops each after its last use",
			"bucket", w.cfg.Bucket, "after", inactiveThreshold, "err", err)
	}
}

// leaveOthers leaves the consumers of earlier sessions to the server. It is unknown then whether it still had them.
func (w *worker) leaveOthers(s *session) {
	for name, should := range w.consumers {
		if name == s.consumer {
			continue
		}
		if should && w.relistCause != errDoubted {
			w.doubt(time.Now())
		}
		delete(w.consumers, name)
	}
}

// notice remembers that the stream is another one until the store reflects it, because a list may need several
// sessions. It returns the mode to go on with: while a change is noticed, a listing is restored or relisted. The stream
// may be replaced again before it was listed, also by the one that the store reflects: then that is noticed, too.
func (w *worker) notice(m mode, info *streamInfo) mode {
	if m == listing && w.noticed != resume {
		m = w.noticed
	}
	before := w.noticed
	if w.noticed = m; m == listing {
		w.noticed = resume
	}
	relisting := w.noticed != resume
	another := relisting != (before != resume) || relisting && !info.Created.Equal(w.noticedOf)
	w.noticedOf = info.Created
	w.health.update(func(st *Status) {
		st.Relisting = relisting
		if another {
			st.StreamsNoticed++
		}
		if another && !relisting {
			w.shownAgain.Store(&shownAgain{st.StreamsNoticed, info.State.LastSeq})
		}
	})
	return m
}

// identify decides whether the watch can go on behind the cursor. It cannot when the stream was made anew or put back
// from a backup. A backup keeps the time of creation; but its last sequence is below the cursor, or other messages
// stand where we have read ours.
func (w *worker) identify(ctx context.Context, s *session, info *streamInfo) (mode, error) {
	if !w.listed {
		return listing, nil
	}
	if w.prefix() != w.listedPrefix && info.Created.Equal(w.created) {
		return listing, nil // what is known was read elsewhere in the stream
	}
	if err := w.confirmEnd(ctx, s, info); err != nil {
		return 0, err
	}
	switch {
	case !info.Created.Equal(w.created):
		return relisted, nil
	case info.State.LastSeq < w.cursor:
		return restored, nil
	}
	m := resume
	if w.cursor > 0 {
		var err error
		if m, err = w.compareAnchors(ctx, s); err != nil {
			return 0, err
		}
	}
	if m == resume && w.relistCause != nil {
		m = listing // only now, because a stream that was restored meanwhile must be noticed first
	}
	return m, nil
}

// How often, and with which pause, a stream's last sequence is asked for again before we believe that it is below the
// cursor.
const (
	endChecks = 5
	endPause  = 100 * time.Millisecond
)

// confirmEnd asks again for a stream's end that lies before the cursor. A new leader may still have to apply messages
// that another member has delivered already. Taking that for a restored stream would delete what exists.
func (w *worker) confirmEnd(ctx context.Context, s *session, info *streamInfo) error {
	for range endChecks {
		if info.State.LastSeq >= w.cursor || !info.Created.Equal(w.created) {
			return nil
		}
		if err := s.rest(ctx, endPause); err != nil {
			return err
		}
		again, err := s.info(ctx)
		if err != nil {
			return err
		}
		*info = *again
	}
	return nil
}

// anchorWindows says how many anchors are asked for at a time. Mostly the first few will do, each answer carries a
// value, and each window takes a round trip.
var anchorWindows = []int{4, 16, 44}

// compareAnchors asks for the keys that were processed last, newest first. A message that is as we know it proves that
// the stream is the same up to there. Another message before the cursor proves a restored stream. A message behind the
// cursor, or a missing one, proves nothing. If nothing is proven, the stream is listed.
func (w *worker) compareAnchors(ctx context.Context, s *session) (mode, error) {
	total := 0
	for _, n := range anchorWindows {
		total += n
	}
	anchors := w.keys.newest(total)
	for _, n := range anchorWindows {
		window := anchors[:min(n, len(anchors))]
		anchors = anchors[len(window):]
		if len(window) == 0 {
			break
		}
		queries := make([]messageQuery, len(window))
		for i, a := range window {
			queries[i] = messageQuery{LastFor: w.prefix() + a.key}
		}
		found, err := s.messages(ctx, queries)
		if err != nil {
			return 0, err
		}
		for i, a := range window {
			switch m := found[i]; {
			case m == nil || m.Seq > w.cursor:
			case m.Seq == a.seq && m.Time.UnixNano() == a.created:
				return w.compareBehind(ctx, s, a.seq)
			default:
				return restored, nil
			}
		}
	}
	return listing, nil
}

// compareBehind looks for unknown messages between a message that was found unchanged and the cursor. They prove that
// the stream was put back to a state behind that message and written to again.
func (w *worker) compareBehind(ctx context.Context, s *session, seq uint64) (mode, error) {
	for seq < w.cursor {
		m, err := s.message(ctx, messageQuery{Seq: seq + 1, NextFor: w.filterSubject()})
		if err != nil {
			return 0, err
		}
		if m == nil || m.Seq > w.cursor {
			break
		}
		key, _ := w.keyOf(m.Subject)
		if revision, created := w.keys.at(key); revision != m.Seq || created != m.Time.UnixNano() {
			return restored, nil
		}
		seq = m.Seq
	}
	return resume, nil
}

// cleanUp deletes our consumers. It waits for the server's answers, for at most stopTimeout.
func (w *worker) cleanUp() {
	if len(w.consumers) == 0 || w.leaves.Load() {
		return
	}
	if !w.js.Conn().IsConnected() {
		w.doubt(time.Now())
		return
	}
	for len(w.status) > 0 {
		<-w.status
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	s, err := newSession(w.source, w.status)
	if err != nil {
		return
	}
	defer s.close()
	left := len(w.consumers)
	answered := false
	for name, should := range w.consumers {
		s.deleteConsumer(name, func(_, already bool, err error) {
			if already && should {
				w.doubt(time.Now()) // between a list and its watch
			}
			if errors.Is(err, nats.ErrPermissionViolation) {
				w.mayNotDelete(ctx, err)
			}
			left--
			answered = left == 0
		})
	}
	if s.await(ctx, &answered) != nil { // the server drops the rest by itself
		w.doubt(time.Now())
	}
}
