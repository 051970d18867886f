package natsinformer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsExpectedInVainIsReported, once; what is met in time is not, and another reason stays.
func TestWhatIsExpectedInVainIsReported(t *testing.T) {
	errLate, errAway := errors.New("late"), errors.New("away")
	for name, test := range map[string]struct {
		meanwhile func(ctx context.Context, h *health)
		want      error
	}{
		"in vain":                   {func(context.Context, *health) {}, errLate},
		"met":                       {func(_ context.Context, h *health) { h.met() }, nil},
		"expected twice":            {func(ctx context.Context, h *health) { h.expect(ctx, time.Hour, errAway) }, errLate},
		"another reason is known":   {func(ctx context.Context, h *health) { h.failed(ctx, errAway) }, errAway},
		"met, and expected anew":    {func(ctx context.Context, h *health) { h.met(); h.expect(ctx, time.Minute, errAway) }, errAway},
		"met after it was reported": {func(_ context.Context, h *health) { time.Sleep(time.Minute); h.met() }, errLate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				h := &health{bucket: "b", onError: func(error) { told++ }}
				h.expect(t.Context(), time.Second, errLate)
				time.Sleep(500 * time.Millisecond)
				test.meanwhile(t.Context(), h)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := h.get().Err; !errors.Is(got, test.want) || (test.want == nil) != (told == 0) || told > 1 {
					t.Errorf("got %v, told %d times", got, told)
				}
				h.healed(t.Context())
				h.met()
				if h.get().Err != nil {
					t.Error("it is not well")
				}
			})
		})
	}
}
