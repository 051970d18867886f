package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
)

// TestASecondRestoreAtTheSameTimeIsAConflict, over the services API or not: what it asks for is done.
func TestASecondRestoreAtTheSameTimeIsAConflict(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.braked()
		page := ask[BrakeVanished](w, w.js.Conn(), "nagi.sites.read.brake-vanished", ``)
		answers := w.gathered(3, "nagi.sites.act.brake-restore",
			fmt.Sprintf(`{"engagement":%q,"count":%d}`, page.Engagement, page.Count))
		_, _ = c.RestoreVanished(t.Context(), page.Engagement, page.Count)
		for range 3 {
			msg, err := answers.NextMsg(time.Minute)
			w.must(err)
			if code := msg.Header.Get("Nats-Service-Error-Code"); code != "" && code != "409" {
				t.Errorf("%s", msg.Data)
			}
		}
		if w.value("sites", "shop.s000") == "" {
			t.Error("it is not back")
		}
	})
}
