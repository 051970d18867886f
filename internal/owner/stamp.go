package owner

import (
	"maps"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stamp is a revision of the owner's document, and the stream that had it. What was written for an owner carries it. A
// stream that does not reach so far was restored to an earlier state. The zero value is none.
type Stamp struct {
	Stream   string // its identity, as records keep it
	Revision uint64
	// ContestedFrom, of the owner's own stamp, says that a delete of what it owned before this revision may be under
	// way, in a request that is yet to arrive; 0: none is. What is written anew is not what that request has seen.
	ContestedFrom uint64
}

// StampOf returns the stamp that obj carries; none if it carries none that can be read.
func StampOf(obj metav1.Object) Stamp {
	revision, stream, ok := strings.Cut(obj.GetAnnotations()[entity.OwnerRevisionAnnotation], "@")
	n, err := strconv.ParseUint(revision, 10, 64)
	if !ok || err != nil || n == 0 || stream == "" {
		return Stamp{}
	}
	return Stamp{Stream: stream, Revision: n}
}

// IsNone reports whether s is no stamp.
func (s Stamp) IsNone() bool { return s.Stream == "" || s.Revision == 0 }

// Covers reports whether what carries held need not be written to carry s: held is of the same stream, and no later.
func (s Stamp) Covers(held Stamp) bool {
	return s.IsNone() || held.Stream == s.Stream && held.Revision <= s.Revision &&
		held.Revision >= min(s.ContestedFrom, s.Revision)
}

// StandsOn reports whether obj need not be written because of its stamp. One without a stamp need not.
func (s Stamp) StandsOn(obj metav1.Object) bool {
	held := StampOf(obj)
	return held.IsNone() && s.ContestedFrom == 0 || s.Covers(held)
}

// Over returns the stamp for a write over existing. A stamp that is covered stays, so that an object does not change
// with each revision of its owner.
func (s Stamp) Over(existing metav1.Object) Stamp {
	if held := StampOf(existing); !held.IsNone() && s.Covers(held) {
		return held
	}
	return s
}

// Set makes obj carry s. None leaves obj as it is. Set replaces the map and never changes it.
func (s Stamp) Set(obj metav1.Object) {
	held := obj.GetAnnotations()
	text := strconv.FormatUint(s.Revision, 10) + "@" + s.Stream
	if s.IsNone() || held[entity.OwnerRevisionAnnotation] == text {
		return
	}
	annotations := make(map[string]string, len(held)+1)
	maps.Copy(annotations, held)
	annotations[entity.OwnerRevisionAnnotation] = text
	obj.SetAnnotations(annotations)
}
