package rights

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const auditBucket = "sites-audit"

// makeShared makes the buckets of two controllers over one.
func makeShared(ctx context.Context, admin jetstream.JetStream) error {
	client, err := entity.NewClient[*site](ctx, admin, sites)
	if err != nil {
		return err
	}
	defer client.Close()
	derived, err := client.WithStatusBucket(ctx, auditBucket)
	if err == nil {
		derived.Close()
	}
	return err
}

// sharing are two controllers over one bucket, in one process.
type sharing struct {
	clients     []*entity.Client[*site]
	controllers []*controller.Controller[*site]
}

func newSharing(ctx context.Context, js jetstream.JetStream) (s *sharing, err error) {
	s = &sharing{}
	first, err := entity.NewClient[*site](ctx, js, bound(sites))
	if err != nil {
		return nil, err
	}
	s.clients = append(s.clients, first)
	derived, err := first.WithStatusBucket(ctx, auditBucket)
	if err != nil {
		s.close()
		return nil, err
	}
	s.clients = append(s.clients, derived)
	for i, client := range s.clients {
		c, err := controller.New(fmt.Sprintf("c%d", i), client, controller.ReconcilerFunc(
			func(ctx context.Context, req controller.Request) (controller.Result, error) {
				obj, err := client.Lister().Get(req.Key)
				if err != nil {
					return controller.Result{}, nil
				}
				obj.Status.Ready = true
				return controller.Result{}, controller.SetStatus(ctx, obj)
			}))
		if err != nil {
			s.close()
			return nil, err
		}
		s.controllers = append(s.controllers, c)
	}
	return s, nil
}

func (s *sharing) close() {
	for _, client := range s.clients {
		client.Close()
	}
}

// live reconciles a site with both controllers, and tears it down with both.
func (s *sharing) live(ctx context.Context, admin jetstream.JetStream) (err error) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, len(s.controllers))
	defer func() {
		cancel()
		for range s.controllers {
			err = errors.Join(err, <-ended)
		}
		s.close()
	}()
	for _, c := range s.controllers {
		go func() { ended <- c.Run(running) }()
	}
	if _, err := admin.Publish(ctx, "$KV.sites.ns1.s0", []byte(`{}`)); err != nil {
		return err
	}
	if err := await(ctx, "both have reconciled it", func() bool {
		for _, client := range s.clients {
			if obj, err := client.Get(ctx, "ns1/s0"); err != nil || !obj.Status.Ready {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	if err := remove(ctx, admin, "ns1.s0"); err != nil {
		return err
	}
	return await(ctx, "both have torn it down", func() bool {
		for _, client := range s.clients {
			if _, err := client.Record(ctx, "ns1/s0"); !apierrors.IsNotFound(err) {
				return false
			}
		}
		return true
	})
}

// TestTheSetsOfTwoControllersOverOneBucketAreEnoughTogether, and each line is needed: the client that was derived needs
// the rights of its own status bucket.
func TestTheSetsOfTwoControllersOverOneBucketAreEnoughTogether(t *testing.T) {
	var set entity.PermissionSet
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, makeShared(t.Context(), js))
		s, err := newSharing(t.Context(), js)
		must(t, err)
		defer s.close()
		for _, c := range s.controllers {
			own, err := c.Permissions(entity.WithInboxPrefix("_INBOX_me"))
			must(t, err)
			set = set.Join(own.PermissionSet)
		}
	})
	hold(t, set, job{inbox: "_INBOX_me", prepare: makeShared, do: func(ctx context.Context, user, admin jetstream.JetStream) error {
		s, err := newSharing(ctx, user)
		if err != nil {
			return err
		}
		return s.live(ctx, admin)
	}})
}
