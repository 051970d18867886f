package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/screen"
	"github.com/nagi-runtime/nagi/service"
	"github.com/spf13/cobra"
)

func (t *tool) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [KIND]",
		Short: "Show the controllers: who leads, how fast, what waits and what fails",
		Long: `top shows the controllers of all kinds, or of one: kind, replicas, reconciles in a second between two
looks, running reconciles of all workers, keys that are ready, delayed, failing, parked and looping, deletes that are
owed, how long the oldest ready key has waited, and the brake; then the leader, the members that share the keys with
their slots (where there are shards), the reconcile that has run for longest, the slowest keys of the last ten minutes,
and what is degraded.

On a terminal it is drawn again every --interval, until q or Ctrl-C. Else, and with --once, it looks twice and prints.`,
		Example: `  nagi top --once
  nagi top websites --interval 1s
  nagi top -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.interval < 100*time.Millisecond {
				return usage(errors.New("an --interval of 100ms or more is needed"))
			}
			s, err := t.connect()
			if err != nil {
				return err
			}
			var k *kinds.Kind
			if len(args) > 0 || t.plain.Bucket != "" {
				a, err := s.target(cmd.Context(), args, "")
				if err != nil {
					return err
				}
				if a.key != "" {
					return usage(fmt.Errorf("%s names a key: nagi why %s says what becomes of it", a, a))
				}
				k = a.kind
			}
			all, err := s.askedOf(cmd.Context(), k)
			if err != nil {
				return err
			}
			return s.top(cmd.Context(), all, f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "look again and again also where the output is no terminal")
	flags.BoolVar(&f.once, "once", false, "print once, also on a terminal")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "how long between two looks")
	oneOf(cmd, &f.output, "table", "json", "yaml")
	return cmd
}

type topFlags struct {
	watch, once bool
	interval    time.Duration
	output      string
}

// row is a controller as top shows it.
type row struct {
	Controller string         `json:"controller"`
	Kind       string         `json:"kind"`
	About      *service.About `json:"about,omitempty"`
	Stats      *service.Stats `json:"stats,omitempty"`
	// Replicas are the processes that answer for it, those that stand by among them; nil if that could not be asked.
	Replicas []replica `json:"replicas"`
	// Rate is how many reconciles there were in a second since the look before; nil at the first look, and where the
	// leader is another one.
	Rate  *float64 `json:"reconcilesPerSecond,omitempty"`
	Error string   `json:"error,omitempty"` // it did not answer

	at  time.Time
	err error
}

func (s *session) top(ctx context.Context, all []asked, f topFlags) error {
	if len(all) == 0 {
		return s.nothingToAsk(ctx)
	}
	var last []*row
	look := func(ctx context.Context) []*row { last = s.look(ctx, all, last); return last }
	if s.t.Terminal && !f.once && f.output == "table" {
		return screen.Show(ctx, &s.t.Streams, f.interval, func(ctx context.Context, to *out.Streams) error {
			to.Printf("%s  %s  %s\n\n", to.Paint(out.Bold, "nagi top"), time.Now().Format(time.TimeOnly),
				to.Paint(out.Faint, fmt.Sprintf("every %v, q ends", f.interval)))
			return printTop(to, look(ctx))
		})
	}
	look(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.interval):
		}
		rows := look(ctx)
		to := &s.t.Streams
		if err := printAs(to, f.output, rows, func() error { return printTop(to, rows) }); err != nil {
			return err
		}
		if !f.watch || f.once {
			return s.endOfTop(ctx, rows)
		}
		s.t.Printf("\n")
	}
}

// endOfTop is how top ends: all is said in the table.
func (s *session) endOfTop(ctx context.Context, rows []*row) error {
	for _, r := range rows {
		if r.err == nil {
			return nil
		}
	}
	return &coded{code: codeOf(ctx, rows[0].err), err: rows[0].err, silent: true}
}

// look asks all controllers, and for their replicas.
func (s *session) look(ctx context.Context, all []asked, before []*row) []*row {
	replicas := make(chan []replica, 1)
	go func() { replicas <- s.replicas(ctx) }()
	rows := make([]*row, len(all))
	eachAsked(all, func(i int, c asked) {
		r := &row{Controller: c.Name, Kind: c.kind.Name()}
		rows[i] = r
		r.About, r.Stats = &service.About{}, &service.Stats{}
		if r.err = c.Do(ctx, ask.Read, "stats", "", nil, r.Stats); r.err == nil {
			r.at = time.Now()
			r.err = c.Do(ctx, ask.Read, "about", "", nil, r.About)
		}
		if r.err != nil {
			r.About, r.Stats, r.Error = nil, nil, r.err.Error()
		}
	})
	there := <-replicas
	for i, r := range rows {
		r.Replicas = replicasOf(there, all[i])
		if i < len(before) {
			r.Rate = rate(before[i], r)
		}
	}
	return rows
}

// rate is how many reconciles there were in a second between two looks at one leader.
func rate(a, b *row) *float64 {
	if a.err != nil || b.err != nil || a.About.Leader != b.About.Leader || b.Stats.Reconciles < a.Stats.Reconciles {
		return nil
	}
	seconds := b.at.Sub(a.at).Seconds()
	if seconds <= 0 {
		return nil
	}
	perSecond := float64(b.Stats.Reconciles-a.Stats.Reconciles) / seconds
	return &perSecond
}
