package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// makeRegistry makes the buckets of sites and of the registry.
func makeRegistry(ctx context.Context, admin jetstream.JetStream) error {
	return errors.Join(makeSites(ctx, admin), bootstrapRegistry(ctx, admin, admin))
}

// bootstrapRegistry makes the registry's bucket, as it is done before controllers run.
func bootstrapRegistry(ctx context.Context, user, _ jetstream.JetStream) error {
	client, err := entity.NewClient[*site](ctx, user, entity.Config{
		Kind: "Kind", Bucket: registry.Bucket, StatusBucket: entity.NoStatusBucket, Storage: jetstream.MemoryStorage,
	})
	if err == nil {
		client.Close()
	}
	return err
}

func publisher(ctx context.Context, js jetstream.JetStream, opts ...controller.Option) (
	*controller.Controller[*site], *entity.Client[*site], error,
) {
	client, err := entity.NewClient[*site](ctx, js, bound(sites))
	if err != nil {
		return nil, nil, err
	}
	nothing := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("sites", client, controller.ReconcilerFunc(nothing), opts...)
	if err != nil {
		client.Close()
	}
	return c, client, err
}

// publish runs a controller until its kind is published.
func publish(ctx context.Context, user, admin jetstream.JetStream) (err error) {
	c, client, err := publisher(ctx, user, registry.Publish(registry.Options{Interval: 50 * time.Millisecond}))
	if err != nil {
		return err
	}
	defer client.Close()
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(run) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	return await(ctx, "the kind is published", func() bool {
		_, err := registry.Get(ctx, admin, sites.Kind, sites.APIVersion)
		return err == nil
	})
}

// TestWhatPublishingNeedsIsEnoughAndEachLineIsNeeded, and a controller that does not publish is not given it.
func TestWhatPublishingNeedsIsEnoughAndEachLineIsNeeded(t *testing.T) {
	var without, with entity.PermissionSet
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, makeRegistry(t.Context(), js))
		setOf := func(opts ...controller.Option) entity.PermissionSet {
			c, client, err := publisher(t.Context(), js, opts...)
			must(t, err)
			defer client.Close()
			set, err := c.Permissions(entity.WithInboxPrefix("_INBOX_me"))
			must(t, err)
			return set.PermissionSet
		}
		without, with = setOf(), setOf(registry.Publish(registry.Options{}))
	})
	added := slices.DeleteFunc(slices.Clone(with.Publish), func(line string) bool {
		return slices.Contains(without.Publish, line)
	})
	if want := []string{
		"$JS.API.STREAM.INFO.KV_nagi-kinds", "$JS.API.STREAM.MSG.GET.KV_nagi-kinds", "$KV.nagi-kinds.Site",
	}; !slices.Equal(added, want) || strings.Contains(fmt.Sprint(without), registry.Bucket) {
		t.Errorf("publishing adds %q, want %q", added, want)
	}
	hold(t, with, job{inbox: "_INBOX_me", prepare: makeRegistry, do: publish})
}

func TestAReaderOfTheRegistryNeedsEachLine(t *testing.T) {
	for role, j := range map[entity.Role]job{
		entity.RoleBootstrap: {do: bootstrapRegistry},
		entity.RoleReader: {
			prepare: func(ctx context.Context, admin jetstream.JetStream) error {
				return errors.Join(makeRegistry(ctx, admin), publish(ctx, admin, admin))
			},
			do: func(ctx context.Context, user, _ jetstream.JetStream) error {
				kinds, err := registry.List(ctx, user)
				if err == nil && len(kinds.Entries) != 1 {
					err = fmt.Errorf("found %+v", kinds)
				}
				return err
			},
		},
	} {
		t.Run(string(role), func(t *testing.T) {
			set, err := registry.Permissions(role, entity.WithInboxPrefix("_INBOX_me"))
			must(t, err)
			j.inbox = "_INBOX_me"
			hold(t, set, j)
		})
	}
	if _, err := registry.Permissions(entity.RoleWriter); err == nil {
		t.Error("there are permissions for a writer")
	}
}
