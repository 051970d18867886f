package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requestTimeout bounds one request.
const requestTimeout = 5 * time.Second

// The server's error codes that this package handles.
const (
	codeNoMessage         jetstream.ErrorCode = 10037
	codeStreamNotFound    jetstream.ErrorCode = 10059
	codeWrongLastSequence jetstream.ErrorCode = 10071
	codeBusyOrConflict    jetstream.ErrorCode = 10164 // from replicated streams
)

const (
	stream        = "KV_" + Bucket
	subjectPrefix = "$KV." + Bucket + "."
	defaultAPI    = "$JS.API."
	messageOf     = "STREAM.MSG.GET.KV_" // and a bucket: what reads one message of it
)

// bucket reads the registry from the leader of its stream, and writes it by compare-and-set.
type bucket struct {
	js      jetstream.JetStream
	denials *denials.Denials
	api     string // the prefix of the API's subjects
	puts    string // what comes before the subject of a put
}

func bucketOf(js jetstream.JetStream) *bucket {
	b := &bucket{js: js, denials: denials.Of(js.Conn()), api: defaultAPI}
	switch opts := js.Options(); {
	case opts.Domain != "":
		b.api = "$JS." + opts.Domain + ".API."
	case opts.APIPrefix != "":
		b.api = strings.TrimSuffix(opts.APIPrefix, ".") + "."
	}
	if b.api != defaultAPI {
		b.puts = b.api
	}
	return b
}

// configOf is what package entity needs to know of the bucket. Its documents are never read as entities.
func configOf(settings entity.Config) entity.Config {
	return entity.Config{
		Kind: "Kind", Bucket: Bucket, StatusBucket: entity.NoStatusBucket,
		BindOnly: settings.BindOnly, Replicas: settings.Replicas, Storage: settings.Storage,
		Placement: settings.Placement, Compression: settings.Compression,
		MaxBytes: settings.MaxBytes,
	}
}

// open checks the settings of the bucket, as those of every other, and makes one that is missing unless that is
// forbidden.
func (b *bucket) open(ctx context.Context, settings entity.Config) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := entity.NewClient[*unstructured.Unstructured](ctx, b.js, configOf(settings))
	if err != nil {
		return fmt.Errorf("%w (Config.MaxBytes is registry.Options.MaxBytes here, the rest that of the primary)", err)
	}
	client.Close()
	return client.ReadOnly()
}

// stored is the last value of a key. The zero value is that of a key that there never was.
type stored struct {
	value    []byte // nil where the key does not exist
	revision uint64
}

// get reads a key of the registry.
func (b *bucket) get(ctx context.Context, key string) (stored, error) {
	return b.last(ctx, Bucket, key)
}

// last reads a key of a bucket, from the leader of its stream.
func (b *bucket) last(ctx context.Context, bucket, key string) (stored, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	request := map[string]any{"last_by_subj": "$KV." + bucket + "." + key}
	err := b.ask(ctx, messageOf+bucket, request, &answer)
	if err == nil && answer.Error != nil {
		err = answer.Error
	}
	if hasCode(err, codeNoMessage) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, fmt.Errorf("reading key %q of bucket %q: %w", key, bucket, err)
	}
	m := answer.Message
	if len(m.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return stored{}, fmt.Errorf("reading key %q of bucket %q: its headers: %w", key, bucket, err)
		}
		if header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != "" {
			return stored{revision: m.Sequence}, nil
		}
	}
	if m.Data == nil {
		m.Data = []byte{}
	}
	return stored{m.Data, m.Sequence}, nil
}

// keys lists the keys that the bucket has a message for, those of deletes included.
func (b *bucket) keys(ctx context.Context) (keys []string, err error) {
	for {
		var answer struct {
			Error *jetstream.APIError `json:"error"`
			Total int                 `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		request := map[string]any{"subjects_filter": subjectPrefix + ">", "offset": len(keys)}
		err := b.ask(ctx, "STREAM.INFO."+stream, request, &answer)
		if err == nil && answer.Error != nil {
			err = answer.Error
		}
		if err != nil {
			return nil, fmt.Errorf("listing the keys of bucket %q: %w", Bucket, err)
		}
		for subject := range answer.State.Subjects {
			keys = append(keys, strings.TrimPrefix(subject, subjectPrefix))
		}
		if len(answer.State.Subjects) == 0 || len(keys) >= answer.Total || len(keys) > mostKeys {
			return keys, nil
		}
	}
}

// mostKeys bounds how many keys are listed.
const mostKeys = 100_000

func (b *bucket) ask(ctx context.Context, api string, request, answer any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := b.denials.Request(ctx, &nats.Msg{Subject: b.api + api, Data: data})
	if err != nil {
		return noAnswer(err)
	}
	return json.Unmarshal(msg.Data, answer)
}

func noAnswer(err error) error {
	if _, denied := errors.AsType[*denials.Error](err); denied {
		return err
	}
	return fmt.Errorf("no answer (is JetStream up, and has the stream a leader?): %w", err)
}

// errChanged says that another writer wrote the key meanwhile.
var errChanged = errors.New("somebody else writes it all the time")

// put writes a key if it is still at a revision.
func (b *bucket) put(ctx context.Context, key string, value []byte, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	subject := b.puts + subjectPrefix + key
	err := b.denials.Call(ctx, subject, func(ctx context.Context) error {
		_, err := b.js.Publish(ctx, subject, value, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if hasCode(err, codeWrongLastSequence) || hasCode(err, codeBusyOrConflict) {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("writing key %q of bucket %q: %w", key, Bucket, err)
	}
	return nil
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}
