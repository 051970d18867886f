package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// buckets looks at the buckets of a kind, at the rights to read them, and at the records. Each controller may have a
// status bucket of its own.
func (d *doctor) buckets(ctx context.Context, k *kinds.Kind) {
	statuses := map[string]bool{k.StatusBucket: true}
	for _, c := range k.Controllers {
		statuses[c.StatusBucket] = true
	}
	for status := range statuses {
		cfg := k.Config()
		if cfg.StatusBucket = status; status == "" {
			cfg.StatusBucket = entity.NoStatusBucket
		}
		if !d.bind(ctx, k, cfg) {
			continue
		}
		d.mayList(ctx, k.Bucket)
		if status != "" {
			d.records(ctx, k, status)
		}
	}
}

// bind looks at the settings as a client does that only binds, and at a read. It reports whether the buckets are there.
func (d *doctor) bind(ctx context.Context, k *kinds.Kind, cfg entity.Config) bool {
	ctx, cancel := d.s.within(ctx)
	defer cancel()
	about := k.Name()
	c, err := entity.NewClient[*kinds.Object](ctx, d.s.js, cfg)
	switch {
	case err == nil:
		defer c.Close()
	case d.denied(isWarning, about, "the buckets could not be looked at", err):
		return false
	case d.isMissing(ctx, cfg):
		d.find(isError, "bucket", about, err.Error(),
			"nagi bootstrap "+d.s.about(k, "")+" makes it; docs/restoring.md brings back what it had")
		return false
	default:
		d.find(isError, "bucket", about, err.Error(), "change what is named, as an administrator")
		return false
	}
	for _, warning := range c.Warnings() {
		d.find(isWarning, "bucket", about, warning, "change that, as an administrator")
	}
	if len(c.Warnings()) == 0 {
		d.find(isOK, "bucket", about, "the settings of its buckets are right", "")
	}
	key := "nagi-doctor"
	if k.Namespaced {
		key += "/" + key
	}
	if _, err := c.Get(ctx, key); err != nil && !apierrors.IsNotFound(err) {
		if !d.denied(isWarning, about, "a document could not be read", err) {
			d.find(isError, "bucket", about, "a document could not be read: "+err.Error(), "mend that, and look again")
		}
	}
	return true
}

// isMissing reports whether one of the buckets is not there.
func (d *doctor) isMissing(ctx context.Context, cfg entity.Config) bool {
	for _, bucket := range []string{cfg.Bucket, cfg.StatusBucket} {
		if bucket == entity.NoStatusBucket {
			continue
		}
		err := denials.Of(d.s.nc).Call(ctx, d.s.api("STREAM.INFO.KV_"+bucket), func(ctx context.Context) error {
			_, err := d.s.js.Stream(ctx, "KV_"+bucket)
			return err
		})
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return true
		}
	}
	return false
}

// mayList looks whether the user may list the keys of a bucket, and at the clock of the server that has it.
func (d *doctor) mayList(ctx context.Context, bucket string) {
	before := time.Now()
	consumer, err := d.consumer(ctx, bucket)
	if err != nil {
		if !d.denied(isWarning, bucket, "the keys could not be listed", err) {
			d.find(isWarning, "bucket", bucket, "the keys could not be listed: "+err.Error(),
				"mend that, and look again")
		}
		return
	}
	d.clock(before, time.Now(), consumer.CachedInfo().TimeStamp)
	d.forget(ctx, bucket, consumer)
	d.find(isOK, "rights", bucket, "this user may read and list it", "")
}

// consumer makes one for the last message of each key. The server removes it when it is not used.
func (d *doctor) consumer(ctx context.Context, bucket string) (consumer jetstream.Consumer, err error) {
	ctx, cancel := d.s.within(ctx)
	defer cancel()
	cfg := jetstream.ConsumerConfig{
		Name: "nagi-doctor-" + nuid.Next(), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy: jetstream.AckNonePolicy, FilterSubject: "$KV." + bucket + ".>", MemoryStorage: true,
		InactiveThreshold: 30 * time.Second,
	}
	create := d.s.api("CONSUMER.CREATE.KV_" + bucket + "." + cfg.Name + "." + cfg.FilterSubject)
	err = denials.Of(d.s.nc).Call(ctx, create, func(ctx context.Context) (err error) {
		consumer, err = d.s.js.CreateConsumer(ctx, "KV_"+bucket, cfg)
		return err
	})
	return consumer, err
}

