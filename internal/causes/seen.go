// Package causes remembers which writes made a key due, as far as they came with a trace.
//
// The rule: it is best effort, and bounded. What is forgotten costs a link in a trace, and nothing else. Nothing here
// reads what the headers say: that is for who asked for the causes, see engine.CauseTaker. Without one nothing is
// kept.
package causes

import (
	"context"
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nagi-runtime/nagi/natsinformer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cause is a message that made a key due, and that came with a trace.
type Cause struct {
	Bucket   string
	Key      string // as in NATS
	Revision uint64
	// TraceParent and TraceState are headers of the message. They are bounded; what they say was not looked at, and
	// everybody who may write the key can make them up.
	TraceParent, TraceState string
}

// The headers of W3C Trace Context, and what is kept of them.
const (
	parentHeader  = "traceparent"
	stateHeader   = "tracestate"
	longestParent = 128 // today's version has 55
	longestState  = 512
)

// Seen has the causes of the messages that came last. Its methods may be called concurrently; a nil Seen has none.
//
// Between a message and its event there are some hundred others, as much as the informer buffers.
type Seen struct {
	slots [4096]atomic.Pointer[Cause] // a message has the slot of its revision
}

var seed = maphash.MakeSeed()

func (s *Seen) slot(bucket string, revision uint64) *atomic.Pointer[Cause] {
	return &s.slots[(maphash.String(seed, bucket)+revision)%uint64(len(s.slots))]
}

// Note remembers the trace of a message that has one.
func (s *Seen) Note(bucket string, entry natsinformer.Entry) {
	parent := entry.Header[parentHeader]
	slot := s.slot(bucket, entry.Revision)
	if len(parent) != 1 || parent[0] == "" || len(parent[0]) > longestParent {
		slot.Store(nil) // a stream that was created anew counts from the beginning
		return
	}
	c := &Cause{
		Bucket: bucket, Key: strings.Clone(entry.Key), Revision: entry.Revision, TraceParent: strings.Clone(parent[0]),
	}
	if state := entry.Header[stateHeader]; len(state) == 1 && len(state[0]) <= longestState {
		c.TraceState = strings.Clone(state[0])
	}
	slot.Store(c)
}

// Of returns the cause of an event that shows obj, which was read from the bucket; nil if there is none. A delete that
// was inferred has none: its revision is that of whatever message came last.
func (s *Seen) Of(bucket string, obj metav1.Object) *Cause {
	if s == nil || obj == nil {
		return nil
	}
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil
	}
	c := s.slot(bucket, revision).Load()
	if c == nil || c.Revision != revision || c.Bucket != bucket || !c.isOf(obj) {
		return nil
	}
	return c
}

// isOf reports whether the key is that of obj, as entities have it: "name" or "namespace.name".
func (c *Cause) isOf(obj metav1.Object) bool {
	key, namespace := c.Key, obj.GetNamespace()
	if namespace != "" {
		before, after, found := strings.Cut(key, ".")
		if !found || before != namespace {
			return false
		}
		key = after
	}
	return key == obj.GetName()
}

type contextKey struct{}

// With returns the context of an event with its cause, which may be nil.
func With(ctx context.Context, c *Cause) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the cause of the event that a context is of; nil if there is none.
func From(ctx context.Context) *Cause {
	c, _ := ctx.Value(contextKey{}).(*Cause)
	return c
}
