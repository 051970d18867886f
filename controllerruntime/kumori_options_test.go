package controllerruntime

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

func optionsOf(e *engine.Engine) (o engine.Options) {
	e.Change(func(now *engine.Options) { o = *now })
	return o
}

func TestKumoriOptionsOpenWhatHasNoArgument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var deadline atomic.Bool
		var c *custom
		c = kumori{sites: sites}.custom(func(key string) error {
			_, ok := c.Context(key).Deadline()
			deadline.Store(ok)
			return errors.New("no")
		})
		c.EnqueueKey("early", controller.OperationManual) // stays, though the engine is made anew
		c.EnqueueKeyAfter("late", controller.OperationSecondary, time.Millisecond)
		var asked atomic.Int32
		timing := controller.LeaseTiming{Duration: 5 * time.Second, RenewDeadline: 2 * time.Second,
			RetryPeriod: 100 * time.Millisecond}
		must(t, c.WithOptions(controller.WithLeaseTiming(timing), controller.WithBackoff(time.Hour, time.Hour),
			controller.WithReconcileTimeout(time.Minute), controller.WithOnBrake(func(controller.BrakeState) {}),
			controller.WithCacheSyncTimeout(time.Minute), controller.WithInstance("here")))
		must(t, c.WithOptions(controller.WithErrorPolicy(func(string, error, int) controller.Result {
			asked.Add(1)
			return controller.Result{RequeueAfter: time.Millisecond}
		})))
		runKumori(t, c)
		natstest.Eventually(t, "what was enqueued before is synced", func() bool { return c.seen.count("early") > 0 })
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "it is retried as the policy says", func() bool {
			return c.seen.with("home", controller.OperationRetry) > 1 && asked.Load() > 1
		})
		o := optionsOf(c.engine)
		if o.Lease.Duration != timing.Duration || o.BackoffMin != time.Hour || o.OnBrake == nil || !deadline.Load() ||
			o.Workers != 2 || o.GracePeriod >= 0 {
			t.Errorf("options %+v, a deadline: %v", o, deadline.Load())
		}
		p := newPage("a", "")
		if c.SetOwner(p, "home"); entity.InstanceOf(p) != "here" {
			t.Errorf("the installation is %q", entity.InstanceOf(p))
		}
		if err := c.WithOptions(controller.WithReconcileTimeout(0)); err == nil ||
			optionsOf(c.engine).ReconcileTimeout != time.Minute {
			t.Errorf("after Run has begun: error %v, timeout %v", err, optionsOf(c.engine).ReconcileTimeout)
		}
	})
}

// TestKumoriOptionsThatSayWhatTheAPISaysAreRefused, at once, and by Run if nobody looked.
func TestKumoriOptionsThatSayWhatTheAPISaysAreRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		_, informer := kubeInformer(t)
		for says, opt := range map[string]controller.Option{
			"threadiness":              controller.WithWorkers(1),
			"resyncInterval":           controller.WithResyncInterval(0),
			"call Event":               controller.WithEventRecorder(record.NewFakeRecorder(1)),
			"deletes nothing":          controller.WithOwnerProof([]byte("a secret of 16 bytes or more")),
			"has no context":           controller.WithPlan(),
			"want all that is owned":   controller.WithSlotCaches(),
			"a source":                 controller.Owns(pages),
			"option 2 of WithOptions":  controller.OwnsKube(cache.SharedIndexInformer(informer)),
			"WithBackoff(-1ns, -1ns)":  controller.WithBackoff(-1, -1),
			"is nil: leave it away":    nil,
			"WithSweepDryRun would do": controller.WithoutTeardown(),
		} {
			c := kumori{sites: sites}.custom(nil)
			err := c.WithOptions(controller.WithSweepDryRun(), opt)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: error %v", says, err)
			}
			errs := make(chan error, 1)
			if c.Run(1, nil, errs); (<-errs).Error() != err.Error() {
				t.Errorf("%s: Run says something else", says)
			}
		}
	})
}

// TestKumoriOptionsMayMendWhatTheArgumentsLack.
func TestKumoriOptionsMayMendWhatTheArgumentsLack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bare := w.client("Site", "bare", func(cfg *entity.Config) { cfg.StatusBucket = entity.NoStatusBucket })
		c := kumori{sites: bare, pages: bare}.custom(nil)
		must(t, c.WithOptions(controller.WithoutTeardown(), controller.WithSelfOwnership()))
		runKumori(t, c)
		must(t, bare.Create(t.Context(), newSite("home", "")))
		must(t, bare.Create(t.Context(), owned(newSite("part", ""), "home")))
		natstest.Eventually(t, "the owner is synced for what it owns", func() bool {
			return c.seen.with("home", controller.OperationSecondary) > 0
		})
	})
}

// TestKumoriGracePeriodLimitsTheEndOfRun, which else waits for SyncHandler without limit.
func TestKumoriGracePeriodLimitsTheEndOfRun(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		entered := make(chan struct{})
		var c *custom
		c = kumori{sites: sites}.custom(func(key string) error {
			close(entered)
			<-c.Context(key).Done()
			return context.Cause(c.Context(key))
		})
		must(t, c.WithOptions(controller.WithGracePeriod(0)))
		r := runKumori(t, c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		<-entered
		r.halt()
	})
}

// TestKumoriFaultsAreLoggedAlsoWithoutAnErrCh: else a program stands there, and nobody knows why.
func TestKumoriFaultsAreLoggedAlsoWithoutAnErrCh(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		state := klog.CaptureState()
		t.Cleanup(state.Restore)
		var mu sync.Mutex
		var lines []string
		klog.SetLogger(funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, args)
		}, funcr.Options{}))
		for name, test := range failing(t, newWorld(t)) {
			mu.Lock()
			lines = nil
			mu.Unlock()
			test.custom(nil).Run(1, nil, nil)
			mu.Lock()
			all := strings.ReplaceAll(strings.Join(lines, "\n"), `\"`, `"`)
			mu.Unlock()
			for _, part := range append(test.says, "start the process again") {
				if !strings.Contains(all, strings.ReplaceAll(part, `\"`, `"`)) {
					t.Errorf("%s: the log does not say %q: %s", name, part, all)
				}
			}
		}
	})
}
