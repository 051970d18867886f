package engine

import (
	"context"
	"iter"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// owing are records of which one is owed a teardown, and no documents.
type owing struct{ brake.Records }

func (owing) All() iter.Seq2[string, *entity.Record] {
	return maps.All(map[string]*entity.Record{"shop/gone": {Controller: "sites"}})
}

func (owing) Keys() []string          { return nil }
func (owing) Exists(string) bool      { return false }
func (owing) View(string) source.View { return source.View{} }

// TestATeardownKeepsItsRetryDelayWhileSweepsAskAboutMore: those follow within seconds, and what is owed is reminded of
// at the end of each interval, as ever.
func TestATeardownKeepsItsRetryDelayWhileSweepsAskAboutMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := queue.New(queue.Options{})
		defer q.ShutDown()
		looks, more := 0, true
		s := &sweeper{
			Interval: 5 * time.Minute, Soon: make(chan struct{}, 1), Later: make(chan struct{}, 1),
			Orders:    make(chan func(context.Context)),
			Primaries: owing{}, Records: owing{}, Brake: brake.New(brake.Config{}), Queue: q,
			Streams: func() uint64 { return 0 },
		}
		s.Garbage = func(context.Context, func(), func()) { looks, s.more = looks+1, more }
		q.AddAfter("shop/gone", operation.Of(operation.Retry), queue.Background, time.Hour, queue.RetryDelay)
		end := make(chan struct{})
		go func() { s.Collect(ctx); close(end) }()
		due := func() bool { return q.Counts().Ready[queue.BandBackground] > 0 }
		time.Sleep(5*time.Minute - time.Second)
		synctest.Wait()
		if looks != 30 || due() {
			t.Errorf("%d sweeps, and it is due: %v", looks, due())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if looks != 31 || !due() {
			t.Errorf("%d sweeps, and it is due: %v", looks, due())
		}
		cancel()
		<-end
	})
}
