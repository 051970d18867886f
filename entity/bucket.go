package entity

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// requestTimeout bounds a live read or a write whose context has no deadline; for a write, what follows its first
	// attempt.
	requestTimeout = 10 * time.Second
	retryMin       = 5 * time.Millisecond
	retryMax       = 250 * time.Millisecond
	// attemptTimeout bounds one attempt. The leader answers in well under a millisecond. Without a leader no answer
	// comes, and an election takes a second or two, so a lost request is worth sending again.
	attemptTimeout = 2 * time.Second
)

// The server's error codes that this package handles.
const (
	codeBadRequest        jetstream.ErrorCode = 10003
	codeNoMessage         jetstream.ErrorCode = 10037
	codeStreamNotFound    jetstream.ErrorCode = 10059
	codeRollupFailed      jetstream.ErrorCode = 10111
	codeWrongLastSequence jetstream.ErrorCode = 10071
	codeBusyOrConflict    jetstream.ErrorCode = 10164 // from replicated streams; does not tell the real sequence
)

// Headers of KV and our own, and prefixes of subjects.
const (
	operationHeader   = "KV-Operation"
	operationDelete   = "DEL"
	operationPurge    = "PURGE"
	rollupSubject     = "sub"
	writeIDHeader     = "Nagi-Write-Id"
	defaultAPIPrefix  = "$JS.API."
	subjectsPerBucket = "$KV."
)

// bucket reads one KV bucket from the leader of its stream, and writes it by compare-and-set. The KV API of nats.go
// would read by direct get, which a replica may answer, and returns no sequence for a delete.
type bucket struct {
	nc        *nats.Conn
	denials   *denials.Denials
	name      string
	stream    string
	apiPrefix string
	putPrefix string
	place     *atomic.Pointer[place] // where the keys are
	// markerTTL is how long markers stay, in seconds; 0 if the stream takes no such TTL.
	markerTTL *atomic.Int64
	opening   *opening // nil unless Config.OpenLater
	// rollups is whether the stream takes the header that makes a purge marker remove all older revisions.
	rollups  *atomic.Bool
	accepted *acceptedSettings
	ids      *writeIDs
	async    *asyncWriter
	hook     *writeHook // nil if there is no listener of writes
	shows    *shown     // in plans
	// refusedByFence counts writes that had a fence which had moved.
	refusedByFence *atomic.Uint64
}

func newBucket(js jetstream.JetStream, name string, ids *writeIDs, async *asyncWriter) *bucket {
	b := &bucket{
		nc: js.Conn(), denials: denials.Of(js.Conn()), name: name, stream: "KV_" + name,
		ids: ids, async: async, place: new(atomic.Pointer[place]),
		rollups: new(atomic.Bool), markerTTL: new(atomic.Int64), accepted: new(acceptedSettings),
		refusedByFence: new(atomic.Uint64),
	}
	own := subjectsPerBucket + name + "."
	b.place.Store(&place{prefix: own}) // until the stream is looked at
	b.apiPrefix = apiPrefix(js)
	b.putPrefix = own
	if b.apiPrefix != defaultAPIPrefix {
		// As in nats.go, the subject of a bucket in another domain or account starts with the API's prefix.
		b.putPrefix = b.apiPrefix + own
	}
	return b
}

func apiPrefix(js jetstream.JetStream) string {
	opts := js.Options()
	switch {
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API."
	case opts.APIPrefix != "":
		return strings.TrimSuffix(opts.APIPrefix, ".") + "."
	}
	return defaultAPIPrefix
}

// stored is the last message of a key.
type stored struct {
	Revision uint64
	Created  time.Time
	Header   nats.Header
	Value    []byte
}

// entry returns s as the informer would read it.
func (s *stored) entry(natsKey string) natsinformer.Entry {
	return natsinformer.Entry{
		Key: natsKey, Revision: s.Revision, Created: s.Created, Header: s.Header, Value: s.Value,
	}
}

// isMarker reports whether the message says that the key is gone: a KV delete or purge, or the server's expiry marker.
// A marker of another key that the server sent here, because a client asked for that, deletes nothing.
func (s *stored) isMarker() bool {
	if kvstream.IsReply(s.Header, nil) {
		return false
	}
	op := s.Header.Get(operationHeader)
	return op == operationDelete || op == operationPurge || s.Header.Get(jetstream.MarkerReasonHeader) != ""
}

func (s *stored) hasExpired() bool {
	return s != nil && s.isMarker() && s.Header.Get(jetstream.MarkerReasonHeader) == "MaxAge"
}

// live returns s if it is a document, else nil.
func (s *stored) live() *stored {
	if s == nil || s.isMarker() {
		return nil
	}
	return s
}

// revision returns the sequence of s, 0 for nil.
func (s *stored) revision() uint64 {
	if s == nil {
		return 0
	}
	return s.Revision
}

