package kubesource

import (
	"context"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/internal/kubeapi"
)

const (
	// healAfter is how long after an error an informer counts as healthy again though nothing shows it. A reflector
	// tries at least once a minute, and would have failed again.
	healAfter = 75 * time.Second
	// recoveryTick is how often an informer is looked at that had an error.
	recoveryTick = 250 * time.Millisecond
	// An API server that may be away is probed at once, for an absence may be short, but no more often than each
	// probeInterval; then ever more rarely, up to probeIntervalMost.
	probeInterval     = 500 * time.Millisecond
	probeIntervalMost = 10 * time.Second
)

// watchRecovery returns when the informer works and nothing is suspected. A probe tells that an API server is back long
// before the watch, which pauses for up to a minute between its tries.
func (h *watchHealth) watchRecovery(ctx context.Context) {
	tick := time.NewTicker(recoveryTick)
	defer tick.Stop()
	away := false
	for interval := probeInterval; ; {
		if over, healed := h.heal(); healed {
			h.events.changed()
			if kubeapi.Unanswered(over) && h.errors.prober() == nil {
				h.events.answered() // there is no other sign of it
			}
			return
		}
		if h.mustProbe(interval) {
			switch err := h.probe(ctx); {
			case ctx.Err() != nil:
				return
			case kubeapi.Unanswered(err):
				away = true
				h.noteAway(err)
				h.events.changed()
			case errors.Is(err, context.DeadlineExceeded): // the probe was not even sent, so it says nothing
				h.suspect(ctx)
			case away: // once for each absence, or a key that fails all the same would be tried without a pause
				away = false
				h.events.answered()
			}
			interval = min(2*interval, probeIntervalMost)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// mustProbe reports whether the API server may be away, can be probed, and was not within interval.
func (h *watchHealth) mustProbe(interval time.Duration) bool {
	prober := h.errors.prober()
	h.mu.Lock()
	defer h.mu.Unlock()
	mayBeAway := h.suspected || kubeapi.Unanswered(h.failure)
	return prober != nil && mayBeAway && time.Since(h.probed) >= interval
}

// probe asks the API server for a sign of life; a refusal is one too. Its answer says nothing about requests that are
// lost from now on. Its version may tell that the informer's view is old.
func (h *watchHealth) probe(ctx context.Context) error {
	h.mu.Lock()
	h.suspected = false
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.probed = time.Now()
		h.mu.Unlock()
	}()
	before := h.errors.view.version()
	namespace, version, err := h.errors.ask(ctx)
	if err == nil {
		h.errors.view.answered(ctx, namespace, before, version)
	}
	return err
}

// noteAway keeps the API server suspected until it answers: an informer that moves is no answer, for it may have
// another way to the API server. And time that passes does not heal the failure.
func (h *watchHealth) noteAway(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		h.failLocked(err)
	}
	h.lastSeen, h.suspected = time.Now(), true
}

// heal ends the recovery if nothing is wrong any more, and returns what was.
func (h *watchHealth) heal() (over error, healed bool) {
	version := h.informer.LastSyncResourceVersion()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.suspected {
		return nil, false
	}
	stuck := version == h.version && time.Since(h.lastSeen) < healAfter
	if h.failure != nil && (stuck || !h.informer.HasSynced()) {
		return nil, false
	}
	over = h.failure
	h.failure, h.recovering = nil, false
	return over, true
}
