package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

var errWrong = errors.New("wrong")

func TestAKeyIsReportedOnceUntilItIsMended(t *testing.T) {
	var r notify.Reports
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	r.Mended("home")
	for range 100 {
		r.Log(ctx, errWrong, "Invalid", "home")
		r.Log(ctx, errWrong, "Malformed", strings.Repeat("\x1b", 5000))
	}
	if len(lines) != 2 || strings.Contains(lines[1], "\x1b") || len(lines[1]) > printable.MessageLimit {
		t.Errorf("%d lines: %.2000q", len(lines), lines)
	}
	r.Mended("home")
	r.Log(ctx, errWrong, "Invalid", "home")
	if len(lines) != 3 {
		t.Errorf("%d lines after it was mended, want 3", len(lines))
	}
}

func TestLinesAreLimitedAndWhatIsLeftOutIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r notify.Reports
		var lines []string
		ctx := klog.NewContext(t.Context(),
			funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		const keys, seconds = 100_000, 20
		for i := range keys {
			r.Log(ctx, errWrong, "Invalid", fmt.Sprint(i))
			time.Sleep(seconds * time.Second / keys)
		}
		reports, leftOut := 0, 0
		for _, line := range lines {
			if _, count, ok := strings.Cut(line, `"leftOut"=`); ok {
				n := 0
				_, err := fmt.Sscan(count, &n)
				if err != nil {
					t.Fatal(line)
				}
				leftOut += n
			} else {
				reports++
			}
		}
		most := notify.LinesAtOnce + notify.LinesPerSecond*(seconds+1)
		if reports < notify.LinesPerSecond*seconds || reports > most || len(lines) > most+seconds {
			t.Errorf("%d reports in %d lines, want at most %d", reports, len(lines), most)
		}
		if leftOut < keys/3 || leftOut > keys-reports {
			t.Errorf("%d left out as the log says, of %d with %d reports", leftOut, keys, reports)
		}
	})
}

func TestAKeyThatStaysWrongRestsBetweenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r notify.Reports
		look := func(wantRest time.Duration, wantFirst bool) {
			t.Helper()
			if rest, first := r.Look("home"); rest != wantRest || first != wantFirst {
				t.Errorf("rest %v, first %v; want %v, %v", rest, first, wantRest, wantFirst)
			}
		}
		look(0, false) // nothing is known of it
		r.Log(klog.NewContext(t.Context(), klog.Logger{}), errWrong, "Invalid", "home")
		look(0, true)
		look(notify.Pause, false)
		time.Sleep(notify.Pause / 4)
		look(notify.Pause*3/4, false)
		time.Sleep(notify.Pause)
		look(0, false)
		look(notify.Pause, false)
		r.Mended("home")
		look(0, false)
	})
}
