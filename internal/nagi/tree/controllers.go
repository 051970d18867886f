package tree

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
)

// Controllers asks controllers what they know of documents. It keeps each answer for a moment, for a tree is made again
// with each change, and a controller answers fifty requests in a second. It may be used concurrently.
type Controllers struct {
	// Of is the controller of a name, with a timeout.
	Of func(name string) ask.Controller

	mu      sync.Mutex
	answers map[string]answer // by controller and key; of a controller that does not answer also by its name
}

type answer struct {
	controller.Explanation
	err error
	at  time.Time
}

const (
	// answersKept is for how long an answer is kept.
	answersKept = 4 * time.Second
	// mostAnswers are kept at once.
	mostAnswers = 1000
)

// known is what was answered a moment ago.
func (c *Controllers) known(name, key string) (a answer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range []string{name, name + " " + key} {
		if a, ok = c.answers[at]; ok && time.Since(a.at) < answersKept {
			return a, true
		}
	}
	return a, false
}

// explain asks a controller about a key.
func (c *Controllers) explain(ctx context.Context, name string, kind *kinds.Kind, key string) (a answer) {
	a.Explanation, a.err = c.Of(name).Explain(ctx, kind.NamespaceOf(key), key)
	if ctx.Err() != nil {
		return a
	}
	at := name + " " + key
	if _, silent := errors.AsType[*ask.NoAnswer](a.err); silent {
		at = name // of its other keys it would not tell, either
	}
	a.at = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil || len(c.answers) >= mostAnswers {
		c.answers = map[string]answer{}
	}
	c.answers[at] = a
	return a
}
