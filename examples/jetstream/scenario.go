package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The scenario uses names that the user's server is not likely to have.
const (
	ordersName = "nagi-sample-orders"
	billingKey = ordersName + ".billing"
	theirsName = "nagi-sample-of-somebody-else"

	orders  = "nagi-sample.orders.>"
	paid    = "nagi-sample.orders.paid"
	refunds = "nagi-sample.refunds.>"
	theirs  = "nagi-sample.theirs.>"
)

// scenarioMark is in the metadata of the stream that the scenario makes as somebody else. Without the mark the scenario
// must not delete it.
const scenarioMark = "nagi-sample-scenario"

// stepPatience is how long a step may take until the world matches.
const stepPatience = 20 * time.Second

// step is one thing that somebody does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

func scenario(ctx context.Context, out io.Writer, w *world) error {
	start := time.Now()
	steps := w.steps()
	for _, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %q: %w", s.name, err)
		}
		seen, err := until(ctx, s.want)
		if err != nil {
			return fmt.Errorf("step %q: the world did not match within %v: %w", s.name, stepPatience, err)
		}
		_, _ = fmt.Fprintf(out, "%7.1f ms  %-50s %s  (after %.1f ms)\n",
			ms(time.Since(start)), s.name, seen, ms(time.Since(began)))
	}
	_, _ = fmt.Fprintf(out, "\nAll %d steps hold.\n", len(steps))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stepPatience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		seen, err := want(ctx)
		if err == nil {
			return seen, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(last, ctx.Err())
		case <-tick.C:
		}
	}
}

func (w *world) steps() []step {
	return slices.Concat(w.making(), w.meddling(), w.ending())
}

func (w *world) making() []step {
	return []step{{
		name: "a clean table",
		do: func(ctx context.Context) error {
			return errors.Join(
				ignoreNotFound(w.consumers.Delete(ctx, billingKey)),
				ignoreNotFound(w.streams.Delete(ctx, ordersName)),
				ignoreNotFound(w.streams.Delete(ctx, theirsName)), w.deleteTheirs(ctx))
		},
		want: func(ctx context.Context) (string, error) {
			return "nothing of an earlier run is left", errors.Join(w.gone(ctx, ordersName), w.gone(ctx, theirsName))
		},
	}, {
		name: `create Consumer "` + billingKey + `"`,
		do: func(ctx context.Context) error {
			return w.consumers.Create(ctx, &Consumer{
				ObjectMeta: metav1.ObjectMeta{Name: billingKey}, Spec: ConsumerSpec{Filter: paid},
			})
		},
		want: func(ctx context.Context) (string, error) {
			consumer, err := w.consumers.Get(ctx, billingKey)
			if err == nil && consumer.Status.Note != "waits for its stream" {
				err = fmt.Errorf("its status is %q", consumer.Status.Note)
			}
			return "there is no stream yet: it waits", err
		},
	}, {
		name: `create Stream "` + ordersName + `"`,
		do: func(ctx context.Context) error {
			return w.streams.Create(ctx, &Stream{
				ObjectMeta: metav1.ObjectMeta{Name: ordersName},
				Spec:       StreamSpec{Subjects: []string{orders}, MaxMessages: 1000},
			})
		},
		want: func(ctx context.Context) (string, error) {
			return "the real stream and consumer are there", w.matches(ctx, 1000, paid, orders)
		},
	}, {
		name: "publish an order",
		do: func(ctx context.Context) error {
			_, err := w.js.Publish(ctx, paid, []byte("one"))
			return err
		},
		want: w.delivered,
	}, {
		name: "another program puts raw JSON over the Stream",
		do: func(ctx context.Context) error {
			kv, err := w.js.KeyValue(ctx, streamsBucket)
			if err != nil {
				return err
			}
			_, err = kv.Put(ctx, ordersName,
				[]byte(`{"spec":{"subjects":["`+orders+`","`+refunds+`"],"maxMessages":2000}}`))
			return err
		},
		want: func(ctx context.Context) (string, error) {
			return "the real stream follows", w.matches(ctx, 2000, paid, orders, refunds)
		},
	}}
}

