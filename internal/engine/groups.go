package engine

import (
	"sync"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/queue"
	"k8s.io/klog/v2"
)

func (e *Engine) newQueue() *queue.Queue {
	return queue.New(queue.Options{
		DebounceQuiet: e.opts.DebounceQuiet, DebounceMax: e.opts.DebounceMax,
		Group: e.groups(e.opts.Group), Rate: e.opts.Rate,
	})
}

// groups guards the user's function that names the group of a key. If it panics, the key is of the group "", and the
// first time is told.
func (e *Engine) groups(f func(key string) string) func(key string) string {
	if f == nil {
		return nil
	}
	var told sync.Once
	return func(key string) (group string) {
		err := guard.Call(func() error {
			group = f(key)
			return nil
		})
		if err != nil {
			told.Do(func() {
				printable.Logger(klog.Background()).Error(err, "Callback panicked, so keys are of the group \"\"",
					"controller", e.name, "callback", "WithFairness", "key", key)
			})
		}
		return group
	}
}
