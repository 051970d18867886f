package recorder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	corev1 "k8s.io/api/core/v1"
)

// Query says which events List reads. The zero value means all events of the default stream.
type Query struct {
	Stream        string // default NAGI_EVENTS
	SubjectPrefix string // default nagi.events
	Kind          string // empty: of all kinds
	Key           string // client-go's, "name" or "namespace/name"; empty: of all entities
}

// List reads the events that this recorder's stream keeps about an entity. See the function List.
func (r *Recorder) List(ctx context.Context, kind, key string) ([]corev1.Event, error) {
	if r == nil || r.cfg.JetStream == nil {
		return nil, nil
	}
	q := Query{Stream: r.cfg.Stream, SubjectPrefix: r.cfg.SubjectPrefix, Kind: kind, Key: key}
	return List(ctx, r.cfg.JetStream, q)
}

// List reads the events a stream keeps, the longest unchanged first. The resourceVersion of an event is its sequence in
// the stream. A message that is no event is an error. No consumer is left behind.
func List(ctx context.Context, js jetstream.JetStream, q Query) (events []corev1.Event, err error) {
	if q.Stream == "" {
		q.Stream = DefaultStream
	}
	filter := Subject(q.SubjectPrefix, q.Kind, q.Key)
	stream, err := lookUp(ctx, js, q.Stream)
	if err != nil {
		err = explain(err, api(js, "STREAM.INFO.%s", q.Stream))
		return nil, fmt.Errorf("recorder: looking up the stream %s: %w", q.Stream, err)
	}
	consumer, err := makeConsumer(ctx, js, stream, q.Stream, filter)
	if err != nil {
		return nil, fmt.Errorf("recorder: reading %s from the stream %s: %w", filter, q.Stream, err)
	}
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamTimeout)
		defer cancel()
		_ = stream.DeleteConsumer(cleanup, consumer.CachedInfo().Name) // else the server does it in 30 s
	}()
	name := consumer.CachedInfo().Name
	next := denials.Of(js.Conn()).Publish(api(js, "CONSUMER.MSG.NEXT.%s.%s", q.Stream, name), nil)
	defer next.Stop()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		before := len(events)
		if events, left, err = fetch(ctx, consumer, events, left); err != nil {
			return nil, fmt.Errorf("recorder: reading %s from the stream %s: %w", filter, q.Stream, err)
		}
		if len(events) > before {
			continue
		}
		// Nothing came: the rest has aged out meanwhile, or the request got no answer.
		if err := next.Err(); err != nil {
			err = explain(err, api(js, "CONSUMER.MSG.NEXT.%s.*", q.Stream))
			return nil, fmt.Errorf("recorder: reading %s from the stream %s: %w", filter, q.Stream, err)
		}
		pending, err := pendingOf(ctx, js, consumer, q.Stream)
		if err == nil && pending >= left {
			err = nats.ErrTimeout
		}
		if err != nil {
			return nil, fmt.Errorf("recorder: reading %s from the stream %s: %w", filter, q.Stream, err)
		}
		left = pending
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(
			a.LastTimestamp.Compare(b.LastTimestamp.Time),
			cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)),
			cmp.Compare(a.ResourceVersion, b.ResourceVersion),
		)
	})
	return events, nil
}

func makeConsumer(
	ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, name, filter string,
) (consumer jetstream.Consumer, err error) {
	cfg := jetstream.ConsumerConfig{
		Name: "nagi-events-" + nuid.Next(),
		// The last of each subject, for a stream not made by us may keep every repeat.
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     filter,
		MemoryStorage:     true,
		InactiveThreshold: 30 * time.Second,
	}
	if limit := stream.CachedInfo().Config.ConsumerLimits.InactiveThreshold; limit > 0 {
		cfg.InactiveThreshold = min(cfg.InactiveThreshold, limit)
	}
	subject := api(js, "CONSUMER.CREATE.%s.%s.%s", name, cfg.Name, filter)
	err = denials.Of(js.Conn()).Call(ctx, subject, func(ctx context.Context) (err error) {
		consumer, err = stream.CreateConsumer(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, explain(err, api(js, "CONSUMER.CREATE.%s.>", name))
	}
	return consumer, nil
}

func pendingOf(
	ctx context.Context, js jetstream.JetStream, consumer jetstream.Consumer, stream string,
) (pending uint64, err error) {
	subject := api(js, "CONSUMER.INFO.%s.%s", stream, consumer.CachedInfo().Name)
	err = denials.Of(js.Conn()).Call(ctx, subject, func(ctx context.Context) error {
		info, err := consumer.Info(ctx)
		if err == nil {
			pending = info.NumPending
		}
		return err
	})
	if err != nil {
		return 0, explain(err, api(js, "CONSUMER.INFO.%s.*", stream))
	}
	return pending, nil
}

// most is how many events are asked for at a time: the server may allow fewer (jetstream.limits.max_request_batch).
func most(consumer jetstream.Consumer) uint64 {
	const usual = 500
	if limit := consumer.CachedInfo().Config.MaxRequestBatch; limit > 0 {
		return uint64(min(limit, usual))
	}
	return usual
}

// fetch appends the next events and returns how many the server has after them.
func fetch(
	ctx context.Context, consumer jetstream.Consumer, events []corev1.Event, left uint64,
) ([]corev1.Event, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	batch, err := consumer.FetchNoWait(int(min(left, most(consumer))))
	if err != nil {
		return nil, 0, err
	}
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			return nil, 0, err
		}
		var event corev1.Event
		if err := json.Unmarshal(msg.Data(), &event); err != nil {
			return nil, 0, fmt.Errorf("message %d on %s is no event: %w", meta.Sequence.Stream, msg.Subject(), err)
		}
		event.ResourceVersion = strconv.FormatUint(meta.Sequence.Stream, 10)
		events, left = append(events, event), meta.NumPending
	}
	return events, left, batch.Error()
}
