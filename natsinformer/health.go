package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// health keeps the informer's Status and reports its changes.
type health struct {
	bucket  string
	onError func(error)
	// reported says that who onError tells logs it; nil: it does not.
	reported func() bool
	// onFailure is onError without nil; set before the start.
	onFailure func(context.Context, error)

	telling sync.Mutex // held while they are called, so that the newest state is told last

	mu      sync.Mutex
	status  Status
	overdue *time.Timer // see expect; nil while nothing is expected
	vain    bool        // status.Err is of an expectation
	logged  bool        // that the bucket cannot be watched, since it could be watched last
}

// expect reports err after a while, unless met is called before, or another reason is known by then. An expectation
// that is not met yet stands.
func (h *health) expect(ctx context.Context, within time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.overdue != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(within, func() {
		h.telling.Lock()
		defer h.telling.Unlock()
		h.mu.Lock()
		due := h.overdue == timer && h.status.Err == nil
		h.mu.Unlock()
		if due {
			h.tellFailure(ctx, err)
			h.mu.Lock()
			h.vain = true
			h.mu.Unlock()
		}
	})
	h.overdue = timer
}

// forget ends what is expected, at the end.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.overdue != nil {
		h.overdue.Stop()
		h.overdue = nil
	}
}

// met ends what is expected. If that was reported, and nothing else since, it is over.
func (h *health) met(ctx context.Context) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.forget()
	h.mu.Lock()
	vain := h.vain
	h.mu.Unlock()
	if vain {
		h.tellHealed(ctx)
	}
}

// failed reports why the informer cannot list or watch, once per change. A doubt, for which it lists again of its own
// accord, does not hide a reason that is told.
func (h *health) failed(ctx context.Context, err error) {
	h.telling.Lock()
	defer h.telling.Unlock()
	if errors.Is(err, errDoubted) && h.get().Err != nil {
		return
	}
	h.tellFailure(ctx, err)
}

// tellFailure needs h.telling.
func (h *health) tellFailure(ctx context.Context, err error) {
	err = printable.Error(fmt.Errorf("natsinformer: bucket %q: %w", h.bucket, err))
	if h.change(err) {
		if h.isNews(err) {
			klog.FromContext(ctx).Error(err, "Cannot watch the bucket, will keep trying", "bucket", h.bucket)
		}
		if h.onFailure != nil {
			h.onFailure(ctx, err)
		}
	}
}

// isNews reports whether the log is to have why the bucket cannot be watched: unless the connection is down, and that
// was told, or another logs it. It needs h.telling.
func (h *health) isNews(err error) bool {
	if h.reported != nil && h.reported() {
		return false
	}
	if offline, ok := errors.AsType[*offlineError](err); ok && !connection.Of(offline.nc).TellDown() {
		return false
	}
	h.logged = true
	return true
}

// healed reports that the informer can list and watch again, once per change.
func (h *health) healed(ctx context.Context) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.tellHealed(ctx)
}

// tellHealed needs h.telling.
func (h *health) tellHealed(ctx context.Context) {
	if h.change(nil) && h.logged {
		h.logged = false
		klog.FromContext(ctx).Info("Watching the bucket again", "bucket", h.bucket)
	}
}

func (h *health) change(err error) bool {
	h.mu.Lock()
	if notify.Reason(h.status.Err) == notify.Reason(err) {
		h.status.Err = err // which may say more now
		h.mu.Unlock()
		return false
	}
	h.status.Err, h.status.Since, h.vain = err, time.Now(), false
	h.mu.Unlock()
	if h.onError != nil {
		h.onError(err)
	}
	return true
}

func (h *health) update(f func(*Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.status)
}

func (h *health) get() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}
