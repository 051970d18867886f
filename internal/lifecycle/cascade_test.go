package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/ownwrites"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lateSource has a cache that shows a delete some time after it.
type lateSource struct {
	guardedSource
	lag     time.Duration
	removed *time.Time
	asked   *int // how often the API server was
}

func (s lateSource) shown() bool { return !s.removed.IsZero() && time.Since(*s.removed) >= s.lag }

func (s lateSource) OwnedBy(string) ([]metav1.Object, error) {
	if s.shown() {
		return nil, nil
	}
	return []metav1.Object{s.g.object}, nil
}

func (s lateSource) OwnedLive(context.Context, string) ([]metav1.Object, error) {
	*s.asked++
	return nil, nil
}

func (s lateSource) Remove(ctx context.Context, permit deletes.Permit) error {
	*s.removed = time.Now()
	s.g.removed++
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(s.g, "shop/page", s)
	}
	return nil
}

// As ownwrites.Write.

func (s lateSource) Follows(ownwrites.Write) bool { return true }
func (s lateSource) Reached() bool                { return s.shown() }
func (s lateSource) Wait(ctx context.Context) error {
	select {
	case <-time.After(s.lag - time.Since(*s.removed)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestACascadeWaitsUntilTheCachesShowItsDeletes, for a moment: so one look is enough, which deletes once and asks the API
// server once. A cache that takes longer ends the look, for a worker has other keys.
func TestACascadeWaitsUntilTheCachesShowItsDeletes(t *testing.T) {
	for _, test := range []struct {
		lag, takes time.Duration
		gone       bool
	}{
		{0, 0, true},
		{20 * time.Millisecond, 20 * time.Millisecond, true},
		{CheckInterval - 1, CheckInterval - 1, true},
		{time.Second, CheckInterval, false},
	} {
		t.Run(test.lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, asked := newGuarded(false, true), 0
				late := lateSource{guardedSource{g: g}, test.lag, &time.Time{}, &asked}
				began := time.Now()
				gone, err := g.cascadeIn(t.Context(), late)
				if took := time.Since(began); err != nil || gone != test.gone || took != test.takes {
					t.Errorf("gone: %v after %v, %v; want %v after %v", gone, took, err, test.gone, test.takes)
				}
				if want := map[bool]int{true: 1, false: 0}[gone]; g.removed != 1 || asked != want {
					t.Errorf("deleted %d times, and asked the API server %d times; want %d", g.removed, asked, want)
				}
			})
		})
	}
}
