package natsinformer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsExpectedInVainIsReported, once, until it is met; what is met in time is not, and another reason stays.
func TestWhatIsExpectedInVainIsReported(t *testing.T) {
	errLate, errAway := errors.New("late"), errors.New("away")
	for name, test := range map[string]struct {
		meanwhile func(ctx context.Context, h *health)
		want      error // what is reported
		stays     error // what is left of that when it is met
	}{
		"in vain":        {func(context.Context, *health) {}, errLate, nil},
		"met":            {func(ctx context.Context, h *health) { h.met(ctx) }, nil, nil},
		"forgotten":      {func(_ context.Context, h *health) { h.forget() }, nil, nil},
		"expected twice": {func(ctx context.Context, h *health) { h.expect(ctx, time.Hour, errAway) }, errLate, nil},
		"met, and expected anew": {func(ctx context.Context, h *health) {
			h.met(ctx)
			h.expect(ctx, time.Minute, errAway)
		}, errAway, nil},
		"another reason is known": {func(ctx context.Context, h *health) { h.failed(ctx, errAway) }, errAway, errAway},
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
				h.met(t.Context())
				if got := h.get().Err; !errors.Is(got, test.stays) {
					t.Errorf("when it is met: %v, want %v", got, test.stays)
				}
			})
		})
	}
}

// TestADoubtHidesNoReason: the list that the informer makes for it fails for the same one.
func TestADoubtHidesNoReason(t *testing.T) {
	denied := errors.New("denied")
	told := 0
	h := &health{bucket: "b", onError: func(error) { told++ }}
	h.failed(t.Context(), denied)
	h.failed(t.Context(), errDoubted)
	if got := h.get().Err; !errors.Is(got, denied) || told != 1 {
		t.Errorf("it tells %v, and told %d times", got, told)
	}
	h.healed(t.Context())
	h.failed(t.Context(), errDoubted)
	if got := h.get().Err; !errors.Is(got, errDoubted) {
		t.Errorf("a doubt alone: it tells %v", got)
	}
}
