package rights

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	pages  = entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true, Storage: jetstream.MemoryStorage}
	themes = entity.Config{Kind: "Theme", Bucket: "themes", Namespaced: true, Storage: jetstream.MemoryStorage}
)

// enough for a mass delete.
const many = 20

// makeAll makes all buckets, and a theme.
func makeAll(ctx context.Context, admin jetstream.JetStream) error {
	for _, cfg := range []entity.Config{sites, pages, themes} {
		client, err := entity.NewClient[*site](ctx, admin, cfg)
		if err != nil {
			return err
		}
		client.Close()
	}
	_, err := admin.Publish(ctx, "$KV.themes.ns1.plain", []byte(`{"spec":{"title":"plain"}}`))
	return err
}

// replica is one of a controller that makes a page for each site.
type replica struct {
	*controller.Controller[*site]
	sites, pages, themes *entity.Client[*site]
}

func newReplica(ctx context.Context, js jetstream.JetStream) (r *replica, err error) {
	r = &replica{}
	for cfg, client := range map[*entity.Config]**entity.Client[*site]{
		&sites: &r.sites, &pages: &r.pages, &themes: &r.themes,
	} {
		if *client, err = entity.NewClient[*site](ctx, js, bound(*cfg)); err != nil {
			r.close()
			return nil, err
		}
	}
	byTheme := func(context.Context, *site) ([]string, error) { return nil, nil }
	r.Controller, err = controller.New("sites", r.sites, controller.ReconcilerFunc(r.reconcile),
		controller.Owns(r.pages), controller.Watches(r.themes, byTheme),
		controller.WithResyncInterval(300*time.Millisecond), controller.WithWorkers(4),
		controller.WithLeaseTiming(controller.LeaseTiming{
			Duration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond,
		}))
	if err != nil {
		r.close()
	}
	return r, err
}

func (r *replica) close() {
	for _, client := range []*entity.Client[*site]{r.sites, r.pages, r.themes} {
		if client != nil {
			client.Close()
		}
	}
}

func (r *replica) reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	obj, err := r.sites.Lister().Get(req.Key)
	if err != nil {
		return controller.Result{}, nil // the cascade deletes the page
	}
	theme, err := r.themes.Get(ctx, "ns1/plain")
	if err != nil {
		return controller.Result{}, err
	}
	page := &site{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}
	if _, err = controller.CreateOrUpdate(ctx, r.pages, page, func(page *site) error {
		page.Spec.Title = theme.Spec.Title
		return nil
	}); err != nil {
		return controller.Result{}, err
	}
	if _, err := r.pages.Get(ctx, req.Key); err != nil {
		return controller.Result{}, err
	}
	obj.Status.Ready = true
	return controller.Result{}, controller.SetStatus(ctx, obj)
}

// start runs the replica; stop waits for its end, and for the end of what Run was told to do.
func (r *replica) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		defer r.close()
		return <-ended
	}
}

// live is a full life: reconciles, statuses, teardown, sweep, hand-over of the lease, and the brake, engaged and
// released.
func live(ctx context.Context, user, admin jetstream.JetStream) (err error) {
	first, err := newReplica(ctx, user)
	if err != nil {
		return err
	}
	stop := first.start(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	for i := range many {
		if _, err := admin.Publish(ctx, fmt.Sprintf("$KV.sites.ns1.s%d", i), []byte(`{}`)); err != nil {
			return err
		}
	}
	if err := await(ctx, "all are reconciled, and a sweep has run", func() bool {
		obj, err := first.sites.Get(ctx, "ns1/s0")
		return pageCount(ctx, admin) == many && err == nil && obj.Status.Ready && first.Stats().Sweeps > 0
	}); err != nil {
		return err
	}
	if err := remove(ctx, admin, "ns1.s0"); err != nil {
		return err
	}
	if err := await(ctx, "it is torn down", func() bool {
		return pageCount(ctx, admin) == many-1 && first.Stats().TornDown == 1
	}); err != nil {
		return err
	}
	return handOver(ctx, &stop, user, admin)
}

// handOver lets another replica lead, which meets a mass delete.
func handOver(ctx context.Context, stop *func() error, user, admin jetstream.JetStream) error {
	second, err := newReplica(ctx, user)
	if err != nil {
		return err
	}
	stopFirst := *stop
	*stop = second.start(ctx)
	if err := stopFirst(); err != nil {
		return err
	}
	if err := await(ctx, "the second leads", func() bool { return second.Stats().Leading }); err != nil {
		return err
	}
	if err := (*stop)(); err != nil {
		return err
	}
	*stop = func() error { return nil }
	stream, err := admin.Stream(ctx, "KV_sites")
	if err != nil {
		return err
	}
	if err := stream.Purge(ctx); err != nil { // the documents are gone, and nobody was seen to delete them
		return err
	}
	third, err := newReplica(ctx, user)
	if err != nil {
		return err
	}
	*stop = third.start(ctx)
	if err := await(ctx, "the brake is engaged", func() bool {
		return third.Stats().Brake.Engaged && third.Stats().Brake.Held == many-1
	}); err != nil {
		return err
	}
	if err := third.ReleaseBrake(ctx); err != nil {
		return err
	}
	return await(ctx, "what it held is torn down", func() bool { return pageCount(ctx, admin) == 0 })
}

func pageCount(ctx context.Context, admin jetstream.JetStream) int {
	kv, err := admin.KeyValue(ctx, "pages")
	if err != nil {
		return -1
	}
	keys, err := kv.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return -1
	}
	return len(keys)
}

func remove(ctx context.Context, admin jetstream.JetStream, key string) error {
	kv, err := admin.KeyValue(ctx, "sites")
	if err != nil {
		return err
	}
	return kv.Delete(ctx, key)
}

// controllersSet is what a controller says that it needs.
func controllersSet(t *testing.T) (set entity.PermissionSet) {
	t.Helper()
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		must(t, makeAll(t.Context(), js))
		r, err := newReplica(t.Context(), js)
		must(t, err)
		defer r.close()
		got, err := r.Permissions(entity.WithInboxPrefix("_INBOX_me"))
		must(t, err)
		set = got.PermissionSet
	})
	return set
}

func TestAControllersSetIsEnoughAndEachLineIsNeeded(t *testing.T) {
	set := controllersSet(t)
	for _, line := range set.Publish {
		if strings.HasPrefix(line, "$KV.sites.") || strings.HasPrefix(line, "$KV.themes") ||
			strings.HasPrefix(line, "$KV.pages-status") || strings.Contains(line, "CREATE.KV_sites ") {
			t.Errorf("the controller writes no such thing: %s", line)
		}
	}
	hold(t, set, job{inbox: "_INBOX_me", prepare: makeAll, do: live})
}
