package entity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// TestAListWaitsForAConsumerThatTakesLongToMake, as one with a filter on a large stream does.
func TestAListWaitsForAConsumerThatTakesLongToMake(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		var first time.Time
		_, js := natstest.Connect(t, srv.URL(), natstest.Tamper(func(m *nats.Msg) bool {
			if strings.Contains(string(m.Data), "consumer_create_response") {
				if first.IsZero() {
					first = time.Now()
				}
				return time.Since(first) > 2500*time.Millisecond
			}
			return true
		}))
		client := newClient[*Website](t, js, websites)
		must(t, client.Create(t.Context(), website("a")))
		list, err := client.List(testContext(t))
		must(t, err)
		if len(list) != 1 || first.IsZero() {
			t.Errorf("%d in the list; an answer was held back: %v", len(list), !first.IsZero())
		}
	})
}