type apiError struct {
	Code        int                 `json:"code"`
	ErrorCode   jetstream.ErrorCode `json:"err_code"`
	Description string              `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrorCode) }

// The answers of the JetStream API to ask: what was asked for, or why it is refused.
type (
	messageAnswer struct {
		refusal
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	infoAnswer struct {
		refusal
		Created time.Time              `json:"created"`
		Time    time.Time              `json:"ts"`
		Config  jetstream.StreamConfig `json:"config"`
		State   struct {
			LastSeq   uint64            `json:"last_seq"`
			Consumers int               `json:"consumer_count"`
			Subjects  map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	refusal struct {
		Error *apiError `json:"error"`
	}
)

func (r refusal) refused() *apiError { return r.Error }

// last reads the last message of a key from the stream's leader; nil if there is none.
func (b *bucket) last(ctx context.Context, natsKey string) (*stored, error) {
	if last, ok := b.plannedLast(ctx, natsKey); ok {
		return last, nil
	}
	prefix, err := b.prefix(ctx)
	if err != nil {
		return nil, err
	}
	request, err := stdjson.Marshal(map[string]string{"last_by_subj": prefix + natsKey})
	if err != nil {
		return nil, err
	}
	answer, err := ask[messageAnswer](ctx, b, "STREAM.MSG.GET."+b.stream, request)
	if err != nil {
		if api, ok := errors.AsType[*apiError](err); ok && api.ErrorCode == codeNoMessage {
			return nil, nil
		}
		return nil, fmt.Errorf("reading key %q of bucket %q: %w", natsKey, b.name, err)
	}
	if answer.Message == nil {
		return nil, fmt.Errorf("reading key %q of bucket %q: the server answered without a message", natsKey, b.name)
	}
	m := answer.Message
	out := &stored{Revision: m.Sequence, Created: m.Time, Value: m.Data}
	if len(m.Header) > 0 {
		if out.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return nil, fmt.Errorf("reading key %q of bucket %q at revision %d: its headers: %w",
				natsKey, b.name, m.Sequence, err)
		}
	}
	return out, nil
}

// streamInfo is the state of a stream at one moment, from one answer of its leader.
type streamInfo struct {
	Created   time.Time
	Time      time.Time // by the clock of the leader; zero before 2.10
	LastSeq   uint64
	Consumers int
	// Messages counts those of the key that was asked for.
	Messages uint64
	// Keys are those that match what was asked for, also with the marker of a delete alone.
	Keys   []string
	Config jetstream.StreamConfig
}

// info reads the state of the stream. Unless natsKey is "", it counts the messages of that key, which may have
// wildcards.
func (b *bucket) info(ctx context.Context, natsKey string) (*streamInfo, error) {
	var request []byte
	var subject, prefix string
	if natsKey != "" {
		var err error
		if prefix, err = b.prefix(ctx); err != nil {
			return nil, err
		}
		subject = prefix + natsKey
		if request, err = stdjson.Marshal(map[string]string{"subjects_filter": subject}); err != nil {
			return nil, err
		}
	}
	answer, err := ask[infoAnswer](ctx, b, "STREAM.INFO."+b.stream, request)
	if err != nil {
		return nil, fmt.Errorf("reading the state of bucket %q: %w", b.name, err)
	}
	var keys []string
	for found := range answer.State.Subjects {
		keys = append(keys, strings.TrimPrefix(found, prefix))
	}
	return &streamInfo{
		Keys: keys, Created: answer.Created, Time: answer.Time, LastSeq: answer.State.LastSeq,
		Messages: answer.State.Subjects[subject], Config: answer.Config, Consumers: answer.State.Consumers,
	}, nil
}

// ask asks the JetStream API. While no reply comes or the cluster has no leader it asks again, until the context or
// requestTimeout ends. Use it only for requests that may be repeated.
func ask[T interface{ refused() *apiError }](
	ctx context.Context, b *bucket, api string, payload []byte,
) (T, error) {
	var none T
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	subject := b.apiPrefix + api
	for attempt := 0; ; attempt++ {
		msg, err := b.roundTrip(ctx, &nats.Msg{Subject: subject, Data: payload})
		if err == nil {
			var answer T // a new one each time: the error of the last one must not stay
			if err = stdjson.Unmarshal(msg.Data, &answer); err != nil {
				return none, fmt.Errorf("the answer on %q is not JSON: %w", subject, err)
			}
			e := answer.refused()
			switch {
			case e == nil:
				return answer, nil
			case e.ErrorCode == codeStreamNotFound:
				return none, fmt.Errorf("bucket %q does not exist: create it, or leave BindOnly off: %w", b.name, e)
			case e.isFinal():
				return none, e
			}
			err = e
		}
		if denied, ok := errors.AsType[*denials.Error](err); ok {
			return none, newForbidden("", "", denied)
		}
		if giveUp := b.pause(ctx, attempt, subject, err); giveUp != nil {
			return none, giveUp
		}
	}
}

// roundTrip sends one request and waits for its answer, for attemptTimeout at most. The error is *denials.Error if the
// server denies the request or its answer.
func (b *bucket) roundTrip(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	answer, err := b.denials.Request(ctx, msg)
	switch {
	case err == nil:
		b.async.hears()
	case errors.Is(err, nats.ErrConnectionClosed):
		err = notify.Because("closed", fmt.Errorf("%w for good: %s", err, kvstream.IfClosed))
	}
	return answer, err
}

// pause waits before the next attempt. It returns an error if there must be no further attempt.
func (b *bucket) pause(ctx context.Context, attempt int, subject string, err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("no answer on %q: %w", subject, err)
	}
	wait := min(retryMax, retryMin<<min(attempt, 10))
	timer := time.NewTimer(wait/2 + rand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	return notify.Because("no answer",
		fmt.Errorf("no answer on %q within the deadline (is JetStream up, and has the stream a leader?): %w",
			subject, errors.Join(err, context.Cause(ctx))))
}

func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, requestTimeout)
}
