package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Stream asks for a JetStream stream of the same name.
type (
	StreamSpec struct {
		Subjects    []string `json:"subjects"`
		MaxMessages int64    `json:"maxMessages,omitempty"` // 0: no limit
	}
	StreamStatus struct {
		Created string `json:"created,omitempty"` // when the real stream was made; it tells two of the same name apart
	}
	Stream = entity.Object[StreamSpec, StreamStatus]
)

// streamDriver makes real streams. It knows nothing of retries and crashes, and of ownership only the marks it sets.
type streamDriver struct{ js jetstream.JetStream }

func (streamDriver) Kind() string { return "JetStreamStream" }

func (d streamDriver) Observe(
	ctx context.Context, target external.Target,
) (external.Observation[*jetstream.StreamInfo], error) {
	stream, err := d.js.Stream(ctx, target.Owner.Key)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return external.Absent[*jetstream.StreamInfo](), nil
	}
	if err != nil {
		return external.Unknown[*jetstream.StreamInfo]("no answer"), away(err)
	}
	info := stream.CachedInfo()
	if !ownedBy(info.Config.Metadata, target.Owner) {
		return external.Unknown[*jetstream.StreamInfo](""), notOurs("stream", target.Owner.Key)
	}
	return external.Exists(info), nil
}

func (streamDriver) Diff(desired StreamSpec, observed *jetstream.StreamInfo) (changes []external.Change) {
	if !slices.Equal(desired.Subjects, observed.Config.Subjects) {
		changes = append(changes, external.Change{
			Field: "subjects",
			From:  strings.Join(observed.Config.Subjects, " "),
			To:    strings.Join(desired.Subjects, " "),
		})
	}
	if have := observed.Config.MaxMsgs; limit(desired.MaxMessages) != limit(have) {
		changes = append(changes, external.Change{
			Field: "maxMessages", From: fmt.Sprint(limit(have)), To: fmt.Sprint(limit(desired.MaxMessages)),
		})
	}
	return changes
}

// limit returns a limit as JetStream tells it: -1 for none.
func limit(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

func (d streamDriver) Apply(
	ctx context.Context, req external.ApplyRequest[StreamSpec, *jetstream.StreamInfo],
) (external.Outcome, error) {
	config := jetstream.StreamConfig{Name: req.Owner.Key, Storage: jetstream.MemoryStorage}
	apply := d.js.CreateStream // it is harmless twice: the stream's name follows from the primary's
	if req.Observed != nil {
		config, apply = (*req.Observed).Config, d.js.UpdateStream // other settings stay as they are
	}
	config.Subjects, config.MaxMsgs = req.Desired.Subjects, limit(req.Desired.MaxMessages)
	config.Metadata = marked(config.Metadata, req.Owner)
	_, err := apply(ctx, config)
	return external.Done(), away(err)
}

func (d streamDriver) Delete(
	ctx context.Context, req external.DeleteRequest[*jetstream.StreamInfo],
) (external.Outcome, error) {
	return external.Done(), deleteStream(ctx, d.js, req.Owner.Key)
}

func deleteStream(ctx context.Context, js jetstream.JetStream, name string) error {
	err := js.DeleteStream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return away(err)
}

// streamClient lists the real streams of this installation, so that the runtime notices when others change them.
type streamClient struct{ streamDriver }

func (c streamClient) List(ctx context.Context) (found []external.Resource, err error) {
	list := c.js.ListStreams(ctx)
	for info := range list.Info() {
		if key, ok := ownerIn(info.Config.Metadata, "Stream", external.InstanceOf(ctx)); ok {
			found = append(found, external.Resource{
				ID: info.Config.Name, OwnerKey: key, Version: version(info.Created, info.Config),
			})
		}
	}
	return found, away(list.Err())
}

func (c streamClient) Delete(ctx context.Context, id string) error {
	return deleteStream(ctx, c.js, id)
}

// DeleteSeen deletes the stream only if it is as in the list: since then somebody may have made another one of that
// name. The runtime calls it instead of Delete.
func (c streamClient) DeleteSeen(ctx context.Context, seen external.Resource) error {
	stream, err := c.js.Stream(ctx, seen.ID)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return away(err)
	}
	if info := stream.CachedInfo(); version(info.Created, info.Config) != seen.Version {
		return changed("stream", seen.ID)
	}
	return c.Delete(ctx, seen.ID)
}

// Watch reports the server's advisories, so that an edit is seen at once and not only at the next list.
func (c streamClient) Watch(ctx context.Context, changed func(string)) error {
	return advisories(ctx, c.js.Conn(), "$JS.EVENT.ADVISORY.STREAM.*.>", changed)
}

func advisories(ctx context.Context, nc *nats.Conn, subject string, changed func(string)) error {
	sub, err := nc.Subscribe(subject, func(*nats.Msg) { changed("") }) // the next list tells which one changed
	if err != nil {
		return err
	}
	<-ctx.Done()
	return sub.Unsubscribe()
}

// streams reconciles Stream entities.
type streams struct {
	entities *entity.Client[*Stream]
	driver   streamDriver
}

// atOnce says that reads show a write at once: the stream's leader answers them. So a deleted stream is made again
// without a wait for replicas.
var atOnce = external.Settle(0)

// Reconcile hands the desired state to the driver. When a Stream is deleted, the driver removes the real one.
func (r *streams) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	wish, err := r.entities.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		result, err := external.ReconcileAbsent(ctx, r.driver, atOnce)
		return controller.Result{RequeueAfter: result.RequeueAfter}, mineOnly(err)
	}
	if err != nil {
		return controller.Result{}, err
	}
	result, err := external.Reconcile(ctx, r.driver, wish.Spec, atOnce)
	if err != nil {
		return controller.Result{}, err
	}
	if result.State == external.StateSynced {
		wish.Status.Created = (*result.Observed).Created.Format(time.RFC3339Nano)
		err = r.entities.UpdateStatus(ctx, wish)
	}
	return controller.Result{RequeueAfter: result.RequeueAfter}, err
}
