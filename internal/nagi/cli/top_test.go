package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTopShowsControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		said := w.ok("top")
		w.wantIn(said, "CONTROLLER", "websites", "Website.example.com", "leader", "slowest", "shop/home")
		var rows []row
		w.must(json.Unmarshal([]byte(w.ok("top", "websites", "-o", "json")), &rows))
		if len(rows) != 1 || rows[0].Stats.Parked != 1 || len(rows[0].Replicas) != 1 || rows[0].Rate == nil ||
			!rows[0].About.Leading || len(rows[0].Stats.Slowest) == 0 {
			t.Errorf("as JSON: %+v", rows)
		}
	})
}

func TestTopCountsReconcilesBetweenTwoLooks(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.follows(false, 9*time.Second, func() {
			w.put("websites", "shop.home", `{"spec":{"host":"home.example"}}`)
		}, "top", "-w", "--interval", "2s", "-o", "json")
		d := json.NewDecoder(strings.NewReader(r.out))
		most := 0.0
		for d.More() {
			var rows []row
			w.must(d.Decode(&rows))
			if rate := rows[0].Rate; rate != nil {
				most = max(most, *rate)
			}
		}
		if r.code != 0 || most < 0.4 || most > 1 {
			t.Errorf("code %d, the highest rate is %v\n%s", r.code, most, r.err)
		}
	})
}

func TestTopIsDrawnOnATerminal(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.follows(true, 9*time.Second, nil, "top")
		if n := strings.Count(r.out, "\x1b[H"); r.code != 0 || n < 4 || !strings.HasSuffix(r.out, "\x1b[?1049l") {
			t.Errorf("code %d, drawn %d times\n%q%s", r.code, n, r.out, r.err)
		}
	})
}

func TestTopWithoutAnAnswerSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stopController()
		r := w.nagi("top")
		w.wantIn(r.out, "no answer", "nagi doctor")
		if r.code != CodeUnreachable {
			t.Errorf("%+v", r)
		}
	})
}

// TestTopShowsMembers that share the keys: whose slots are where, what moves, and who leads.
func TestTopShowsMembers(t *testing.T) {
	inShards(t, func(w *world, stop map[string]func()) {
		said := w.ok("top", "--once")
		w.wantIn(said, "64 slots, shared by 2 members", "a: ", "b: ", ", leads for ")
		if strings.Count(said, "leads for") != 1 || strings.Contains(said, "move") || strings.Contains(said, "gives") ||
			strings.Contains(said, "gets") {
			t.Errorf("all is calm, and it says\n%s", said)
		}
		for i := range 20 {
			w.put("websites", fmt.Sprintf("shop.long%d", i), `{"spec":{"host":"takes.example"}}`)
		}
		time.Sleep(3 * time.Second)
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop["b"]() }()
		time.Sleep(3 * time.Second)
		w.wantIn(w.ok("top", "--once"), ", 1 move", "b: 1 slots, ", ", gives 1 away, ", ", leaves", ", gets 1, leads for ")
		<-stopped
		w.wantIn(w.ok("top", "--once"), "64 slots, all of one member")
	})
}
