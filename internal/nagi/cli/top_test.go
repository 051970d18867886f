package cli

import (
	"encoding/json"
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
