package natsinformer

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// TestAMarkerThatTheServerSentAsAnAnswerDeletesNothing: it was another key's.
func TestAMarkerThatTheServerSentAsAnAnswerDeletesNothing(t *testing.T) {
	for _, header := range []nats.Header{
		{operationHeader: {"DEL"}}, {operationHeader: {"PURGE"}}, {markerHeader: {"MaxAge"}},
	} {
		if was := markerOf(header); was == "" {
			t.Fatalf("%v is no marker", header)
		}
		header["Nats-Stream"], header["Nats-Sequence"] = []string{"KV_b"}, []string{"7"}
		if reason := markerOf(header); reason != "" {
			t.Errorf("%v deletes its key (%q)", header, reason)
		}
	}
}

// TestATimeToLiveThatTheServerForwardedIsNobodysWish: the server drops the message all the same.
func TestATimeToLiveThatTheServerForwardedIsNobodysWish(t *testing.T) {
	for forwarded, want := range map[bool]DeleteReason{false: ExpiryMarker, true: expiredByAge} {
		d := newDeadlines()
		d.set("key", 10, forwarded)
		if early, late := d.reason("key", 9), d.reason("key", 10); early != "" || late != want {
			t.Errorf("forwarded %v: %q before, then %q; want %q", forwarded, early, late, want)
		}
		if d.over("key", 10) == forwarded {
			t.Errorf("forwarded %v: it is over by its writer's wish: %v", forwarded, !forwarded)
		}
	}
}
