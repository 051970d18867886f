package source

import (
	"context"
	"fmt"
	"sync"

	"github.com/nagi-runtime/nagi/internal/loops"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/client-go/tools/cache"
)

// Keys is a source of keys that code of the user's sends over a channel.
type Keys struct {
	listening
	name    string
	keys    <-chan string
	enqueue Enqueuer
}

// NewKeys makes a source of a channel. When the channel is closed, no more keys come, and nothing is wrong.
func NewKeys(name string, keys <-chan string, enqueue Enqueuer) *Keys {
	return &Keys{name: name, keys: keys, enqueue: enqueue}
}

// String is the name of the source in logs, errors and Stats.
func (s *Keys) String() string { return fmt.Sprintf("WatchesKeys %s", s.name) }

// Start implements Source.
func (s *Keys) Start(ctx context.Context) error {
	s.listen(ctx, func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case key, open := <-s.keys:
				if !open {
					return
				}
				if trail := s.enqueue.Trail(key); trail != nil {
					trail.Saw(loops.Cause{}) // no write of the key's own
				}
				s.enqueue.Notice(key, operation.Of(operation.Tertiary), queue.Secondary)
			}
		}
	})
	return nil
}

// Err implements Source.
func (s *Keys) Err() error { return nil }

// listening is a source that has no cache, and so nothing to list: it listens from Start to Stop.
type listening struct {
	end  context.CancelFunc
	done sync.WaitGroup
}

func (l *listening) listen(ctx context.Context, f func(ctx context.Context)) {
	ctx, l.end = context.WithCancel(ctx)
	l.done.Go(func() { f(ctx) })
}

// Synced implements Source.
func (*listening) Synced() []cache.DoneChecker { return nil }

// IsOptional implements Source.
func (*listening) IsOptional() bool { return false }

// Stop implements Source.
func (l *listening) Stop() {
	if l.end != nil {
		l.end()
	}
	l.done.Wait()
}
