package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Consumer asks for a durable consumer. Its key says where: "orders.billing" is the consumer billing on the stream
// orders.
type (
	ConsumerSpec struct {
		Filter string `json:"filter,omitempty"`
	}
	ConsumerStatus struct {
		Note string `json:"note,omitempty"`
	}
	Consumer = entity.Object[ConsumerSpec, ConsumerStatus]
)

type consumerDriver struct{ js jetstream.JetStream }

func (consumerDriver) Kind() string { return "JetStreamConsumer" }

func split(key string) (stream, name string) {
	stream, name, _ = strings.Cut(key, ".")
	return stream, name
}

func (d consumerDriver) Observe(
	ctx context.Context, target external.Target,
) (external.Observation[*jetstream.ConsumerInfo], error) {
	stream, name := split(target.Owner.Key)
	consumer, err := d.js.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return external.Absent[*jetstream.ConsumerInfo](), nil
	}
	if err != nil {
		return external.Unknown[*jetstream.ConsumerInfo]("no answer"), away(err)
	}
	info := consumer.CachedInfo()
	if !ownedBy(info.Config.Metadata, target.Owner) {
		return external.Unknown[*jetstream.ConsumerInfo](""), notOurs("consumer", target.Owner.Key)
	}
	return external.Exists(info), nil
}

func (consumerDriver) Diff(desired ConsumerSpec, observed *jetstream.ConsumerInfo) []external.Change {
	if desired.Filter == observed.Config.FilterSubject {
		return nil
	}
	return []external.Change{{Field: "filter", From: observed.Config.FilterSubject, To: desired.Filter}}
}

func (d consumerDriver) Apply(
	ctx context.Context, req external.ApplyRequest[ConsumerSpec, *jetstream.ConsumerInfo],
) (external.Outcome, error) {
	stream, name := split(req.Owner.Key)
	config := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy}
	apply := d.js.CreateConsumer
	if req.Observed != nil {
		config, apply = (*req.Observed).Config, d.js.UpdateConsumer
	}
	config.FilterSubject = req.Desired.Filter
	config.Metadata = marked(config.Metadata, req.Owner)
	_, err := apply(ctx, stream, config)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return external.Done(), external.Refused(err) // nothing was made, and nothing will be
	}
	return external.Done(), away(err)
}

func (d consumerDriver) Delete(
	ctx context.Context, req external.DeleteRequest[*jetstream.ConsumerInfo],
) (external.Outcome, error) {
	return external.Done(), deleteConsumer(ctx, d.js, req.Owner.Key)
}

func deleteConsumer(ctx context.Context, js jetstream.JetStream, key string) error {
	stream, name := split(key)
	err := js.DeleteConsumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return away(err)
}

// consumerClient lists the real consumers of this installation. They are on streams of this installation only.
type consumerClient struct{ consumerDriver }

func (c consumerClient) List(ctx context.Context) (found []external.Resource, err error) {
	streams := c.js.ListStreams(ctx)
	for stream := range streams.Info() {
		if _, ok := ownerIn(stream.Config.Metadata, "Stream", ""); !ok {
			continue
		}
		handle, err := c.js.Stream(ctx, stream.Config.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, away(err)
		}
		consumers := handle.ListConsumers(ctx)
		for info := range consumers.Info() {
			if key, ok := ownerIn(info.Config.Metadata, "Consumer", external.InstanceOf(ctx)); ok {
				found = append(found, external.Resource{
					ID: stream.Config.Name + "." + info.Name, OwnerKey: key,
					Version: version(info.Created, info.Config),
				})
			}
		}
		if err := consumers.Err(); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, away(err)
		}
	}
	return found, away(streams.Err())
}

func (c consumerClient) Delete(ctx context.Context, id string) error {
	return deleteConsumer(ctx, c.js, id)
}

func (c consumerClient) DeleteSeen(ctx context.Context, seen external.Resource) error {
	stream, name := split(seen.ID)
	consumer, err := c.js.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return away(err)
	}
	if info := consumer.CachedInfo(); version(info.Created, info.Config) != seen.Version {
		return changed("consumer", seen.ID)
	}
	return c.Delete(ctx, seen.ID)
}

func (c consumerClient) Watch(ctx context.Context, changed func(string)) error {
	return advisories(ctx, c.js.Conn(), "$JS.EVENT.ADVISORY.CONSUMER.*.>", changed)
}

// consumers reconciles Consumer entities, and looks at Stream entities.
type consumers struct {
	entities *entity.Client[*Consumer]
	streams  *entity.Client[*Stream]
	driver   consumerDriver
}

// onStream finds the consumers on a changed stream: it may have become ready, or be another one.
func (r *consumers) onStream(_ context.Context, stream *Stream) (keys []string, err error) {
	all, err := r.entities.Lister().List(nil)
	for _, consumer := range all {
		if on, _ := split(consumer.Name); on == stream.Name {
			keys = append(keys, consumer.Name)
		}
	}
	return keys, err
}

func (r *consumers) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	wish, err := r.entities.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		result, err := external.ReconcileAbsent(ctx, r.driver, atOnce)
		return controller.Result{RequeueAfter: result.RequeueAfter}, mineOnly(err)
	}
	if err != nil {
		return controller.Result{}, err
	}
	result, err := external.Reconcile(ctx, r.driver, wish.Spec, atOnce)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		wish.Status.Note = "waits for its stream" // onStream wakes it
	case err != nil:
		return controller.Result{}, err
	case result.State == external.StateSynced:
		wish.Status.Note = "made " + (*result.Observed).Created.Format(time.RFC3339Nano)
	}
	return controller.Result{RequeueAfter: result.RequeueAfter}, r.entities.UpdateStatus(ctx, wish)
}
