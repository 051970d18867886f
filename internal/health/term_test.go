package health_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nagi-runtime/nagi/internal/health"
)

// TestWhatIsReportedUnderATermGoesWithIt, and what was reported last under no term, or by the next one, stays.
func TestWhatIsReportedUnderATermGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		var told, left told
		ctx := logged(t, &lines)
		b := health.New(told.add)
		b.OnLeave(func(ctx context.Context, name string) { left.add(ctx, name, nil) })
		stop := running(ctx, b)
		defer stop()
		first, second := b.NewTerm(), b.NewTerm()
		records := b.Reporter("records")
		records.Failed(first.Of(ctx), errAway)
		b.Set(first.Of(ctx), "brake", errAway)
		b.Set(first.Of(ctx), "mended", errAway)
		b.Set(first.Of(ctx), "mended", nil)
		b.Set(ctx, "pages", errAway)
		b.Set(first.Of(ctx), "both", errAway)
		b.Set(ctx, "both", errAway)
		first.End(ctx)
		first.End(ctx)
		if d := b.Degraded(); len(d) != 2 || d["pages"] == nil || d["both"] == nil {
			t.Errorf("degraded: %v", d)
		}
		synctest.Wait()
		left.want(t, "brake works", "records works")
		told.want(t, "records: away", "brake: away", "mended: away", "mended works", "pages: away", "both: away")
		if all := strings.Join(lines, "\n"); strings.Count(all, "works again") != 1 ||
			strings.Count(all, "reported here no more") != 2 {
			t.Errorf("the log says %s", all)
		}

		records.Failed(second.Of(ctx), errAway)
		records.Failed(first.Of(ctx), errAway) // a straggler
		records.Healthy(first.Of(ctx))
		b.Set(first.Of(ctx), "late", errAway)
		if d := b.Degraded(); len(d) != 3 || d["records"] == nil || d["late"] != nil {
			t.Errorf("in the next term degraded: %v", d)
		}
		records.Healthy(second.Of(ctx))
		if d := b.Degraded(); d["records"] != nil {
			t.Errorf("mended in the next term, degraded: %v", d)
		}
		b.Set(second.Of(ctx), "brake", errAway)
		b.Leave(first.Of(ctx), "brake", func() error { return errAway }) // who leaves says what is true now
		second.End(ctx)
		if d := b.Degraded(); len(d) != 2 {
			t.Errorf("degraded: %v", d)
		}
	})
}
