package recorder

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/printable"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
)

// The events.k8s.io API limits a note and a reason to these. They also bound the recorder's memory: a message is often
// an error that quotes a whole document.
const (
	maxReasonBytes     = 128
	maxAnnotationBytes = 4096
)

// reference says which object an event is about. It copies an object that is a reference itself.
func (r *Recorder) reference(object runtime.Object) (*corev1.ObjectReference, error) {
	if object == nil {
		return nil, errors.New("the object is nil")
	}
	ref, ok := object.(*corev1.ObjectReference)
	if ok {
		ref = ref.DeepCopy()
	} else {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, fmt.Errorf("%T has no metadata: %w", object, err)
		}
		gvk := r.kinds.gvk(object)
		ref = &corev1.ObjectReference{
			Kind:            gvk.Kind,
			APIVersion:      gvk.GroupVersion().String(),
			Namespace:       accessor.GetNamespace(),
			Name:            accessor.GetName(),
			UID:             accessor.GetUID(),
			ResourceVersion: accessor.GetResourceVersion(),
		}
	}
	if ref.Kind == "" || ref.Name == "" {
		return nil, fmt.Errorf("%T with kind %q and name %q: both are needed", object, ref.Kind, ref.Name)
	}
	return ref, nil
}

// newEvent makes the event that client-go's recorder would make.
func (r *Recorder) newEvent(
	ref *corev1.ObjectReference, annotations map[string]string, eventtype, reason, message string,
) *corev1.Event {
	now := metav1.NewTime(r.clock.Now())
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        util.GenerateEventName(ref.Name, now.UnixNano()),
			Namespace:   namespace,
			Annotations: annotations,
		},
		InvolvedObject:      *ref,
		Reason:              reason,
		Message:             message,
		Source:              corev1.EventSource{Component: r.cfg.Component, Host: r.cfg.Host},
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                eventtype,
		ReportingController: r.cfg.Component,
		ReportingInstance:   r.cfg.Host,
	}
}

// checkEvent returns the arguments as they are recorded: the map is a copy, long texts are cut.
func checkEvent(
	annotations map[string]string, eventtype, reason, message string,
) (map[string]string, string, string, error) {
	if !util.ValidateEventType(eventtype) {
		return nil, "", "", fmt.Errorf("event type %q is neither %s nor %s",
			eventtype, corev1.EventTypeNormal, corev1.EventTypeWarning)
	}
	size := 0
	for k, v := range annotations {
		size += len(k) + len(v)
	}
	if size > maxAnnotationBytes {
		return nil, "", "", fmt.Errorf("annotations have %d bytes, the limit is %d", size, maxAnnotationBytes)
	}
	return maps.Clone(annotations), cut(printable.Text(reason), maxReasonBytes), printable.Message(message), nil
}

// cut shortens s to at most limit bytes without splitting a character. It copies, so that the long text can be freed.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// uniqueClock never returns the same nanosecond twice. Events are named by it. If two events about one object had the
// same name, the later would replace the earlier in the stream.
type uniqueClock struct{ last atomic.Int64 }

var _ clock.PassiveClock = (*uniqueClock)(nil)

func (c *uniqueClock) Now() time.Time {
	for {
		last := c.last.Load()
		now := max(time.Now().UnixNano(), last+1)
		if c.last.CompareAndSwap(last, now) {
			return time.Unix(0, now)
		}
	}
}

// Since is measured on the same clock as Now.
func (c *uniqueClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
