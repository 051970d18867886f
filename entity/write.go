package entity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// settleTimeout bounds the read that settles a write after the context of its caller has ended.
const settleTimeout = time.Second

// write is one compare-and-set of a key.
type write struct {
	key      string // as in NATS
	value    []byte
	expected uint64      // the key's last revision, marker or not; 0 if the key must have none
	op       string      // "", operationDelete or operationPurge
	lasts    lifetime    // of a document
	id       string      // tells our message from another with the same content; set by the first send
	echo     *echo       // of a record that this process's informer will get back, or nil
	header   nats.Header // that Config.OnWrite adds; may be nil
	before   moment      // what the cache of records showed before; of a record
	fence    fence.Fence // that the server checks instead of expected; zero: none
}

// casError says that the key was not at the expected revision. The write was not applied and never will be.
type casError struct {
	bucket, key string
	expected    uint64
	actual      *stored // what the leader has; nil if nothing
}

func (e *casError) Error() string {
	return fmt.Sprintf("writing key %q of bucket %q: it is at revision %d, not %d",
		e.key, e.bucket, e.actual.revision(), e.expected)
}

// writeIDs makes unique ids for writes without a lock.
type writeIDs struct {
	prefix string
	count  atomic.Uint64
}

func newWriteIDs() *writeIDs { return &writeIDs{prefix: nuid.Next()[10:] + "-"} }

func (w *writeIDs) next() string { return w.prefix + strconv.FormatUint(w.count.Add(1), 36) }

func (b *bucket) message(w *write) *nats.Msg {
	if w.id == "" {
		w.id = b.ids.next()
	}
	values := [...]string{strconv.FormatUint(w.expected, 10), w.id}
	header := nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: values[0:1:1],
		writeIDHeader:                       values[1:2:2],
	}
	if w.fence.Key != "" {
		header[jetstream.MsgIDHeader] = []string{w.id} // the fence does not keep what is sent again from landing twice
		header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(w.fence.Revision, 10)}
		header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{b.place.Load().prefix + w.fence.Key}
	}
	for name, value := range w.header {
		header[name] = value
	}
	w.lasts.tell(header)
	if w.op != "" {
		header[operationHeader] = []string{w.op}
		if ttl := b.markerTTL.Load(); ttl > 0 {
			header[jetstream.MsgTTLHeader] = []string{strconv.FormatInt(ttl, 10)}
		}
	}
	if w.op == operationPurge && b.rollups.Load() {
		header[jetstream.MsgRollup] = []string{rollupSubject}
	}
	return &nats.Msg{Subject: b.putPrefix + w.key, Header: header, Data: w.value}
}

// put applies w and returns its sequence; *casError if the key is not at w.expected. If the acknowledgement is lost,
// put sends again, and reads from the leader if that is refused: a message can be applied only once under the same
// expectation. If that does not settle it, the error is ErrOutcomeUnknown.
func (b *bucket) put(ctx context.Context, w write) (uint64, error) {
	if err := b.takesWrites(ctx, w.key); err != nil {
		return 0, err
	}
	if plan := dryrun.Of(ctx); plan != nil {
		return b.planned(ctx, plan, w)
	}
	done := b.hook.begin(ctx, &w)
	revision, err := b.apply(ctx, w)
	done(err)
	return revision, err
}

func (b *bucket) apply(ctx context.Context, w write) (uint64, error) {
	if ctx.Err() != nil || !b.async.isHeld() {
		return b.settle(ctx, &w, false)
	}
	f, err := b.async.sendAtOnce(b.message(&w))
	if err != nil {
		return b.settle(ctx, &w, false)
	}
	return b.landed(ctx, &w, f, attemptTimeout)
}

