package health

import (
	"errors"
	"maps"
	"slices"
	"sync"
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

// Err joins the reasons, in the order of the parts, so that the same reasons make the same text. It is nil if every
// part works.
func (e *Errors) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []error
	for _, part := range slices.Sorted(maps.Keys(e.byPart)) {
		all = append(all, e.byPart[part])
	}
	return errors.Join(all...)
}
