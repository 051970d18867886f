package controllerruntime

// noteKubeAway remembers a key that failed because an API server could not be reached. Its backoff grows as for any other
// failure, so an outage of an hour would cost it minutes more; but that is over as soon as the API server answers.
func (e *engine) noteKubeAway(key string, err error) {
	if unreachable(err) {
		e.kubeAway.put(key, struct{}{})
		return
	}
	e.kubeAway.forget(key)
}

// kubeAnswers makes the keys due that failed while an API server was away. What they failed of then is over, so it does not
// count against them: one that has just started refuses everybody but administrators until it has read who may do what.
func (e *engine) kubeAnswers() {
	for _, key := range e.kubeAway.all() {
		if _, ok := e.kubeAway.take(key); ok {
			e.queue.forget(key)
			e.resume(item{key: key})
		}
	}
}