// create is put for a key without a document. It writes over markers, as often as it takes. A *casError means that
// there is a document.
func (b *bucket) create(ctx context.Context, w write) (uint64, error) {
	revision, err := b.put(ctx, w)
	if err == nil {
		return revision, nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	for {
		conflict, ok := errors.AsType[*casError](err)
		if !ok || conflict.actual.live() != nil || ctx.Err() != nil {
			return revision, err
		}
		w.expected = conflict.actual.revision()
		revision, err = b.put(ctx, w)
	}
}

// settle is put for a write that may have been sent before (inDoubt).
func (b *bucket) settle(ctx context.Context, w *write, inDoubt bool) (uint64, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	msg := b.message(w)
	for attempt := 0; ; attempt++ {
		seq, err := b.publish(ctx, msg)
		if err == nil {
			return seq, nil
		}
		api, refused := errors.AsType[*apiError](err)
		if refused && b.deniesRollup(api) && msg.Header.Get(jetstream.MsgRollup) != "" {
			msg = b.message(w)
			continue
		}
		conflict := refused && isCASCode(api.ErrorCode)
		final := refused && !conflict && api.isFinal()
		if final && !inDoubt {
			return 0, b.refused(w.key, api)
		}
		if fatal(err) && !inDoubt {
			return 0, fmt.Errorf("writing key %q of bucket %q: %w", w.key, b.name, err)
		}
		if !refused && !neverSent(err) {
			inDoubt = true
		}
		if conflict || inDoubt {
			if seq, err, settled := b.outcome(ctx, w, inDoubt, err); settled {
				return seq, err
			}
		}
		if final {
			return 0, newUnknownOutcome(b.name, w.key, b.refused(w.key, api))
		}
		if denied, ok := errors.AsType[*denials.Error](err); ok {
			return 0, b.denied(w.key, denied, inDoubt)
		}
		if giveUp := b.pause(ctx, attempt, msg.Subject, err); giveUp != nil {
			if inDoubt {
				return 0, newUnknownOutcome(b.name, w.key, giveUp)
			}
			return 0, fmt.Errorf("writing key %q of bucket %q: %w", w.key, b.name, giveUp)
		}
	}
}

// deniesRollup reports whether a write was refused because it is a rollup. An operator may have denied them since the
// bucket was opened. From then on our purge markers go without.
func (b *bucket) deniesRollup(e *apiError) bool {
	if e.ErrorCode != codeRollupFailed {
		return false
	}
	b.rollups.Store(false)
	return true
}

// outcome reads whether w was applied. settled is false if the key is still as expected, so that w is worth sending
// again.
func (b *bucket) outcome(
	ctx context.Context, w *write, inDoubt bool, cause error,
) (seq uint64, err error, settled bool) {
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		ctx = late
	}
	actual, err := b.last(ctx, w.key)
	switch {
	case err != nil && inDoubt:
		return 0, nil, false
	case err != nil:
		return 0, fmt.Errorf("writing key %q of bucket %q: refused, because it is not at revision %d: %w",
			w.key, b.name, w.expected, err), true
	case actual != nil && actual.Header.Get(writeIDHeader) == w.id:
		return actual.Revision, nil, true
	}
	if err := b.fencedOff(ctx, w); err != nil {
		return 0, err, !inDoubt || errors.Is(err, fence.ErrMoved)
	}
	switch {
	case actual.revision() == w.expected:
		return 0, nil, false
	case inDoubt && !sameBase(actual, w.expected):
		// Another write came after ours or instead of it. The bucket keeps one message per key, so we cannot tell
		// which.
		return 0, newUnknownOutcome(b.name, w.key, cause), true
	}
	return 0, &casError{bucket: b.name, key: w.key, expected: w.expected, actual: actual}, true
}

// fencedOff returns why a write was refused that has a fence, if that has moved. Else the stream was busy: a replicated
// one has one write with the same fence under way.
func (b *bucket) fencedOff(ctx context.Context, w *write) error {
	if w.fence.Key == "" {
		return nil
	}
	at, err := b.last(ctx, w.fence.Key)
	if err != nil {
		return fmt.Errorf("writing key %q of bucket %q: refused, and key %q does not tell why: %w",
			w.key, b.name, w.fence.Key, err)
	}
	if at.revision() != w.fence.Revision {
		b.refusedByFence.Add(1)
		return fmt.Errorf("writing key %q of bucket %q: key %q is at revision %d, not %d: %w",
			w.key, b.name, w.fence.Key, at.revision(), w.fence.Revision, fence.ErrMoved)
	}
	return nil
}

// sameBase reports whether actual was written over the revision that we expected. Then our write was not applied and
// never will be. Several writes may expect 0, with expired markers between them, so 0 proves nothing.
func sameBase(actual *stored, expected uint64) bool {
	return expected > 0 && actual != nil && actual.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader) == "" &&
		actual.Header.Get(jetstream.ExpectedLastSubjSeqHeader) == strconv.FormatUint(expected, 10)
}

func isCASCode(code jetstream.ErrorCode) bool {
	return code == codeWrongLastSequence || code == codeBusyOrConflict
}

// neverSent reports whether err says that no stream got the message.
func neverSent(err error) bool {
	if denied, ok := errors.AsType[*denials.Error](err); ok {
		return denied.Dropped
	}
	return fatal(err) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrReconnectBufExceeded)
}

// fatal reports whether err comes from the client library before a message is sent, and no retry helps.
func fatal(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionDraining) || errors.Is(err, nats.ErrBadSubject)
}

// publish sends one message and waits for its acknowledgement.
func (b *bucket) publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	answer, err := b.roundTrip(ctx, msg)
	if err != nil {
		return 0, err
	}
	return b.acknowledged(msg.Subject, answer)
}

// acknowledged reads the answer to a write. The error is *apiError if the stream refused it.
func (b *bucket) acknowledged(subject string, answer *nats.Msg) (uint64, error) {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	if seq, ok := b.plainAck(answer.Data); ok {
		return seq, nil
	}
	var ack struct {
		Error  *apiError `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
	}
	if err := jsonv1.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("acknowledgement on %q is not JSON: %w", subject, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream != b.stream || ack.Seq == 0 {
		return 0, fmt.Errorf("subject %q was answered by something that is not stream %q: %.100q",
			subject, b.stream, answer.Data)
	}
	return ack.Seq, nil
}

// plainAck reads an acknowledgement that has nothing but stream and sequence, as nearly all do.
func (b *bucket) plainAck(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if ok {
		rest, ok = bytes.CutPrefix(rest, []byte(b.stream))
	}
	if ok {
		rest, ok = bytes.CutPrefix(rest, []byte(`","seq":`))
	}
	if ok {
		rest, ok = bytes.CutSuffix(rest, []byte("}"))
	}
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest), 10, 64)
	return seq, err == nil && seq > 0
}
