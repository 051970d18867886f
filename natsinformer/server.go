package natsinformer

import (
	"context"
	"errors"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
)

// checkServer fails if the server that leads the stream is too old: it would never answer a request for a consumer. An
// old server that the client is connected to proves nothing, it may be a leaf node. But one that does not know how to
// ask for the next message of a subject refuses that.
func (w *worker) checkServer(ctx context.Context, s *session) error {
	connected := w.js.Conn().ConnectedServerVersion()
	if !kvstream.VersionBefore(connected, kvstream.OldestServer) {
		return nil
	}
	_, err := s.message(ctx, messageQuery{NextFor: w.filterSubject()})
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		if api.ErrorCode == jetstream.JSErrCodeBadRequest {
			return kvstream.TooOld(connected)
		}
		return nil
	}
	return err
}
