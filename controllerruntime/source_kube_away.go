package controllerruntime

import (
	"errors"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/kubeerrors"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// unansweredBy tells whether a key failed because a request to an API server was not answered, and of which source the API
// server is, where the error tells. Its backoff grows as for any other failure, so an outage of an hour would cost
// it minutes more; but that is over as soon as the API server answers. Who is refused meanwhile is still remembered: he may have
// come before anybody has noticed that it is back.
func (e *engine) unansweredBy(err error) *keytable.Unanswered {
	if !kubeerrors.Unanswered(err) {
		return nil
	}
	by := &keytable.Unanswered{}
	if marked, ok := errors.AsType[*unansweredError](err); ok && e.hasKubeSource(marked.by) {
		by.Source = marked.by
	}
	return by
}

func (e *engine) hasKubeSource(of *watchErrors) bool {
	for _, s := range e.sources {
		if s, ok := s.(*kubeSource); ok && s.watching.errors == of {
			return true
		}
	}
	return false
}

// kubeAnswers makes the keys due that failed while the API server of a source was away. What they failed of then is over, so it
// does not count against them: one that has just started refuses everybody but administrators until it has read who may do what.
func (e *engine) kubeAnswers(source *watchErrors) {
	concerns := func(s *keytable.State) bool {
		return s.Unanswered != nil && (s.Unanswered.Source == nil || s.Unanswered.Source == source)
	}
	for _, key := range e.keys.Where(concerns) {
		resumes := false
		e.keys.Amend(key, func(s *keytable.State) {
			if resumes = concerns(s); resumes {
				s.Unanswered, s.Failures = nil, 0
			}
		})
		if resumes {
			e.resume(queue.Item{Key: key})
		}
	}
}
