package health_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/health"
	"k8s.io/klog/v2"
)

var errAway = errors.New("away")

// told records what a callback was told.
type told struct {
	mu   sync.Mutex
	news []string
}

func (t *told) add(_ context.Context, name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := name + " works"
	if err != nil {
		text = name + ": " + err.Error()
	}
	t.news = append(t.news, text)
}

func (t *told) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.news)
}

func (t *told) want(tt *testing.T, want ...string) {
	tt.Helper()
	if got := t.all(); !slices.Equal(got, want) {
		tt.Errorf("told %q, want %q", got, want)
	}
}

// logged returns a context whose log goes to lines.
func logged(t *testing.T, lines *[]string) context.Context {
	logger := funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})
	return klog.NewContext(t.Context(), logger)
}

// quiet is a context that logs nothing.
func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

// running runs the board until stop is called.
func running(ctx context.Context, b *health.Board) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestEachChangeIsToldAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		var lines []string
		b, ctx := health.New(got.add), logged(t, &lines)
		stop := running(ctx, b)
		defer stop()
		b.Set(ctx, "pages", nil)
		b.Set(ctx, "pages", errAway)
		b.Set(ctx, "pages", errors.New("away"))
		b.Set(ctx, "pages", errors.New("no rights"))
		b.Set(ctx, "other", errAway)
		b.Set(ctx, "pages", nil)
		b.Set(ctx, "pages", nil)
		synctest.Wait()
		got.want(t, "pages: away", "pages: no rights", "other: away", "pages works")
		if len(lines) != 4 || !strings.Contains(lines[0], "Source degraded") ||
			!strings.Contains(lines[3], "Source works again") {
			t.Errorf("logged %q, want each change once", lines)
		}
	})
}

func TestDegradedIsWhatDoesNotWorkNow(t *testing.T) {
	b, ctx := health.New(nil), quiet(t)
	if all := b.Degraded(); all != nil {
		t.Errorf("%v on a new board", all)
	}
	b.Set(ctx, "pages", errAway)
	b.Set(ctx, "other", errAway)
	b.Set(ctx, "other", nil)
	all := b.Degraded()
	if len(all) != 1 || !errors.Is(all["pages"], errAway) {
		t.Errorf("degraded %v, want the pages", all)
	}
	delete(all, "pages")
	if len(b.Degraded()) != 1 {
		t.Error("the caller's change of the map changed the board")
	}
}

func TestOfTwoReportsAtOnceTheNewestIsToldLast(t *testing.T) {
	var got told
	b, ctx := health.New(got.add), quiet(t)
	stop := running(ctx, b)
	var parts health.Errors
	for range 2000 {
		var reports sync.WaitGroup
		for _, part := range []string{"documents", "records"} {
			reports.Go(func() {
				for _, err := range []error{errAway, nil} {
					parts.Set(part, err)
					b.Change(ctx, "pages", parts.Err)
				}
			})
		}
		reports.Wait()
		if all := b.Degraded(); len(all) != 0 {
			t.Fatalf("both work, but the board has %v", all)
		}
	}
	stop()
	if all := got.all(); all[len(all)-1] != "pages works" {
		t.Errorf("told %q last", all[len(all)-1])
	}
}

func TestNobodyIsAskedWhileAnotherAnswerIsNotNotedYet(t *testing.T) {
	b, ctx := health.New(nil), quiet(t)
	var answered atomic.Bool
	var second sync.WaitGroup
	b.Change(ctx, "pages", func() error {
		second.Go(func() {
			b.Change(ctx, "pages", func() error {
				if !answered.Load() {
					t.Error("asked although an answer is on its way, which may be older and would be noted last")
				}
				return nil
			})
		})
		for range 1000 {
			runtime.Gosched()
		}
		answered.Store(true)
		return errAway
	})
	second.Wait()
	if all := b.Degraded(); all != nil {
		t.Errorf("degraded %v, want the newest answer", all)
	}
}

func TestTheCallbackHoldsUpNobodyAndIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		leave := make(chan struct{})
		var b *health.Board
		b = health.New(func(ctx context.Context, name string, err error) {
			b.Degraded() // it may use the board
			<-leave
			got.add(ctx, name, err)
		})
		ctx := quiet(t)
		stop := running(ctx, b)
		defer stop()
		b.Set(ctx, "pages", errAway)
		synctest.Wait() // the callback is in its first call
		b.Set(ctx, "pages", nil)
		if n := len(b.Degraded()); n != 0 {
			t.Errorf("%d degraded, want none while the callback is busy", n)
		}
		close(leave)
		synctest.Wait()
		got.want(t, "pages: away", "pages works")
	})
}

func TestWhatIsKnownAtTheEndIsStillTold(t *testing.T) {
	type key struct{}
	for range 50 { // Run may notice first either that there is news or that ctx has ended
		toldAtTheEnd(t, key{})
	}
}

func toldAtTheEnd(t *testing.T, key any) {
	t.Helper()
	var got told
	b := health.New(func(ctx context.Context, name string, err error) {
		if ctx.Err() != nil || ctx.Value(key) != "kept" {
			t.Errorf("the callback's context: %v, value %v; want a live one with the values of Run's", ctx.Err(),
				ctx.Value(key))
		}
		got.add(ctx, name, err)
	})
	b.Set(quiet(t), "pages", errAway)
	b.Set(quiet(t), "pages", nil)
	ended, cancel := context.WithCancel(context.WithValue(t.Context(), key, "kept"))
	cancel()
	b.Run(ended)
	got.want(t, "pages: away", "pages works")
}

