package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/notify"
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

// mapperOf is the board's name of a mapper of a source, which may fail while its news comes.
func mapperOf(s source.Source) string { return "mapper of " + s.String() }

// watchSuspects shows, until ctx ends, which caches may show what is not there any more, and which mappers fail.
func (e *Engine) watchSuspects(ctx context.Context) {
	look := time.NewTicker(suspectLook)
	defer look.Stop()
	shown := map[string]bool{}
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		for _, s := range e.sources.Group() {
			for name, problem := range map[string]*health.Problem{
				newsOf(s): suspicion(s, shown[newsOf(s)]), mapperOf(s): e.failingMapper(s),
			} {
				if problem != nil {
					e.health.Set(ctx, name, problem)
				} else if shown[name] {
					e.health.Set(ctx, name, nil)
				}
				shown[name] = problem != nil
			}
		}
	}
}

// suspicion is why a cache may show what is not there any more; nil if it does not, or not for long.
func suspicion(s source.Source, shown bool) *health.Problem {
	cached, is := s.(source.Cached)
	if !is {
		return nil
	}
	since, why := cached.Suspect()
	// Where the source fails first that says enough. But what was said before does not work again by that.
	if why == nil || !shown && (time.Since(since) < suspectPatience || s.Err() != nil) {
		return nil
	}
	return &health.Problem{Since: since, Err: fmt.Errorf(mayShow, why)}
}

// failingMapper is why a mapper is called again; nil if it is not. The number of its objects is no news.
func (e *Engine) failingMapper(s source.Source) *health.Problem {
	behind, is := e.mappings.BehindIn(s)
	if !is {
		return nil
	}
	err := fmt.Errorf("the mapper has failed for %d of its objects, and is called again until it names the primaries "+
		"that they concern: %w", behind.Objects, behind.Err)
	return &health.Problem{Since: behind.Since, Err: notify.Because(notify.Reason(behind.Err), err)}
}
