package printable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

var hostile = map[string]string{
	"newline":        "a\nE1125 12:00:00 forged",
	"escape":         "a\x1b[31mred",
	"C1 control":     "a\u009b31m",
	"override":       "a\u202egpj.exe",
	"isolate":        "a\u2066b\u2069",
	"no width":       "a\u200bb\u200d\ufeff",
	"line separator": "a\u2028b",
	"no UTF-8":       "a\xff\xc3(",
	"delete":         "a\x7fb",
	"zero":           "a\x00b",
	"long":           strings.Repeat("x", 5000),
	"long, hostile":  strings.Repeat("\x1b\u202e", 5000),
	"long, wide":     strings.Repeat("界", 5000),
}

// wantShowable fails for a text with anything in it that is not seen as itself, or of more than limit bytes.
func wantShowable(t *testing.T, what, text string, limit int) {
	t.Helper()
	if len(text) > limit {
		t.Errorf("%s: %d bytes, want at most %d: %.80q", what, len(text), limit, text)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%s: not printable: %.200q", what, text)
	}
}

func TestForeignTextIsPrintableAndBounded(t *testing.T) {
	for what, s := range hostile {
		for name, f := range map[string]func(string) string{
			"Text": printable.Text, "Quote": printable.Quote, "Message": printable.Message,
		} {
			limit := printable.TextLimit
			if name == "Message" {
				limit = printable.MessageLimit
			}
			got := f(s)
			wantShowable(t, name+" of "+what, got, limit)
			if name != "Quote" && f(got) != got {
				t.Errorf("%s of %s changes again: %q to %q", name, what, got, f(got))
			}
		}
		err := fmt.Errorf("%s: %w", s, context.Canceled)
		wantShowable(t, "error of "+what, printable.Error(err).Error(), printable.ErrorLimit)
		if !errors.Is(printable.Error(err), context.Canceled) {
			t.Errorf("the cause of %s is lost", what)
		}
	}
}

func TestOrdinaryTextStaysAsItIs(t *testing.T) {
	for _, s := range []string{"", "shop/home", "Größe, 大きさ: 3 µm", `a "quoted" word`, `back\slash`} {
		if printable.Text(s) != s || printable.Message(s) != s {
			t.Errorf("%q became %q and %q", s, printable.Text(s), printable.Message(s))
		}
	}
	err := errors.New("plain")
	if printable.Error(err) != err || printable.Error(nil) != nil {
		t.Error("an ordinary error is another one")
	}
	if got := printable.Quote(`a"b`); got != `"a\"b"` {
		t.Errorf("quoted: %s", got)
	}
	if got := printable.Text("a\nb"); got != `"a\nb"` {
		t.Errorf("text with a newline: %s", got)
	}
}

type stringer string

func (s stringer) String() string { return string(s) }

type marshaler string

func (m marshaler) MarshalLog() any { return string(m) }

type broken struct{}

func (*broken) Error() string { panic("no text") }

// uncomparable is an error that cannot be compared with ==.
type uncomparable []string

func (u uncomparable) Error() string { return strings.Join(u, ",") }

// TestALineOfTheLogIsOneLine whatever is logged, in klog's own format, which writes a value with a newline as a block.
func TestALineOfTheLogIsOneLine(t *testing.T) {
	for what, s := range hostile {
		for kind, v := range map[string]any{
			"string": s, "error": errors.New(s), "stringer": stringer(s), "marshaler": marshaler(s), "bytes": []byte(s),
			"strings": []string{"fine", s}, "map": map[string]string{s: s}, "struct": struct{ A *string }{&s},
			"object": klog.ObjectRef{Name: s, Namespace: s}, "uncomparable": uncomparable{s},
		} {
			var out bytes.Buffer
			logger := printable.Logger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))))
			logger.WithName(s).WithValues("with", v).Info(s, "value", v)
			logger.WithValues("with", v).Error(errors.New(s), s, "value", v)
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != 2 {
				t.Errorf("%s as %s: %d lines, want 2: %q", what, kind, len(lines), out.String())
				continue
			}
			for _, line := range lines {
				wantShowable(t, what+" as "+kind, line, 4*printable.ErrorLimit)
			}
		}
	}
}

func TestLoggerKeepsWhatTheSinkKnows(t *testing.T) {
	var lines []string
	logger := printable.Logger(funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) },
		funcr.Options{LogCaller: funcr.All, Verbosity: 1}))
	logger.WithName("web").WithValues("kind", "Site", "n", 3).V(1).Info("Reconciling", "key", "home")
	logger.V(2).Info("Not wanted")
	logger.Error(nil, "Failed", "err", (*broken)(nil))
	if len(lines) != 2 || !strings.Contains(lines[0], `"web`) && !strings.HasPrefix(lines[0], "web ") ||
		!strings.Contains(lines[0], `"kind"="Site" "n"=3 "key"="home"`) ||
		!strings.Contains(lines[0], `"file"="printable_test.go"`) || !strings.Contains(lines[1], `"error"=null`) ||
		!strings.Contains(lines[1], `"file"="printable_test.go"`) {
		t.Errorf("logged %q", lines)
	}
	if printable.Logger(logger).GetSink() != logger.GetSink() {
		t.Error("a logger is wrapped twice")
	}
	printable.Logger(logr.Discard()).Info("Nothing")
	printable.Logger(logr.Logger{}).Info("Nothing")
}

// TestAllocationsOfALineThatIsNotWanted: V levels are in hot paths.
func TestAllocationsOfALineThatIsNotWanted(t *testing.T) {
	plain := funcr.New(func(_, _ string) {}, funcr.Options{})
	measure := func(logger logr.Logger, level int) float64 {
		return testing.AllocsPerRun(1000, func() { logger.V(level).Info("Event", "n", 3) })
	}
	clean := printable.Logger(plain)
	if raw, got := measure(plain, 1), measure(clean, 1); got > raw {
		t.Errorf("a line that is not wanted: %v allocations, %v without", got, raw)
	}
	if raw, got := measure(plain, 0), measure(clean, 0); got > raw {
		t.Errorf("an ordinary line: %v allocations, %v without", got, raw)
	}
}

type itself struct{ A int }

func (i itself) MarshalLog() any { return i }

type panics struct{ A int }

func (panics) MarshalLog() any { panic("no log") }

type panicsInJSON struct{ A int }

func (panicsInJSON) MarshalJSON() ([]byte, error) { panic("no JSON") }

// TestAValueThatMisbehavesEndsNobody: a line of the log is no reason to crash.
func TestAValueThatMisbehavesEndsNobody(t *testing.T) {
	for name, v := range map[string]any{
		"panics": panics{1}, "panics in JSON": panicsInJSON{1}, "nil": (*panics)(nil), "marshals as itself": itself{1},
	} {
		var lines []string
		logger := printable.Logger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: %v", name, p)
				}
			}()
			logger.Info("Hello", "value", v)
		}()
		if len(lines) != 1 || !strings.Contains(lines[0], "Hello") {
			t.Errorf("%s: logged %q", name, lines)
		}
	}
}
