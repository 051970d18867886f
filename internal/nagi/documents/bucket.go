package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The server's error codes that are answers.
const (
	codeNoLeader       jetstream.ErrorCode = 10008
	codeNoMessage      jetstream.ErrorCode = 10037
	codeStreamNotFound jetstream.ErrorCode = 10059
)

// bucket is a KV bucket, as the leader of its stream has it.
type bucket struct {
	nc      *nats.Conn
	denials *denials.Denials
	api     string // the prefix of the API's subjects
	name    string
	timeout time.Duration
	place   chan *state // has the state that was read last, or nil; taken while it is read
}

func newBucket(js jetstream.JetStream, name string, timeout time.Duration) *bucket {
	b := &bucket{nc: js.Conn(), denials: denials.Of(js.Conn()), api: "$JS.API.", name: name, timeout: timeout,
		place: make(chan *state, 1)}
	switch o := js.Options(); {
	case o.Domain != "":
		b.api = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		b.api = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	b.place <- nil
	return b
}

// message is one that a bucket stores.
type message struct {
	key    string // of NATS
	seq    uint64
	gone   bool // it is the marker of a delete
	value  []byte
	header nats.Header
	at     time.Time // of the write
}

// state is what the leader says of the stream.
type state struct {
	prefix   string // of the subjects of documents
	created  time.Time
	messages uint64
	subjects uint64
	last     uint64
	history  int
	inactive time.Duration // the longest that a consumer may ask for; 0 for any
}

// prefix is what comes before the keys in subjects. It is asked for once.
func (b *bucket) prefix(ctx context.Context) (string, error) {
	select {
	case s := <-b.place:
		defer func() { b.place <- s }()
		if s == nil {
			var err error
			if s, err = b.state(ctx); err != nil {
				return "", err
			}
		}
		return s.prefix, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (b *bucket) state(ctx context.Context) (*state, error) {
	var info struct {
		Created time.Time `json:"created"`
		Config  struct {
			kvstream.Stream
			History int `json:"max_msgs_per_subject"`
			Limits  struct {
				Inactive time.Duration `json:"inactive_threshold"`
			} `json:"consumer_limits"`
		} `json:"config"`
		State struct {
			Messages uint64 `json:"messages"`
			Subjects uint64 `json:"num_subjects"`
			LastSeq  uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := b.ask(ctx, "STREAM.INFO."+b.stream(), nil, &info); err != nil {
		return nil, err
	}
	place, err := kvstream.FindDocuments(b.name, info.Config.Stream)
	if err != nil {
		return nil, err
	}
	return &state{
		prefix: place.Prefix, created: info.Created, messages: info.State.Messages,
		subjects: info.State.Subjects, last: info.State.LastSeq,
		history: info.Config.History, inactive: info.Config.Limits.Inactive,
	}, nil
}

func (b *bucket) stream() string { return "KV_" + b.name }

// last reads the last message of a key from the leader; nil if there is none.
func (b *bucket) last(ctx context.Context, natsKey string) (*message, error) {
	prefix, err := b.prefix(ctx)
	if err != nil {
		return nil, err
	}
	return b.lastOf(ctx, prefix, natsKey)
}

// lastOf is last for a pattern of keys below a prefix.
func (b *bucket) lastOf(ctx context.Context, prefix, pattern string) (*message, error) {
	return b.get(ctx, prefix, map[string]string{"last_by_subj": prefix + pattern})
}

// get reads the message that a request names; nil if there is none.
func (b *bucket) get(ctx context.Context, prefix string, request any) (*message, error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Value   []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err := b.ask(ctx, "STREAM.MSG.GET."+b.stream(), request, &answer)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeNoMessage {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &message{key: strings.TrimPrefix(answer.Message.Subject, prefix), seq: answer.Message.Seq,
		value: answer.Message.Value, at: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return nil, fmt.Errorf("key %s of bucket %q: its headers: %w", printable.Quote(m.key), b.name, err)
		}
	}
	m.judge()
	return m, nil
}

// judge finds out whether a message is the marker of a delete. One that a server wrote as an answer is a value, though
// no document.
func (m *message) judge() {
	if len(m.header) == 0 || kvstream.IsReply(m.header, nil) {
		return
	}
	op := m.header.Get("KV-Operation")
	m.gone = op == "DEL" || op == "PURGE" || m.header.Get(jetstream.MarkerReasonHeader) != ""
}

// expires is when a document ends by its TTL, as entity.ExpiresAnnotation has it; "" if it has none.
func (m *message) expires() string {
	at, never := natsinformer.Entry{Header: m.header, Created: m.at}.Expires()
	switch {
	case never:
		return entity.ExpiresNever
	case at.IsZero():
		return ""
	}
	return kvstream.MeantExpiry(m.header, at).UTC().Format(time.RFC3339Nano)
}

// ask asks the JetStream API, and again while there is no answer or no leader, for as long as the timeout.
func (b *bucket) ask(ctx context.Context, api string, request, answer any) error {
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return err
		}
	}
	within, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	for {
		err := b.askOnce(within, b.api+api, data, answer)
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode != codeNoLeader {
			return b.explain(err)
		}
		if _, denied := errors.AsType[*denials.Error](err); denied || err == nil || ctx.Err() != nil {
			return b.explain(err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-within.Done():
			return b.explain(err)
		}
	}
}

// askAgain is when a request is sent again that was not answered: an election takes a second or two.
const askAgain = 2 * time.Second

func (b *bucket) askOnce(ctx context.Context, subject string, data []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	msg, err := b.denials.Request(ctx, &nats.Msg{Subject: subject, Data: data})
	if err != nil {
		return err
	}
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &failed); err != nil {
		return fmt.Errorf("the answer on %s is no JSON: %w", subject, err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	return json.Unmarshal(msg.Data, answer)
}

// consumerName is what is random in a subject that is to be granted.
var consumerName = regexp.MustCompile(`\.nagi-[A-Za-z0-9]{22}`)

// explain says what an error means, and what to do.
func (b *bucket) explain(err error) error {
	denied, isDenied := errors.AsType[*denials.Error](err)
	refused, isRefused := errors.AsType[*jetstream.APIError](err)
	var explained apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &explained):
		return err
	case isDenied:
		return statusError(http.StatusForbidden, metav1.StatusReasonForbidden, "reading bucket %q: %s", b.name,
			consumerName.ReplaceAllString(denied.Error(), ".*"))
	case isRefused && refused.ErrorCode == codeStreamNotFound:
		return statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no bucket %q: its "+
			"controller makes it when it starts (nats kv ls lists those that there are)", b.name)
	case isRefused:
		return fmt.Errorf("reading bucket %q: %w", b.name, err)
	}
	return statusError(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		"reading bucket %q: no answer (is JetStream up, and has stream %s a leader? nats stream info %s): %v",
		b.name, b.stream(), b.stream(), err)
}
