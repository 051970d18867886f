package health

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/notify"
)

// Errors are the reasons why the parts of one thing do not work, such as the buckets of a source. The zero value has
// none. All methods may be called concurrently.
type Errors struct {
	mu     sync.Mutex
	byPart map[string]error
}

// Set notes why a part does not work; nil if it does.
func (e *Errors) Set(part string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		delete(e.byPart, part)
		return
	}
	if e.byPart == nil {
		e.byPart = map[string]error{}
	}
	e.byPart[part] = err
}

// Err joins the reasons, in the order of the parts, so that the same reasons make the same text. What several parts
// share is one reason. It is nil if every part works.
func (e *Errors) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []error
	var reasons []string
	for _, part := range slices.Sorted(maps.Keys(e.byPart)) {
		err := e.byPart[part]
		all = append(all, err)
		if reason := notify.Reason(err); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return notify.Because(strings.Join(reasons, "\n"), errors.Join(all...))
}
