package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Made is a stream that a kind needs.
type Made struct {
	Stream string `json:"stream"`
	Holds  string `json:"holds"`
	// Made is false if it was there already; then nothing of it was changed.
	Made bool `json:"made"`
	// Warnings are about settings that differ from the definition, or work, but not as well as they could.
	Warnings []string `json:"warnings,omitempty"`
}

// Make makes the streams of a kind that are missing, with the settings with which its controller would make them, and
// checks those that are there.
func (d *Definition) Make(ctx context.Context, js jetstream.JetStream) (all []Made, err error) {
	add := func(cfg entity.Config, holds string) {
		if err != nil {
			return
		}
		var made []Made
		made, err = makeBuckets(ctx, js, cfg, holds)
		all = append(all, made...)
	}
	add(d.Config(), "documents of "+d.Kind)
	for _, resources := range [][]registry.Resource{d.Owns, d.Watches} {
		for _, r := range resources {
			if r.In == registry.InNATS {
				add(d.other(r), "documents of "+d.other(r).Kind)
			}
		}
	}
	if !d.NoRegistry {
		add(d.kinds(), "the registry of kinds")
	}
	if err != nil || d.NoEvents {
		return all, err
	}
	stream := "NAGI_EVENTS"
	there, err := exists(ctx, js, stream)
	if err == nil {
		err = recorder.SetUp(ctx, d.events(js))
	}
	if err != nil {
		return all, fmt.Errorf("stream of events: %w", err)
	}
	return append(all, Made{Stream: stream, Holds: "events", Made: !there}), nil
}

func makeBuckets(ctx context.Context, js jetstream.JetStream, cfg entity.Config, holds string) ([]Made, error) {
	cfg = cfg.WithDefaults()
	all := []Made{{Stream: "KV_" + cfg.Bucket, Holds: holds}}
	if cfg.StatusBucket != entity.NoStatusBucket {
		all = append(all, Made{Stream: "KV_" + cfg.StatusBucket, Holds: "records of " + cfg.Kind})
	}
	for i := range all {
		there, err := exists(ctx, js, all[i].Stream)
		if err != nil {
			return nil, err
		}
		all[i].Made = !there
	}
	client, err := entity.NewClient[*unstructured.Unstructured](ctx, js, cfg)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all[0].Warnings = client.Warnings()
	return all, nil
}

func exists(ctx context.Context, js jetstream.JetStream, stream string) (bool, error) {
	_, err := js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	return err == nil, err
}
