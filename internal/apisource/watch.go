package apisource

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/retry"
	"k8s.io/klog/v2"
)

// watch takes the pushes of the API. A Watch that ends is called again, with backoff.
func (s *Source) watch(ctx context.Context, watcher external.Watcher) {
	pauses := retry.NewBackoff(s.config.BackoffMin, s.config.BackoffMax)
	ctx = s.withOwner(ctx)
	var told notify.Fact
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := guard.Call(func() error {
			defer s.follow(ctx, callWatch)()
			return watcher.Watch(ctx, func(owner string) { s.push(ctx, owner) })
		})
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > s.config.BackoffMax {
			failures = 0
		}
		pause := pauses.Delay(failures)
		verbosity := 1
		if told.Repeat(failures+1, notify.Reason(err)) {
			verbosity = 0
		}
		klog.FromContext(ctx).V(verbosity).Info("Watch ended, will be called again",
			"source", s.String(), "err", err, "after", pause, "attempt", failures+1)
		if !sleep(ctx, pause) {
			return
		}
		s.WantList(time.Now()) // a push may have been missed
	}
}

func (s *Source) push(ctx context.Context, owner string) {
	if ctx.Err() != nil {
		return
	}
	if owner != "" {
		if err := guard.Call(func() error { s.Pushed(owner); return nil }); err != nil {
			klog.FromContext(ctx).Error(err, "Push failed", "source", s.String(), "owner", owner)
		}
	}
	s.schedule.push(s.config.Settle)
}

// sleep reports whether ctx has outlived the pause.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
