package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/klog/v2"
)

// logLines keeps what a logger wrote.
type logLines struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (l *logLines) logger() logr.Logger {
	return funcr.NewJSON(func(line string) {
		values := map[string]any{}
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			values["broken"] = line
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, values)
	}, funcr.Options{Verbosity: 1})
}

// with returns the lines of a message, in order.
func (l *logLines) with(message string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for _, line := range l.lines {
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// logging runs a controller with a logger in Run's context.
type logging struct {
	*Controller[*site]
	logger logr.Logger
}

func (l logging) Run(ctx context.Context) error {
	return l.Controller.Run(klog.NewContext(ctx, l.logger))
}

func TestLoggerOfAReconcileTellsWhatItIsFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		var lines logLines
		var seen calls
		c, err := New("web", sites, seen.reconciler(func(ctx context.Context, req Request) (Result, error) {
			klog.FromContext(ctx).Info("Reconciling")
			if seen.count(req.Key) == 1 {
				return Result{}, errUnwell
			}
			return Result{}, nil
		}), WithBackoff(time.Millisecond, time.Millisecond), Watches(pages,
			func(ctx context.Context, _ *page) ([]string, error) {
				klog.FromContext(ctx).Info("Mapping")
				return nil, nil
			}))
		must(t, err)
		w.run(logging{c, lines.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		must(t, pages.Create(t.Context(), newSite("page", "one")))
		natstest.Eventually(t, "two reconciles and a mapping are logged", func() bool {
			return len(lines.with("Reconciling")) == 2 && len(lines.with("Mapping")) == 1
		})
		ids := map[any]bool{}
		for i, line := range lines.with("Reconciling") {
			operations := []string{"Put", "Put|Retry"}[i]
			if line["controller"] != "web" || line["kind"] != "Site" || line["key"] != "home" ||
				line["operations"] != operations {
				t.Errorf("a reconcile for %s logs %v", operations, line)
			}
			ids[line["reconcileID"]] = true
		}
		if len(ids) != 2 || ids[nil] {
			t.Errorf("the ids of two reconciles are %v, want two", ids)
		}
		if line := lines.with("Mapping")[0]; line["controller"] != "web" || line["kind"] != "Site" {
			t.Errorf("a mapper logs %v", line)
		}
		failures := lines.with("Reconcile failed")
		if len(failures) != 1 {
			t.Fatalf("%d lines for one failure", len(failures))
		}
		if line := failures[0]; line["controller"] != "web" || line["kind"] != "Site" || line["key"] != "home" ||
			line["error"] != errUnwell.Error() || line["attempt"] != 1.0 {
			t.Errorf("a failure logs %v", line)
		}
	})
}

type ownKey struct{}

// withAnotherLogger runs a controller with a second logger in Run's context, under a key of the user's.
type withAnotherLogger struct {
	logging
	another logr.Logger
}

func (l withAnotherLogger) Run(ctx context.Context) error {
	return l.logging.Run(context.WithValue(ctx, ownKey{}, l.another))
}

// TestOnlyTheContextsLoggerIsTheReconciles: a logger that the user keeps in Run's context under another key stays as it
// is. One reconcile has one logger, for klog and for slog.
func TestOnlyTheContextsLoggerIsTheReconciles(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var lines, others logLines
		c, err := New("web", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			ctx.Value(ownKey{}).(logr.Logger).Info("Reconciling")
			klog.FromContext(ctx).Info("Reconciling")
			logr.FromContextAsSlogLogger(ctx).Info("Reconciling")
			return Result{}, nil
		}))
		must(t, err)
		w.run(withAnotherLogger{logging{c, lines.logger()}, others.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "a reconcile is logged", func() bool { return len(lines.with("Reconciling")) == 2 })
		if got := others.with("Reconciling"); len(got) != 1 || got[0]["key"] != nil || got[0]["controller"] != nil {
			t.Errorf("the user's own logger logs %v", got)
		}
		first, second := lines.with("Reconciling")[0], lines.with("Reconciling")[1]
		if first["key"] != "home" || second["key"] != "home" || first["reconcileID"] != second["reconcileID"] {
			t.Errorf("the reconcile logs %v and %v, want the same values", first, second)
		}
	})
}

func TestLogConstructorReplacesTheLogger(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var lines logLines
		var mu sync.Mutex
		var asked []Request
		c, err := New("web", sites, ReconcilerFunc(func(ctx context.Context, _ Request) (Result, error) {
			klog.FromContext(ctx).Info("Reconciling")
			return Result{}, nil
		}), WithLogConstructor(func(base logr.Logger, req Request) logr.Logger {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, req)
			return base.WithValues("tenant", "t-"+req.Key)
		}))
		must(t, err)
		w.run(logging{c, lines.logger().WithValues("process", "p1")})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "a reconcile is logged", func() bool { return len(lines.with("Reconciling")) == 1 })
		line := lines.with("Reconciling")[0]
		if line["process"] != "p1" || line["controller"] != "web" || line["kind"] != "Site" ||
			line["tenant"] != "t-home" || line["reconcileID"] != nil {
			t.Errorf("logs %v, want what is the base's and what was added, and no more", line)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []Request{{Key: "home", Operations: operation.Of(OperationPut)}}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
	})
}

func TestPanicOfACallbackIsLoggedWithItsStack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		var lines logLines
		c, err := New("web", sites, ReconcilerFunc(func(context.Context, Request) (Result, error) {
			return Result{}, errors.New("once")
		}),
			WithBackoff(time.Hour, time.Hour),
			WithErrorPolicy(func(string, error, int) Result {
				panic("policy")
			}), WithOnResult(func(ReconcileResult) { panic("result") }),
			WithLogConstructor(func(logr.Logger, Request) logr.Logger { panic("log") }))
		must(t, err)
		w.run(logging{c, lines.logger()})
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		delayed(t, c, 1)
		natstest.Eventually(t, "three panics are logged", func() bool {
			return len(lines.with("Callback panicked")) == 3
		})
		told := map[any]bool{}
		for _, line := range lines.with("Callback panicked") {
			if text, _ := line["error"].(string); !strings.Contains(text, "log_test.go") {
				t.Errorf("no stack in %v", line)
			}
			told[line["callback"]] = true
		}
		if !told["WithErrorPolicy"] || !told["WithOnResult"] || !told["WithLogConstructor"] {
			t.Errorf("told of %v, want all three", told)
		}
	})
}
