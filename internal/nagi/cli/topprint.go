package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// printTop prints a table, and below what does not fit into one.
func printTop(s *out.Streams, rows []*row) error {
	table := s.NewTable("controller", "kind", "replicas", "rate/s", "run", "ready", "delayed", "failing", "parked",
		"looping", "deleting", "oldest", "brake")
	for _, r := range rows {
		if err := table.Cells(r.cells()...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		r.printMore(s)
	}
	return nil
}

func (r *row) cells() []out.Cell {
	plain := func(text string) out.Cell { return out.Cell{Text: text} }
	count := func(n int, tone out.Tone) out.Cell {
		if n == 0 {
			tone = out.Plain
		}
		return out.Cell{Text: fmt.Sprint(n), Tone: tone}
	}
	replicas := "?"
	if r.Replicas != nil {
		replicas = fmt.Sprint(len(r.Replicas))
	}
	cells := []out.Cell{plain(r.Controller), plain(r.Kind), plain(replicas)}
	st := r.Stats
	if st == nil {
		return append(cells, out.Cell{Text: "no answer", Tone: out.Bad})
	}
	perSecond := "-"
	if r.Rate != nil {
		perSecond = fmt.Sprintf("%.1f", *r.Rate)
	}
	oldest := "-"
	if st.OldestReadySeconds > 0 {
		oldest = out.Age(seconds(st.OldestReadySeconds))
	}
	return append(cells, plain(perSecond), plain(fmt.Sprintf("%d/%d", st.Running, st.Workers)),
		plain(fmt.Sprint(st.ReadyLive+st.ReadySecondary+st.ReadyBackground)), plain(fmt.Sprint(st.Delayed)),
		count(st.Failing, out.Bad), count(st.Parked, out.Bad), count(st.Looping, out.Warn),
		count(st.TeardownsOwed, out.Warn), plain(oldest), brakeCell(st.Brake))
}

func brakeCell(b *service.Brake) out.Cell {
	switch {
	case b == nil:
		return out.Cell{Text: "none"}
	case b.Engaged:
		return out.Cell{Text: fmt.Sprintf("holds %d", b.Count), Tone: out.Bad}
	}
	return out.Cell{Text: "off"}
}

// printMore prints lines about one controller.
func (r *row) printMore(s *out.Streams) {
	s.Printf("\n%s\n", s.Paint(out.Bold, printable.Text(r.Controller)))
	if r.Stats == nil {
		whyField(s, "no answer", printable.Message(r.Error))
		whyField(s, "do", "nagi doctor "+printable.Typed(r.Kind, "KIND"))
		return
	}
	whyField(s, "leader", cmp.Or(printable.Text(r.About.Leader), "itself"))
	r.printMembers(s)
	if l := r.Stats.LongestRunning; l != nil {
		whyField(s, "longest", fmt.Sprintf("%s runs, attempt %d%s", printable.Text(l.Key), l.Attempt,
			forSince(l.Since)))
	}
	var slow []string
	for _, one := range r.Stats.Slowest {
		slow = append(slow, fmt.Sprintf("%s %v", printable.Text(one.Key),
			seconds(one.TookSeconds).Round(time.Millisecond)))
	}
	whyField(s, "slowest", strings.Join(slow, ", "))
	for _, p := range r.Stats.Degraded {
		whyField(s, "degraded", s.Paint(out.Bad, printable.Text(p.What))+": "+printable.Message(p.Says))
	}
	if b := r.Stats.Brake; b != nil && b.Engaged {
		whyField(s, "brake", printable.Message(b.Reason)+"; nagi brake "+printable.Typed(r.Kind, "KIND")+" says more")
	}
}

// printMembers prints how replicas share the keys, a line for each.
func (r *row) printMembers(s *out.Streams) {
	sh := r.Stats.Shards
	if sh == nil {
		return
	}
	calm := fmt.Sprintf("%d slots, shared by %d members", sh.Slots, len(sh.Members))
	if len(sh.Members) == 1 {
		calm = fmt.Sprintf("%d slots, all of one member", sh.Slots)
	}
	if sh.Moving > 0 {
		calm += s.Paint(out.Warn, fmt.Sprintf(", %d move", sh.Moving))
	}
	if sh.Unowned > 0 {
		calm += s.Paint(out.Bad, fmt.Sprintf(", %d are nobody's", sh.Unowned))
	}
	whyField(s, "shards", calm)
	for _, m := range sh.Members {
		says := fmt.Sprintf("%d slots, runs %d/%d, %d ready, %d delayed",
			m.Slots, m.Running, m.Workers, m.Ready, m.Delayed)
		if m.Moving > 0 {
			says += s.Paint(out.Warn, fmt.Sprintf(", gives %d away", m.Moving))
		}
		if m.Coming > 0 {
			says += s.Paint(out.Warn, fmt.Sprintf(", gets %d", m.Coming))
		}
		for _, bad := range []struct {
			n    int
			what string
			tone out.Tone
		}{{m.Failing, "failing", out.Bad}, {m.Parked, "parked", out.Bad}, {m.Looping, "looping", out.Warn}} {
			if bad.n > 0 {
				says += ", " + s.Paint(bad.tone, fmt.Sprintf("%d %s", bad.n, bad.what))
			}
		}
		if m.Leading {
			says += ", leads" + forSince(m.LeadingSince)
		}
		if m.Leaving {
			says += s.Paint(out.Warn, ", leaves")
		}
		whyField(s, "member", printable.Text(m.Name)+": "+says)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