// forget deletes a consumer if the user may; else the server does.
func (d *doctor) forget(ctx context.Context, bucket string, consumer jetstream.Consumer) {
	ctx, cancel := d.s.within(context.WithoutCancel(ctx))
	defer cancel()
	name := consumer.CachedInfo().Name
	_ = denials.Of(d.s.nc).Call(ctx, d.s.api("CONSUMER.DELETE.KV_"+bucket+"."+name), func(ctx context.Context) error {
		return d.s.js.DeleteConsumer(ctx, "KV_"+bucket, name)
	})
}

// tally counts records, with the key and text of the first.
type tally struct {
	count     int
	key, text string
}

func (t *tally) add(key, text string) {
	if t.count++; t.count == 1 {
		t.key, t.text = key, text
	}
}

// records looks for invalid documents and for members that are not read, in what the records say.
func (d *doctor) records(ctx context.Context, k *kinds.Kind, bucket string) {
	var unread, invalid tally
	complete, err := d.eachRecord(ctx, bucket, func(natsKey string, r *entity.Record) {
		key := natsKey
		if k.Namespaced {
			key = strings.Replace(natsKey, ".", "/", 1)
		}
		c := meta.FindStatusCondition(r.Conditions, entity.ConditionDocumentWarnings)
		if c != nil && c.Status == metav1.ConditionTrue {
			unread.add(key, c.Message)
		}
		if r.Phase() == entity.PhaseInvalid {
			reason := ""
			if r.Invalid != nil {
				reason = r.Invalid.Reason
			}
			invalid.add(key, reason)
		}
	})
	switch {
	case d.denied(isWarning, bucket, "the records could not be read", err):
	case err != nil, !complete:
		d.find(isWarning, "records", bucket, fmt.Sprintf("they were not all read: %v", err), "look again")
	}
	if invalid.count > 0 {
		d.find(isError, "documents", k.Name(), fmt.Sprintf("%d are invalid, such as %s: %s", invalid.count, invalid.key,
			invalid.text), "nagi edit "+d.s.about(k, invalid.key))
	}
	if unread.count > 0 {
		d.find(isWarning, "documents", k.Name(), fmt.Sprintf("%d have what is not read, such as %s: %s", unread.count,
			unread.key, unread.text), "nagi edit "+d.s.about(k, unread.key))
	}
	if invalid.count+unread.count == 0 && err == nil && complete {
		d.find(isOK, "documents", k.Name(), "none is invalid, and all of each is read", "")
	}
}

// eachRecord calls do for each record of a bucket, as they come; none is kept.
func (d *doctor) eachRecord(ctx context.Context, bucket string, do func(string, *entity.Record)) (bool, error) {
	const batch = 500
	consumer, err := d.consumer(ctx, bucket)
	if err != nil {
		return false, err
	}
	defer d.forget(ctx, bucket, consumer)
	next := denials.Of(d.s.nc).Publish(d.s.api("CONSUMER.MSG.NEXT.KV_"+bucket+"."+consumer.CachedInfo().Name), nil)
	defer next.Stop()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		messages, err := consumer.FetchNoWait(int(min(left, batch)))
		if err != nil {
			return false, err
		}
		got := 0
		for msg := range messages.Messages() {
			got++
			left--
			key := strings.TrimPrefix(msg.Subject(), "$KV."+bucket+".")
			gone := msg.Headers().Get("KV-Operation") != "" || msg.Headers().Get(nats.MsgRollup) != ""
			if gone || strings.HasPrefix(key, entity.ReservedPrefix+".") {
				continue
			}
			var r entity.Record
			if json.Unmarshal(msg.Data(), &r) == nil {
				do(key, &r)
			}
		}
		if got == 0 { // some have gone meanwhile, or it is not allowed
			return next.Err() == nil && messages.Error() == nil, errors.Join(next.Err(), messages.Error(), ctx.Err())
		}
	}
	return true, nil
}
