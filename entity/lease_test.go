package entity_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestALeaseIsHeldByOneAndTakenOverWhenItsHolderDies: the example, over half an hour in which holders die. None works
// while another one does, and the next one does two seconds after the TTL at the latest: one for the whole second of
// the server, one until the wait looks again.
func TestALeaseIsHeldByOneAndTakenOverWhenItsHolderDies(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		js := newServer(t)
		var wg sync.WaitGroup
		defer wg.Wait()
		var mu sync.Mutex
		working, dies := map[string]bool{}, map[string]context.CancelFunc{}
		took := make(chan string, 10)
		start := func(name string) {
			leases, err := entity.NewClient[*Lease](t.Context(), js, entity.Config{
				Kind: "Lease", Bucket: "leases", StatusBucket: "-"})
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			dies[name] = cancel
			wg.Go(func() {
				defer leases.Close()
				m := &member{name, leases, ttl}
				_ = m.run(ctx, func(ctx context.Context) {
					mu.Lock()
					if working[name] = true; len(working) > 1 {
						t.Errorf("they work at once: %v", working)
					}
					mu.Unlock()
					took <- name
					<-ctx.Done()
					mu.Lock()
					defer mu.Unlock()
					delete(working, name)
				})
			})
		}
		start("a")
		holder := <-took
		start("b")
		for range 3 {
			time.Sleep(10 * time.Minute)
			select {
			case other := <-took:
				t.Errorf("%s took it from %s, which lives", other, holder)
			default:
			}
			died := time.Now()
			dies[holder]()
			next := <-took
			if after := time.Since(died); next == holder || after < ttl*2/3-time.Second || after > ttl+2*time.Second {
				t.Errorf("%s took over from %s after %v", next, holder, after)
			}
			start(holder)
			holder = next
		}
		for _, die := range dies {
			die()
		}
	})
}