func (w *world) meddling() []step {
	want := func(seen string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			return seen, w.matches(ctx, 2000, paid, orders, refunds)
		}
	}
	var messages uint64
	return []step{{
		name: "somebody edits the real stream by hand",
		do: func(ctx context.Context) error {
			stream, err := w.js.Stream(ctx, ordersName)
			if err != nil {
				return err
			}
			messages = stream.CachedInfo().State.Msgs
			config := stream.CachedInfo().Config
			config.MaxMsgs, config.Subjects = 5, []string{"nagi-sample.mine.>"}
			_, err = w.js.UpdateStream(ctx, config)
			return err
		},
		want: func(ctx context.Context) (string, error) {
			stream, err := w.js.Stream(ctx, ordersName)
			if err == nil && stream.CachedInfo().State.Msgs != messages {
				err = fmt.Errorf("%d messages, there were %d", stream.CachedInfo().State.Msgs, messages)
			}
			if err != nil {
				return "", err
			}
			return want("seen and repaired, its messages are there")(ctx)
		},
	}, {
		name: "somebody deletes the real consumer by hand",
		do:   func(ctx context.Context) error { return w.js.DeleteConsumer(ctx, ordersName, "billing") },
		want: want("it is made again"),
	}, {
		name: "somebody deletes the real stream by hand",
		do:   func(ctx context.Context) error { return w.js.DeleteStream(ctx, ordersName) },
		want: want("it is made again, and its consumer"),
	}, {
		name: "a Stream, where a stream is somebody else's",
		do: func(ctx context.Context) error {
			if _, err := w.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: theirsName, Subjects: []string{theirs},
				Metadata: map[string]string{scenarioMark: "somebody else"},
			}); err != nil {
				return err
			}
			return w.streams.Create(ctx, &Stream{
				ObjectMeta: metav1.ObjectMeta{Name: theirsName},
				Spec:       StreamSpec{Subjects: []string{"nagi-sample.ours.>"}},
			})
		},
		want: func(ctx context.Context) (string, error) {
			record, err := w.streams.Record(ctx, theirsName)
			if err != nil {
				return "", err
			}
			for _, c := range record.Conditions {
				if c.Type == entity.ConditionReconciled && strings.Contains(c.Message, "is not ours") {
					return "it is left alone, and the condition says so", w.theirs(ctx)
				}
			}
			return "", fmt.Errorf("its conditions are %+v", record.Conditions)
		},
	}}
}

func (w *world) ending() []step {
	return []step{{
		name: "delete all that was created",
		do: func(ctx context.Context) error {
			return errors.Join(
				w.streams.Delete(ctx, theirsName),
				w.consumers.Delete(ctx, billingKey),
				w.streams.Delete(ctx, ordersName))
		},
		want: func(ctx context.Context) (string, error) {
			if err := errors.Join(w.gone(ctx, ordersName), w.theirs(ctx)); err != nil {
				return "", err
			}
			_, err := w.streams.Record(ctx, theirsName)
			if err == nil {
				return "", errors.New("the record of our Stream is still there")
			}
			return "ours are gone, theirs is there", ignoreNotFound(err)
		},
	}, {
		name: "clean up after them",
		do:   w.deleteTheirs,
		want: func(ctx context.Context) (string, error) { return "done", w.gone(ctx, theirsName) },
	}}
}

// matches reads live whether the real stream and consumer have the desired state, and whether the statuses name them.
func (w *world) matches(ctx context.Context, messages int64, filter string, subjects ...string) error {
	stream, err := w.js.Stream(ctx, ordersName)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if info.Config.MaxMsgs != messages || !slices.Equal(info.Config.Subjects, subjects) {
		return fmt.Errorf("the real stream has %v and %d messages at most, want %v and %d",
			info.Config.Subjects, info.Config.MaxMsgs, subjects, messages)
	}
	consumer, err := stream.Consumer(ctx, "billing")
	if err != nil {
		return err
	}
	if have := consumer.CachedInfo().Config.FilterSubject; have != filter {
		return fmt.Errorf("consumer billing filters %q, want %q", have, filter)
	}
	wish, err := w.streams.Get(ctx, ordersName)
	if err == nil && wish.Status.Created != info.Created.Format(time.RFC3339Nano) {
		err = fmt.Errorf("the status is of a stream made at %q, the real one was at %v",
			wish.Status.Created, info.Created)
	}
	return err
}

// delivered reads the order through the consumer.
func (w *world) delivered(ctx context.Context) (string, error) {
	consumer, err := w.js.Consumer(ctx, ordersName, "billing")
	if err != nil {
		return "", err
	}
	batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
	if err != nil {
		return "", err
	}
	for msg := range batch.Messages() {
		return fmt.Sprintf("the consumer delivers %q", msg.Data()), msg.DoubleAck(ctx)
	}
	return "", errors.Join(errors.New("nothing was delivered"), batch.Error())
}

// gone reads live whether nothing of a stream is left: no document, no record, no stream, and so no consumer.
func (w *world) gone(ctx context.Context, name string) error {
	if _, err := w.js.Stream(ctx, name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return errors.Join(fmt.Errorf("stream %s is still there", name), err)
	}
	_, document := w.streams.Get(ctx, name)
	_, record := w.streams.Record(ctx, name)
	_, consumer := w.consumers.Record(ctx, name+".billing")
	for what, err := range map[string]error{
		"document": document, "record": record, "record of the consumer": consumer,
	} {
		if !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("the %s of %s is still there", what, name), err)
		}
	}
	return nil
}

// theirs reads live whether the other stream is as its owner made it.
func (w *world) theirs(ctx context.Context) error {
	stream, err := w.js.Stream(ctx, theirsName)
	if err == nil && !slices.Equal(stream.CachedInfo().Config.Subjects, []string{theirs}) {
		err = fmt.Errorf("their stream has %v now", stream.CachedInfo().Config.Subjects)
	}
	return err
}

// deleteTheirs deletes the other stream if the scenario has made it, in this run or an earlier one.
func (w *world) deleteTheirs(ctx context.Context) error {
	stream, err := w.js.Stream(ctx, theirsName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if stream.CachedInfo().Config.Metadata[scenarioMark] == "" {
		return notOurs("stream", theirsName)
	}
	return deleteStream(ctx, w.js, theirsName)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
