package entity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrUnsafeSettings says that a bucket was made anew, or changed, with settings that may lose data. The controller
// works on meanwhile.
var ErrUnsafeSettings = errors.New("settings that are not safe")

// acceptedSettings are what was to warn about in the settings of a bucket when it was opened. NewClient has told that;
// while the bucket is watched only what is new is told.
type acceptedSettings struct {
	mu       sync.Mutex
	warnings []string
}

// accept notes what NewClient tells of.
func (a *acceptedSettings) accept(warnings []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = warnings
}

// changed returns what is wrong with the settings that a bucket has by now, since an operator has changed them or has
// made the bucket anew, and how to mend it; nil if nothing is that was not when the bucket was opened. What is mended
// and comes back is told, too.
func (b *bucket) changed(s jetstream.StreamConfig, cfg Config) error {
	problems, warnings := settingsSay(s, cfg, b.name, b.nc.ConnectedServerVersion())
	b.accepted.mu.Lock()
	b.accepted.warnings = slices.DeleteFunc(slices.Clone(b.accepted.warnings), func(accepted string) bool {
		return !slices.Contains(warnings, accepted)
	})
	accepted := b.accepted.warnings
	b.accepted.mu.Unlock()
	news := slices.DeleteFunc(slices.Concat(problems, warnings), func(said string) bool {
		return slices.Contains(accepted, said)
	})
	if len(news) == 0 {
		return nil
	}
	return fmt.Errorf("bucket %q was made anew or changed, with %w: %s",
		b.name, ErrUnsafeSettings, strings.Join(news, "; "))
}

// setSettings tells what is wrong with the settings of a bucket; nil if nothing is.
func (s *hookState) setSettings(bucket string, err error) {
	s.tell(func() {
		if err == nil {
			delete(s.settings, bucket)
		} else {
			s.settings[bucket] = err
		}
	}, func(hooks Hooks) {
		if hooks.Settings != nil {
			hooks.Settings(bucket, err)
		}
	})
}
