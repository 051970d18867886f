package keytable

import (
	"time"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The pauses after which a teardown looks again whether what it deleted is gone. Usually the event of its delete comes
// earlier.
const (
	cleanUpPause     = 250 * time.Millisecond
	cleanUpPauseMost = 30 * time.Second
)

// ObservedDelete is a delete of a primary that this process observed.
type ObservedDelete struct {
	Object metav1.Object // as it was last known
	// Evidenced says that a writer deleted it, or that it went by a TTL of its own.
	Evidenced bool
	// Expired says that it went by a TTL of its own.
	Expired bool
	// AgedOut says that no writer deleted it: it outgrew the age limit of its bucket, which may have been set by
	// mistake. The brake holds it until people say that it is meant.
	AgedOut bool
	// WasInvalid says that the document did not decode before, and that no event said how it went. The leader may have
	// a delete marker.
	WasInvalid bool
}

// CleanUp is a teardown whose reconciler has succeeded, and which waits until everything it deleted is gone. It
// belongs to one anchor: a primary that was written since needs a teardown of its own.
type CleanUp struct {
	revision uint64
	stream   string
	pause    time.Duration
}

// NewCleanUp begins a CleanUp for the state of the primary that the anchor records.
func NewCleanUp(anchor *entity.Record) *CleanUp {
	c := &CleanUp{pause: cleanUpPause}
	if anchor != nil {
		c.revision, c.stream = anchor.DocumentRevision, anchor.Stream
	}
	return c
}

// IsFor reports whether c belongs to this anchor. Either may be nil; then it does not.
func (c *CleanUp) IsFor(anchor *entity.Record) bool {
	return c != nil && anchor != nil && c.revision == anchor.DocumentRevision && c.stream == anchor.Stream
}

// NextPause returns how long to wait before the next look, and doubles it for the one after, up to 30 s.
func (c *CleanUp) NextPause() time.Duration {
	if c == nil {
		return cleanUpPause
	}
	pause := c.pause
	c.pause = min(2*pause, cleanUpPauseMost)
	return pause
}
