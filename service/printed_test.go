package service

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// requests are the commands `nats req SUBJECT 'BODY'` in a text, in their order.
func requests(text string) [][]string {
	return regexp.MustCompile(`nats req (\S+) '([^']*)'`).FindAllStringSubmatch(text, -1)
}

// printedOf is what the board says of the brake, and what the event of its engagement says.
func printedOf(w *world, c *controlled, recorded *events) map[string]string {
	w.Helper()
	printed := map[string]string{}
	natstest.Eventually(w, "the event is there", func() bool {
		recorded.mu.Lock()
		defer recorded.mu.Unlock()
		for _, event := range recorded.all {
			if strings.Contains(event, " BrakeEngaged: ") {
				printed["the event"] = event
			}
		}
		return printed["the event"] != ""
	})
	printed["the board"] = c.Stats().Degraded["brake"].Error()
	return printed
}

// TestTheRestoreThatAnEngagedBrakePrintsIsTaken: copied as it is printed, with the count that the first command lists.
// One of the documents cannot be restored, so the count is not that of what is held.
func TestTheRestoreThatAnEngagedBrakePrintsIsTaken(t *testing.T) {
	for _, where := range []string{"the board", "the event"} {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			recorded := &events{}
			c := w.braked(controller.WithEventRecorder(recorded))
			sites, err := w.js.KeyValue(t.Context(), "sites")
			w.must(err)
			w.must(sites.Delete(t.Context(), "shop.s000")) // it was meant to go
			text := printedOf(w, c, recorded)[where]
			commands := requests(text)
			if len(commands) != 2 || strings.Index(text, commands[1][0]) > strings.Index(text, "nats kv put") {
				t.Fatalf("%s does not have two requests before the release: %s", where, text)
			}
			list := ask[BrakeVanished](w, w.js.Conn(), commands[0][1], commands[0][2])
			body := strings.ReplaceAll(commands[1][2], "COUNT", fmt.Sprint(list.Count))
			var named BrakeRequest
			w.must(json.Unmarshal([]byte(body), &named))
			if named.Engagement != list.Engagement {
				t.Errorf("%s names the engagement %q, and it is %q", where, named.Engagement, list.Engagement)
			}
			if r := ask[BrakeRestored](w, w.js.Conn(), commands[1][1], body); r.Count != many-1 {
				t.Errorf("%d documents are back, want %d", r.Count, many-1)
			}
			for i := 1; i < many; i++ {
				if value := w.value("sites", fmt.Sprintf("shop.s%03d", i)); value == "" {
					t.Errorf("s%03d is not back", i)
				}
			}
			natstest.Eventually(w, "they are held no more", func() bool { return c.Stats().Brake.Held <= 1 })
		})
	}
}

// TestTheRestoreThatIsPrintedIsNotTakenWithoutItsCount: to copy it before one has looked restores nothing.
func TestTheRestoreThatIsPrintedIsNotTakenWithoutItsCount(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.braked()
		commands := requests(c.Stats().Degraded["brake"].Error())
		if e := refused(w, w.js.Conn(), commands[1][1], commands[1][2], 400); e.Code != 400 {
			t.Errorf("%+v", e)
		}
		if w.value("sites", "shop.s001") != "" {
			t.Error("a document is back")
		}
	})
}

// TestTheReleaseThatAnEngagedBrakePrintsIsTaken: it stands last, with what it deletes.
func TestTheReleaseThatAnEngagedBrakePrintsIsTaken(t *testing.T) {
	for _, where := range []string{"the board", "the event"} {
		natstest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			recorded := &events{}
			c := w.braked(controller.WithEventRecorder(recorded))
			text := printedOf(w, c, recorded)[where]
			says, command, ok := strings.Cut(text, "nats kv put sites-status _nagi.release ")
			if !ok || !strings.Contains(says, fmt.Sprintf("what %d vanished primaries own", many)) ||
				strings.Contains(says, " 0 ") {
				t.Fatalf("%s says: %s", where, text)
			}
			if strings.Contains(strings.Trim(command, `"`), `"`) {
				t.Fatalf("%s has more after the command: %s", where, command)
			}
			w.put("sites-status", "_nagi.release", strings.Trim(command, `"`))
			natstest.Eventually(w, "the brake is released", func() bool {
				return !c.Stats().Brake.Engaged && w.value("sites-status", "shop.s001") == ""
			})
		})
	}
}
