package worlds

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/cloudtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// settles is how late the cloud's lists may show a disk.
const settles = 3 * time.Second

// disks are sites with a disk each behind an API, beside their pages. Its lists are late, and its answers may be lost.
func disks(t *testing.T, p Plan) Subject {
	cloud := cloudtest.New(t)
	var lost atomic.Bool
	var calls atomic.Int64
	cloud.Set(func(c *cloudtest.Cloud) {
		c.Lag = settles / 2
		c.Stage = func(stage, _, _ string) {
			if stage == "after" && lost.Load() && calls.Add(1)%2 == 0 {
				panic(http.ErrAbortHandler)
			}
		}
	})
	s := sites(t, p)
	s.Faults = []func(context.Context, *rand.Rand){
		func(ctx context.Context, r *rand.Rand) {
			cloud.GoAway(r.IntN(2) == 0)
			<-ctx.Done()
			cloud.ComeBack()
		},
		func(ctx context.Context, _ *rand.Rand) {
			lost.Store(true)
			<-ctx.Done()
			lost.Store(false)
		},
		func(_ context.Context, r *rand.Rand) { cloud.Remove(p.Key(r.IntN(p.Keys))) },
		func(_ context.Context, r *rand.Rand) {
			cloud.Edit(p.Key(r.IntN(p.Keys)), func(d *cloudtest.Disk) { d.Size = 99 })
		},
	}
	s.Start = func(ctx context.Context, p *Process) (Controller, error) { return startDisks(ctx, p, cloud.Server.URL) }
	s.Agrees = func(s Snapshot) (says, left []string) {
		says, left = agreeSites(s)
		more, leftMore := agreeDisks(s, p, cloud)
		return append(says, more...), append(left, leftMore...)
	}
	return s
}

func startDisks(ctx context.Context, p *Process, url string) (Controller, error) {
	driver := cloudtest.NewDriver(url)
	p.Closing(driver.HTTP.CloseIdleConnections)
	sites, pages, err := clientsOf(ctx, p)
	if err != nil {
		return nil, err
	}
	pagesOf := reconcilerOf(p, sites, pages)
	r := controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		one, err := sites.Lister().Get(req.Key)
		if apierrors.IsNotFound(err) {
			result, err := external.ReconcileAbsent(ctx, driver, external.Settle(settles))
			return controller.Result{RequeueAfter: result.RequeueAfter}, err
		}
		if err != nil {
			return controller.Result{}, err
		}
		result, err := external.Reconcile(ctx, driver, cloudtest.Spec{Size: one.Spec.Pages}, external.Settle(settles))
		if err != nil || result.RequeueAfter > 0 {
			return controller.Result{RequeueAfter: result.RequeueAfter}, err
		}
		return pagesOf.Reconcile(ctx, req)
	})
	return controller.New("sites", sites, p.Reconciler(r), append(p.Options(),
		controller.Owns(pages, controller.WithPrune()),
		controller.OwnsExternal(external.Configure(cloudtest.Client{Driver: driver},
			external.Config{Interval: time.Minute, Timeout: 5 * time.Second, Settle: settles})))...)
}

// agreeDisks wants one disk for each site, and none that was created beside another. A backup of records may not know
// what was created while lists did not show it yet: then a site may have more than one.
func agreeDisks(s Snapshot, p Plan, cloud *cloudtest.Cloud) (says, left []string) {
	restored := p.LosesRecords()
	for key, doc := range s.Primaries {
		var one site
		_ = json.Unmarshal(doc.Value, &one)
		is, want := cloud.Of(key), fmt.Sprintf("=%d", one.Spec.Pages)
		if is != want && !(restored && strings.Contains(is, " ") && strings.Contains(is, want)) {
			says = append(says, fmt.Sprintf("the disks of %s are %q, want %q", key, is, want))
		}
	}
	for i := range p.Keys {
		key := p.Key(i)
		if _, there := s.Primaries[key]; !there && cloud.Of(key) != "" {
			left = append(left, fmt.Sprintf("the disks %q of %s, which is gone", cloud.Of(key), key))
		}
	}
	if restored {
		return says, left
	}
	cloud.Mu.Lock()
	defer cloud.Mu.Unlock()
	for _, double := range cloud.Doubles {
		says = append(says, fmt.Sprintf("a disk of %s was created while it was there", double))
	}
	return says, left
}
