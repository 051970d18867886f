package printable

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Context returns a context whose logger is that of ctx, made safe by Logger.
func Context(ctx context.Context) context.Context {
	return klog.NewContext(ctx, Logger(klog.FromContext(ctx)))
}

// Logger returns a logger that cleans and bounds what it is given before the sink sees it: the message, and each
// string, error, fmt.Stringer and other text among keys and values. Names, values and call depth mean what they mean to
// the sink. A line that the sink does not want costs nothing more. It returns a logger that it made as it is.
func Logger(logger logr.Logger) logr.Logger {
	inner := logger.GetSink()
	if _, already := inner.(*sink); already || inner == nil {
		return logger
	}
	if deeper, ok := inner.(logr.CallDepthLogSink); ok {
		inner = deeper.WithCallDepth(1) // the method of sink that calls it
	}
	return logger.WithSink(&sink{inner})
}

// sink stands before the sink of another logger.
type sink struct{ inner logr.LogSink }

var (
	_ logr.CallDepthLogSink       = (*sink)(nil)
	_ logr.CallStackHelperLogSink = (*sink)(nil)
)

// Init does nothing: the sink behind was told when its own logger was made.
func (*sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool { return s.inner.Enabled(level) }

// Info implements logr.LogSink.
func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	s.helper()()
	s.inner.Info(level, Message(msg), values(keysAndValues)...)
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	s.helper()()
	s.inner.Error(Error(err), Message(msg), values(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return &sink{s.inner.WithValues(values(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink { return &sink{s.inner.WithName(Text(name))} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.inner.(logr.CallDepthLogSink); ok {
		return &sink{deeper.WithCallDepth(depth)}
	}
	return s
}

// GetCallStackHelper implements logr.CallStackHelperLogSink.
func (s *sink) GetCallStackHelper() func() { return s.helper() }

func (s *sink) helper() func() {
	if helped, ok := s.inner.(logr.CallStackHelperLogSink); ok {
		return helped.GetCallStackHelper()
	}
	return func() {}
}

// values cleans keys and values. It copies them only if there is something to change.
func values(given []any) []any {
	out := given
	for i, v := range given {
		clean, changed := value(v)
		if !changed {
			continue
		}
		if &out[0] == &given[0] {
			out = append([]any(nil), given...)
		}
		out[i] = clean
	}
	return out
}

// value returns what stands for a value in the log, if that is not the value itself. What is fine stays the value that
// it is, because sinks have their own ways with types that they know.
func value(v any) (clean any, changed bool) {
	switch v := v.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, uintptr,
		float32, float64, time.Duration, time.Time:
		return nil, false
	case string:
		return shown(v)
	case error:
		clean := cleanedError(v)
		return clean, clean != nil
	case fmt.Stringer:
		return shown(fmt.Sprint(v)) // which survives a nil pointer
	case logr.Marshaler:
		return marshaled(v)
	case []byte:
		return shown(string(v[:min(len(v), 2*MessageLimit)]))
	}
	return structured(v)
}

// marshaled is value for what names another value to be logged in its place: that value is asked for no other one, as
// sinks do not either.
func marshaled(v logr.Marshaler) (clean any, changed bool) {
	defer orPanic(&clean, &changed)
	instead := v.MarshalLog()
	if _, again := instead.(logr.Marshaler); again {
		return structured(instead)
	}
	return value(instead)
}

func structured(v any) (clean any, changed bool) {
	defer orPanic(&clean, &changed)
	if clean, changed := shown(fmt.Sprintf("%+v", v)); changed {
		return clean, true
	}
	// Some sinks look deeper into a value, through its pointers.
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	return shown(string(encoded))
}

// orPanic stands in for a value that panics when it is asked: a line of the log ends no process.
func orPanic(clean *any, changed *bool) {
	if p := recover(); p != nil {
		*clean, *changed = Message(fmt.Sprintf("a value that panics when it is logged: %v", p)), true
	}
}

// shown returns the text that may be shown, if that is another one.
func shown(text string) (clean any, changed bool) {
	if len(text) <= MessageLimit && printable(text) {
		return nil, false
	}
	return Message(text), true
}