func TestAReporterThatIsHealthyTakesNoLock(t *testing.T) {
	b, ctx := health.New(nil), quiet(t)
	r := b.Reporter("records")
	r.Failed(ctx, errAway)
	r.Healthy(ctx)
	done := make(chan struct{})
	b.Change(ctx, "pages", func() error { // which holds the lock
		go func() {
			defer close(done)
			r.Healthy(ctx)
			r.Report(ctx, nil)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("it waits for the lock")
		}
		return nil
	})
	<-done
}

func TestAReporterReportsFailuresAndThatTheyAreOver(t *testing.T) {
	var lines []string
	b, ctx := health.New(nil), logged(t, &lines)
	r := b.Reporter("records")
	for range 2 {
		r.Failed(ctx, errAway)
		if err := b.Degraded()["records"]; !errors.Is(err, errAway) {
			t.Errorf("degraded by %v, want the reason", err)
		}
		r.Healthy(ctx)
		if all := b.Degraded(); all != nil {
			t.Errorf("degraded %v, want nothing", all)
		}
		r.Healthy(ctx)
		r.Report(ctx, errAway)
		r.Report(ctx, nil)
	}
	if len(lines) != 8 {
		t.Errorf("logged %q, want eight changes", lines)
	}
}

func TestErrorsAreJoinedInTheOrderOfTheirParts(t *testing.T) {
	var e health.Errors
	if err := e.Err(); err != nil {
		t.Errorf("%v at the start", err)
	}
	parts := strings.Split("hgfedcbaz", "")
	for _, part := range parts {
		e.Set(part, errors.New(part))
	}
	e.Set("z", nil)
	if got := e.Err().Error(); got != strings.Join(strings.Split("abcdefgh", ""), "\n") {
		t.Errorf("joined %q", got)
	}
	for _, part := range append(parts, "never") {
		e.Set(part, nil)
	}
	if err := e.Err(); err != nil {
		t.Errorf("%v in the end", err)
	}
}

// TestAProblemSaysSinceWhen it is one, also when its reason changes.
func TestAProblemSaysSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := health.New(nil), quiet(t)
		since := func() time.Time {
			problem, ok := errors.AsType[*health.Problem](b.Degraded()["pages"])
			if !ok {
				t.Fatalf("degraded %v", b.Degraded())
			}
			return problem.Since
		}
		began := time.Now()
		b.Set(ctx, "pages", errAway)
		time.Sleep(time.Minute)
		b.Set(ctx, "pages", errors.New("another reason"))
		if got := since(); !got.Equal(began) {
			t.Errorf("since %v, want %v", got, began)
		}
		b.Set(ctx, "pages", nil)
		b.Set(ctx, "pages", errAway)
		if got := since(); !got.Equal(began.Add(time.Minute)) {
			t.Errorf("after it worked: since %v", got)
		}
		// Who reports it may know better.
		b.Set(ctx, "pages", &health.Problem{Since: began.Add(-time.Hour), Err: errAway})
		if got := since(); !got.Equal(began.Add(-time.Hour)) {
			t.Errorf("reported since an hour ago: since %v", got)
		}
	})
}

// TestTheBoardShowsCleanText: what a server, or somebody's document, says is part of many errors.
func TestTheBoardShowsCleanText(t *testing.T) {
	var lines []string
	b, ctx := health.New(nil), logged(t, &lines)
	hostile := fmt.Errorf("key %s: %w", strings.Repeat("\x1b[31m\n\u202e", 10_000), errAway)
	b.Set(ctx, "pages", hostile)
	b.Set(ctx, "sites", &health.Problem{Since: time.Now(), Err: hostile})
	for name, err := range b.Degraded() {
		if text := err.Error(); len(text) > 4096 || strings.ContainsAny(text, "\x1b\n\u202e") || !errors.Is(err, errAway) {
			t.Errorf("%s: %d bytes: %.200q", name, len(text), text)
		}
	}
	if len(lines) != 2 || len(lines[0]) > 8192 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestWhatATermLeavesIsNotSaidToWorkAgain: it is the next leader's to report. The callback is told that it is over
// here.
func TestWhatATermLeavesIsNotSaidToWorkAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		var told told
		ctx := logged(t, &lines)
		b := health.New(told.add)
		b.Set(ctx, "brake", errAway)
		b.Leave(ctx, "brake", func() error { return nil })
		b.Leave(ctx, "brake", func() error { return nil })
		b.Set(ctx, "teardown", errAway)
		b.Leave(ctx, "teardown", func() error { return errAway }) // another term has reported already
		if all := strings.Join(lines, "\n"); strings.Contains(all, "works again") || len(lines) != 3 {
			t.Errorf("the log says %s", all)
		}
		if d := b.Degraded(); len(d) != 1 || d["teardown"] == nil {
			t.Errorf("degraded: %v", d)
		}
		ended, end := context.WithCancel(ctx)
		end()
		b.Run(ended)
		told.want(t, "brake: away", "brake works", "teardown: away")
	})
}

// TestAChangingExampleIsNoNews: of many keys that fail for one reason, each report names another.
func TestAChangingExampleIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		b, ctx := health.New(nil), logged(t, &lines)
		for i := range 20 {
			b.Set(ctx, "records", fmt.Errorf("writing key %q of bucket %q: no room (%d of them)", fmt.Sprint("k", i), "sites", i))
		}
		if len(lines) != 1 {
			t.Errorf("told %d times: %q", len(lines), lines)
		}
		if err := b.Degraded()["records"]; err == nil || !strings.Contains(err.Error(), `"k19"`) {
			t.Errorf("degraded by %v, want the last example", err)
		}
	})
}
