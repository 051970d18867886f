package engine

import (
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// isDegraded reports whether a source in NATS does not work now: what fails meanwhile may be its fault.
func (e *Engine) isDegraded() bool {
	for _, s := range e.sources.Group() {
		if _, inNATS := s.(source.Cached); inNATS && s.Err() != nil {
			return true
		}
	}
	return false
}

// recovered makes the keys due that failed while a source in NATS did not work, if this one works, and forgets those
// failures: an outage of an hour would cost them minutes more. One that is not mended fails again.
func (e *Engine) recovered(s source.Source) {
	if _, inNATS := s.(source.Cached); !inNATS || s.Err() != nil {
		return
	}
	concerns := func(s *keytable.State) bool { return s.Degraded }
	for _, key := range e.keys.Where(concerns) {
		resumes := false
		e.keys.Amend(key, func(s *keytable.State) {
			if resumes = concerns(s); resumes {
				s.Degraded, s.Failures, s.RecordFailures = false, 0, 0
			}
		})
		if resumes {
			e.resumeKey(key)
		}
	}
}

// ownedStreams counts how often the streams of the sources were replaced by others, but for those of the primaries,
// which the brake sees to.
func (e *Engine) ownedStreams() (n uint64) {
	all := map[string]source.Stats{}
	for _, s := range e.sources.Group()[1:] {
		if cached, inNATS := s.(source.Cached); inNATS {
			cached.Stats(all)
		}
	}
	for _, one := range all {
		n += one.StreamChanges
	}
	return n
}
