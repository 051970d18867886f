package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/netpoll"
	"k8s.io/klog/v2"
)

// pollNetwork has the queue poll the network while workers go through a backlog; end is called when they have ended.
// Without a pipe nothing but speed is lost.
func (e *Engine) pollNetwork(ctx context.Context) (end func() error) {
	p, err := netpoll.New()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Live changes may wait longer while many keys are reconciled")
		return func() error { return nil }
	}
	e.queue.SetPoll(p.Poll)
	return p.Close
}
