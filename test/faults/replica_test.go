package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

type (
	siteSpec struct {
		Title string `json:"title"`
	}
	siteStatus struct {
		Note string `json:"note,omitempty"`
	}
	site = entity.Object[siteSpec, siteStatus]  // a primary
	page = entity.Object[siteSpec, entity.None] // its secondary
)

// pagesOfSite is how many pages each site owns.
const pagesOfSite = 2

func pageName(site string, i int) string { return fmt.Sprintf("%s.%d", site, i) }

func sitesConfig() entity.Config {
	return entity.Config{
		Kind: "Site", Bucket: sitesBucket, Storage: jetstream.MemoryStorage, CompareInterval: compareInterval,
	}
}

func pagesConfig() entity.Config {
	return entity.Config{
		Kind: "Page", Bucket: pagesBucket, Storage: jetstream.MemoryStorage, CompareInterval: compareInterval,
		StatusBucket: entity.NoStatusBucket,
	}
}

// compareInterval is how long a key that is purged without a message may go unnoticed.
const compareInterval = 500 * time.Millisecond

const leaseDuration = 4 * time.Second

var leaseTiming = controller.LeaseTiming{
	Duration: leaseDuration, RenewDeadline: 2500 * time.Millisecond, RetryPeriod: 500 * time.Millisecond,
}

// replica is one process, as far as the server can tell.
type replica struct {
	name       string
	wire       *wire
	nc         *nats.Conn
	sites      *entity.Client[*site]
	pages      *entity.Client[*page]
	controller *controller.Controller[*site]

	abandoned atomic.Bool
	stop      context.CancelFunc
	done      chan struct{}
	err       error // of Run
}

func startReplica(ctx context.Context, name, url string, d *director, logger logr.Logger) (*replica, error) {
	r := &replica{name: name, wire: newWire(name, d), done: make(chan struct{})}
	var err error
	r.nc, err = nats.Connect(url, nats.SetCustomDialer(r.wire), nats.Name(name), nats.Timeout(patience),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		r.nc.Close()
		r.wire.wg.Wait()
		return nil, err
	}
	ctx, r.stop = context.WithCancel(klog.NewContext(context.Background(), logger.WithName(name)))
	go func() {
		defer close(r.done)
		r.err = r.controller.Run(ctx)
	}()
	return r, nil
}

func (r *replica) prepare(ctx context.Context) error {
	js, err := jetstream.New(r.nc)
	if err != nil {
		return err
	}
	if r.sites, err = entity.NewClient[*site](ctx, js, sitesConfig()); err != nil {
		return err
	}
	if r.pages, err = entity.NewClient[*page](ctx, js, pagesConfig()); err != nil {
		return err
	}
	r.controller, err = controller.New("sites", r.sites, controller.ReconcilerFunc(r.reconcile),
		controller.Owns(r.pages), controller.WithLeaseTiming(leaseTiming), controller.WithWorkers(2),
		controller.WithResyncInterval(5*time.Second), controller.WithBackoff(20*time.Millisecond, time.Second),
		controller.WithGracePeriod(2*time.Second))
	return err
}

// reconcile gives a site its pages, and leaves it to the runtime to delete them.
func (r *replica) reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	s, err := r.sites.Lister().Get(req.Key)
	if apierrors.IsNotFound(err) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	for i := range pagesOfSite {
		p := &page{ObjectMeta: metav1.ObjectMeta{Name: pageName(req.Key, i)}}
		if _, err := controller.CreateOrUpdate(ctx, r.pages, p, func(p *page) error {
			p.Spec.Title = s.Spec.Title
			return nil
		}); err != nil {
			return controller.Result{}, err
		}
	}
	s.Status.Note = s.Spec.Title
	return controller.Result{}, r.sites.UpdateStatus(ctx, s)
}

// abandon is the end of a process that has crashed: nothing that it still does reaches the server.
func (r *replica) abandon() {
	r.abandoned.Store(true)
	r.stop()
	r.nc.Close()
}

// end closes a replica that has stopped.
func (r *replica) end() {
	r.sites.Close()
	r.pages.Close()
	r.nc.Close()
	r.wire.wg.Wait()
}
