package brake

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// window remembers which keys went within a span of time, each once. The zero went is ready.
type window struct {
	span time.Duration
	went map[string]time.Time
}

func (w *window) add(key string, now time.Time) {
	if w.went == nil {
		w.went = map[string]time.Time{}
	}
	w.went[key] = now
}

func (w *window) expire(now time.Time) {
	oldest := now.Add(-w.span)
	maps.DeleteFunc(w.went, func(_ string, at time.Time) bool { return at.Before(oldest) })
}

// beside counts the keys that went within the span and are not among the suspects.
func (w *window) beside(suspects sets.Set[string]) (n int) {
	w.expire(time.Now())
	for key := range w.went {
		if !suspects.Has(key) {
			n++
		}
	}
	return n
}
