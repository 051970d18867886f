package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/source"
)

// A cache that may show what its stream does not have any more is mostly listed anew within a second, and after pauses
// that double where that happens again and again. Until then what vanished is not torn down or made again. So that
// shows once it has lasted for suspectPatience, which is looked at each suspectLook.
const (
	suspectPatience = 8 * time.Second
	suspectLook     = 2 * time.Second
)

// mayShow is what is said of such a cache.
const mayShow = "the cache may show what its stream does not have any more, and is listed anew within minutes: %w; " +
	"what is purged by hand again and again shows late: delete keys instead (nats kv del)"

// newsOf is the board's name of what a source in NATS may not have heard of, while it works.
func newsOf(s source.Source) string { return "news of " + s.String() }

// watchSuspects shows, until ctx ends, which caches may show what is not there any more.
func (e *Engine) watchSuspects(ctx context.Context) {
	look := time.NewTicker(suspectLook)
	defer look.Stop()
	shown := map[source.Source]bool{}
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		for _, s := range e.sources {
			cached, is := s.(source.Cached)
			if !is {
				continue
			}
			problem := error(nil)
			since, why := cached.Suspect()
			// Where the source fails first that says enough. But what was said before does not work again by that.
			if why != nil && (shown[s] || time.Since(since) >= suspectPatience && s.Err() == nil) {
				problem = &health.Problem{Since: since, Err: fmt.Errorf(mayShow, why)}
			}
			if problem != nil || shown[s] {
				shown[s] = problem != nil
				e.health.Set(ctx, newsOf(s), problem)
			}
		}
	}
}
