package natsinformer

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// TestAMarkerThatTheServerSentAsAnAnswerDeletesNothing: it was another key's, and so was its time to live.
func TestAMarkerThatTheServerSentAsAnAnswerDeletesNothing(t *testing.T) {
	t.Parallel()
	for _, header := range []nats.Header{
		{operationHeader: {"DEL"}}, {operationHeader: {"PURGE"}}, {markerHeader: {"MaxAge"}}, {ttlHeader: {"1s"}},
	} {
		was, expires := markerOf(header), expiryOf(header, 1)
		if (was == "") == (expires == 0) {
			t.Fatalf("%v: reason %q, expires at %d", header, was, expires)
		}
		header["Nats-Stream"], header["Nats-Sequence"] = []string{"KV_b"}, []string{"7"}
		if reason, expires := markerOf(header), expiryOf(header, 1); reason != "" || expires != 0 {
			t.Errorf("%v deletes its key (%q), or expires at %d", header, reason, expires)
		}
	}
}
