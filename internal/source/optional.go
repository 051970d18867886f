package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// HasSynced reports whether the caches of a source are complete and its handlers have seen the initial list.
func HasSynced(s Source) bool {
	for _, done := range s.Synced() {
		select {
		case <-done.Done():
		default:
			return false
		}
	}
	return true
}

// IsOptional is for [Group.Without].
func IsOptional(s Source) bool { return s.IsOptional() }

// ErrNotSynced is why a source that a controller works without shows nothing yet.
var ErrNotSynced = errors.New("it has not synced yet")

// NotSynced is what Outdated returns before a source has synced; nil once it has.
func NotSynced(s Source) error {
	switch {
	case HasSynced(s):
		return nil
	case s.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNotSynced, s.Err())
	}
	return ErrNotSynced
}

const (
	// missingPatience is how long the start of a controller waits for an optional source of which nothing is wrong.
	missingPatience = 10 * time.Second
	// missingTick is how often such a source is looked at.
	missingTick = 250 * time.Millisecond
)

// StillMissing waits for optional sources, which may be about to sync, and returns those that the controller begins
// without: something is wrong with them, or they take too long. They are asked under life.
func (g Group) StillMissing(ctx, life context.Context) (missing Group) {
	missing = slices.DeleteFunc(slices.Clone(g), HasSynced)
	if len(missing) == 0 {
		return nil
	}
	look := time.NewTicker(missingTick)
	defer look.Stop()
	ctx, cancel := context.WithTimeout(ctx, missingPatience)
	defer cancel()
	wrong := func(s Source) bool { return WhyNotSynced(life, s) != nil }
	for !allOf(missing, wrong) {
		select {
		case <-ctx.Done():
			return missing
		case <-look.C:
		}
		missing = slices.DeleteFunc(missing, HasSynced)
	}
	return missing
}

func allOf[E any](all []E, f func(E) bool) bool {
	return !slices.ContainsFunc(all, func(e E) bool { return !f(e) })
}
