package entity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The rule of Config.OpenLater: a bucket that cannot be reached is opened when it can be. Until then its caches do not
// run, so that they have not synced, and each live read and each write tries to open it first. What NewClient would
// refuse, such as settings that lose data, is refused then, and no cache runs.

const (
	// openAgain is the pause between two tries to open a bucket that cannot be reached, for its caches.
	openAgain = time.Second
	// openPatience bounds one try, and how long NewClient waits for a bucket that may be opened later.
	openPatience = 4 * time.Second
	// defaultMaxPayload is that of a server which was not configured, for one that was never reached.
	defaultMaxPayload = 1 << 20
)

// opening is what is left to do of a bucket that could not be reached when its client was made.
type opening struct {
	open func(ctx context.Context) (warnings []string, err error)

	kind     string
	turn     turn.Turn   // held while it is tried
	later    atomic.Bool // NewClient has returned
	done     atomic.Bool
	failure  atomic.Pointer[failedOpening] // the last try
	warnings atomic.Pointer[[]string]      // of the settings, if it was opened after NewClient
}

// failedOpening is one try that failed for a reason of the bucket's.
type failedOpening struct{ err error }

// ensureOpen opens the bucket if that is left to do. Who comes while it is tried gets what comes of that: where no
// answer comes, each would wait for the tries of all before it.
func (b *bucket) ensureOpen(ctx context.Context) error {
	o := b.opening
	if o == nil || o.done.Load() {
		return nil
	}
	before := o.failure.Load()
	if err := o.turn.Take(ctx); err != nil {
		return b.notReached(err)
	}
	defer o.turn.Give()
	if o.done.Load() {
		return nil
	}
	if f := o.failure.Load(); f != before {
		return f.err
	}
	try, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	warnings, err := o.open(try)
	if err != nil {
		err = b.notReached(err)
		if ctx.Err() == nil { // else it says nothing of the bucket: who asked has gone, or was in a hurry
			o.failure.Store(&failedOpening{err})
		}
		return err
	}
	o.warnings.Store(&warnings)
	o.done.Store(true)
	if o.later.Load() {
		logWarnings(ctx, o.kind, warnings)
	}
	return nil
}

// notReached is the error of a try; a refusal stays what it is.
func (b *bucket) notReached(err error) error {
	if !mayComeLater(err) {
		return err
	}
	for _, names := range []string{"opening bucket ", "reading the state of bucket "} { // as the text here does
		if within := errors.Unwrap(err); within != nil && strings.HasPrefix(err.Error(), names) {
			err = within
		}
	}
	if api, ok := errors.AsType[*apiError](err); ok && api.ErrorCode == codeStreamNotFound {
		return newUnavailable("", "", "bucket %q does not exist yet (Config.OpenLater): create it, or leave "+
			"BindOnly off", b.name)
	}
	return newUnavailable("", "", "bucket %q has not been reached yet (Config.OpenLater): %v", b.name, err)
}

// notOpened is why the bucket is not open yet, as far as that is known.
func (b *bucket) notOpened() error {
	if b.opening == nil || b.opening.done.Load() {
		return nil
	}
	if f := b.opening.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// lateWarnings are those of settings that NewClient could not see.
func (b *bucket) lateWarnings() []string {
	if b.opening == nil {
		return nil
	}
	if found := b.opening.warnings.Load(); found != nil {
		return *found
	}
	return nil
}

// awaitOpen waits until the bucket is open, and tells why it is not. It is false if ctx ends before.
func (b *bucket) awaitOpen(ctx context.Context, tell func(error)) bool {
	if b.opening == nil {
		return true
	}
	for {
		err := b.ensureOpen(ctx)
		if ctx.Err() != nil {
			return false
		}
		tell(err)
		if err == nil {
			return true
		}
		timer := time.NewTimer(openAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// mayComeLater reports whether a bucket could not be reached, or is not there yet. All else is a refusal.
func mayComeLater(err error) bool {
	for _, away := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrInvalidConnection, context.DeadlineExceeded,
	} {
		if errors.Is(err, away) {
			return true
		}
	}
	if api, ok := errors.AsType[*apiError](err); ok {
		return api.ErrorCode == codeStreamNotFound || !api.isFinal()
	}
	return apierrors.IsServiceUnavailable(err)
}

// openOrLater opens a bucket. If cfg.OpenLater, one that cannot be reached is left for later; its settings are the
// zero value then.
func openOrLater(
	ctx context.Context, js jetstream.JetStream, b *bucket, cfg Config,
) (settings jetstream.StreamConfig, warnings []string, err error) {
	if !cfg.OpenLater {
		return openBucket(ctx, js, b, cfg)
	}
	open := func(ctx context.Context) (warnings []string, err error) {
		settings, warnings, err = openBucket(ctx, js, b, cfg)
		return warnings, err
	}
	b.opening = &opening{kind: cfg.Kind, turn: turn.New(), open: open}
	defer b.opening.later.Store(true)
	b.place.Store(&place{prefix: b.place.Load().prefix, open: true})
	if !js.Conn().IsConnected() {
		err = newUnavailable("", "", "the connection is not established yet")
		b.opening.failure.Store(&failedOpening{err})
		return settings, nil, nil
	}
	err = b.ensureOpen(ctx)
	if err != nil && (!mayComeLater(err) || errors.Is(ctx.Err(), context.Canceled)) {
		return settings, nil, fmt.Errorf("opening bucket %q for kind %s: %w", b.name, cfg.Kind, err)
	}
	if found := b.opening.warnings.Swap(nil); found != nil {
		warnings = *found
	}
	return settings, warnings, nil
}

// maxPayload is the server's limit. While none was reached it is the default of servers, or what cfg needs: the server
// may have more, and refuses by itself what is too large for it.
func maxPayload(js jetstream.JetStream, cfg Config) int64 {
	if limit := js.Conn().MaxPayload(); limit > 0 {
		return limit
	}
	return max(defaultMaxPayload, int64(cfg.MaxDocumentBytes)+headroom)
}
