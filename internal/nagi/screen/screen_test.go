package screen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
)

func TestAFrameIsDrawnAgainAndTheTerminalIsAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := &out.Streams{Out: &b, Terminal: true, Columns: 8}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n := 0
		if err := Show(ctx, s, 2*time.Second, func(_ context.Context, s *out.Streams) error {
			n++
			s.Printf("frame %d is long\nend\n", n)
			return nil
		}); err != nil || n != 3 {
			t.Errorf("%v, after %d frames", err, n)
		}
		want := begin
		for i := range 3 {
			want += fmt.Sprintf("%sframe %d \x1b[K\r\nend\x1b[K\x1b[J", home, i+1)
		}
		want += end
		if got := b.String(); got != want {
			t.Errorf("drawn\n%q\nwant\n%q", got, want)
		}
	})
}

func TestQEndsTheScreen(t *testing.T) {
	for _, key := range []string{"q", "Q", "\x03", "xq"} {
		synctest.Test(t, func(t *testing.T) {
			in, press := io.Pipe()
			s := &out.Streams{In: in, Out: io.Discard, Terminal: true, Interactive: true}
			go func() {
				time.Sleep(time.Minute)
				io.WriteString(press, key)
			}()
			began := time.Now()
			if err := Show(t.Context(), s, time.Second, func(context.Context, *out.Streams) error { return nil }); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("%q: it ended after %v", key, took)
			}
		})
	}
}

func TestAFrameThatFailsEndsTheScreen(t *testing.T) {
	var b bytes.Buffer
	broken := errors.New("broken")
	err := Show(t.Context(), &out.Streams{Out: &b}, time.Second, func(context.Context, *out.Streams) error { return broken })
	if !errors.Is(err, broken) || !strings.HasSuffix(b.String(), end) {
		t.Errorf("%v, %q", err, b.String())
	}
}

func TestALineIsCutByWhatIsSeenOfIt(t *testing.T) {
	for line, want := range map[string]string{
		"short": "short", "größer": "größe", "\x1b[31mred\x1b[0m": "\x1b[31mred\x1b[0m",
		"\x1b[31mred and more\x1b[0m": "\x1b[31mred a\x1b[0m",
	} {
		if got := Cut(line, 5); got != want {
			t.Errorf("%q is cut to %q, want %q", line, got, want)
		}
	}
	if got := Cut("any", 0); got != "any" {
		t.Errorf("without a width: %q", got)
	}
}
