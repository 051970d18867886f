package controller

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/signals"
)

// SignalContext returns a context that ends with the first SIGINT or SIGTERM, so that Run stops gracefully. The second
// signal ends the process at once with exit code 1. The returned function cancels the context and stops catching
// signals.
func SignalContext(parent context.Context) (context.Context, context.CancelFunc) {
	return signals.Context(parent)
}
