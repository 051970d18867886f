package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Group are the sources of one controller, which start and stop together.
type Group []Source

// Without splits off the sources for which f is true.
func (g Group) Without(f func(Source) bool) (rest, split Group) {
	for _, s := range g {
		if f(s) {
			split = append(split, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, split
}

// Start starts all. Their events go on until Stop; life says which context the callbacks of one have.
func (g Group) Start(life func(Source) context.Context) error {
	for _, s := range g {
		if err := s.Start(life(s)); err != nil {
			return fmt.Errorf("start source %s: %w", s, err)
		}
	}
	return nil
}

// Stop stops all, and returns when no callback runs any more.
func (g Group) Stop() {
	for _, s := range g {
		s.Stop()
	}
}

// WaitSynced waits until all have synced. If ctx ends before, the error is its cause, and names those that have not,
// with why if that can be found out; they are asked under life.
func (g Group) WaitSynced(ctx, life context.Context) error {
	var missing []string
	for _, s := range g {
		if cache.WaitFor(ctx, "", s.Synced()...) {
			continue
		}
		why := ""
		if err := WhyNotSynced(life, s); err != nil {
			why = " (" + err.Error() + ")"
		}
		missing = append(missing, s.String()+why)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: not synced: %s", context.Cause(ctx), strings.Join(missing, "; "))
}

// whyPatience is how long a source that has not synced is given to find out why.
const whyPatience = 2 * time.Second

// WhyNotSynced returns why a source has not synced; nil if that is not known.
func WhyNotSynced(ctx context.Context, s Source) error {
	if err := s.Err(); err != nil {
		return err
	}
	a, ok := s.(Asker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, whyPatience)
	defer cancel()
	return a.WhyNotSynced(ctx)
}
