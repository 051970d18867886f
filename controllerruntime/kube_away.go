package controllerruntime

import (
	"errors"
	"github.com/nagi-runtime/nagi/internal/queue"
)

// noteKubeAway remembers a key that failed because a request to an API server was not answered, and of which source the
// API server is; nil if the error does not tell. Its backoff grows as for any other failure, so an outage of an hour would cost
// it minutes more; but that is over as soon as the API server answers. Who is refused meanwhile is still remembered: he may have
// come before anybody has noticed that it is back.
func (e *engine) noteKubeAway(key string, err error) {
	if !noAnswer(err) {
		return
	}
	var of *watchErrors
	if marked, ok := errors.AsType[*unansweredError](err); ok && e.hasKubeSource(marked.by) {
		of = marked.by
	}
	e.kubeAway.put(key, of)
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
	for _, key := range e.kubeAway.all() {
		if of, ok := e.kubeAway.get(key); !ok || of != nil && of != source {
			continue
		}
		if _, ok := e.kubeAway.take(key); ok {
			e.queue.ResetBackoff(key)
			e.resume(queue.Item{Key: key})
		}
	}
}
