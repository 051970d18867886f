package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/manager"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// fleet is a process whose controllers lead together.
func fleet(js jetstream.JetStream, lease *manager.Lease) manager.Config {
	return manager.Config{Name: "fleet", Conn: js.Conn(), Lease: lease, GracePeriod: 5 * time.Second}
}

func leases() *manager.Lease {
	return &manager.Lease{Bucket: "leases", BindOnly: true, Timing: controller.LeaseTiming{
		Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 50 * time.Millisecond,
	}}
}

// makeLeases makes the bucket of leases, as it is done before processes run.
func makeLeases(ctx context.Context, user, _ jetstream.JetStream) error {
	lease := leases()
	lease.BindOnly = false
	m, err := manager.New(ctx, fleet(user, lease))
	if err != nil {
		return err
	}
	return m.Close(ctx)
}

func manage(ctx context.Context, js jetstream.JetStream, lease *manager.Lease) (
	*manager.Manager, *controller.Controller[*site], error,
) {
	m, err := manager.New(ctx, fleet(js, lease))
	if err != nil {
		return nil, nil, err
	}
	client, err := manager.Client[*site](ctx, m, bound(sites))
	if err != nil {
		return m, nil, err
	}
	nothing := func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("sites", client, controller.ReconcilerFunc(nothing))
	if err != nil {
		return m, nil, err
	}
	return m, c, m.Add(c, manager.Func("beside", func(ctx context.Context) error { <-ctx.Done(); return nil }))
}

// lead runs a process until it has led, and its lease was renewed.
func lead(ctx context.Context, user, admin jetstream.JetStream) (err error) {
	m, c, err := manage(ctx, user, leases())
	if m != nil {
		defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(run) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	kv, err := admin.KeyValue(ctx, "leases")
	if err != nil {
		return err
	}
	return await(ctx, "it leads", func() bool {
		entry, err := kv.Get(ctx, "fleet")
		return err == nil && entry.Revision() > 1 && c.Stats().Leading
	})
}

func TestWhatALeaseOfTheProcessNeedsIsEnoughAndEachLineIsNeeded(t *testing.T) {
	prepare := func(ctx context.Context, admin jetstream.JetStream) error {
		return errors.Join(makeSites(ctx, admin), makeLeases(ctx, admin, admin))
	}
	var without, with entity.PermissionSet
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, prepare(t.Context(), js))
		setOf := func(lease *manager.Lease) entity.PermissionSet {
			m, _, err := manage(t.Context(), js, lease)
			must(t, err)
			defer m.Close(context.Background())
			set, err := m.Permissions(entity.WithInboxPrefix("_INBOX_me"))
			must(t, err)
			return set.PermissionSet
		}
		without, with = setOf(nil), setOf(leases())
	})
	added := slices.DeleteFunc(slices.Clone(with.Publish), func(line string) bool {
		return slices.Contains(without.Publish, line)
	})
	if want := []string{
		"$JS.API.STREAM.INFO.KV_leases", "$JS.API.STREAM.MSG.GET.KV_leases", "$KV.leases.fleet",
	}; !slices.Equal(added, want) || len(without.Publish) < 5 {
		t.Errorf("the lease adds %q to %q, want %q", added, without, want)
	}
	hold(t, with, job{inbox: "_INBOX_me", prepare: prepare, do: lead})
}

func TestWhoMakesTheBucketOfLeasesNeedsEachLine(t *testing.T) {
	cfg := manager.Config{Name: "fleet", Lease: leases()}
	set, err := cfg.LeasePermissions(entity.RoleBootstrap, entity.WithInboxPrefix("_INBOX_me"))
	must(t, err)
	hold(t, set, job{inbox: "_INBOX_me", do: makeLeases})
	if set, err := cfg.LeasePermissions(entity.RoleController); err != nil || !slices.Contains(set.Publish, "$KV.leases.fleet") {
		t.Errorf("of a process: %v, %v", set, err)
	}
	for _, role := range []entity.Role{entity.RoleReader, entity.RoleWriter, ""} {
		if set, err := cfg.LeasePermissions(role); err == nil {
			t.Errorf("as %q: %v", role, set)
		}
	}
	if set, err := (manager.Config{}).LeasePermissions(entity.RoleController); err != nil || fmt.Sprint(set) != fmt.Sprint(entity.PermissionSet{}) {
		t.Errorf("without a lease: %v, %v", set, err)
	}
}
