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
	Object    metav1.Object // as it was last known
	Evidenced bool
	// Resolved is for a document that did not decode and is gone, of which nobody said how: the leader may have a
	// marker.
	Resolved bool
}

// CleanUp is a teardown whose reconciler has succeeded, and which waits until what it deleted is gone. It is for the
// state of the primary that its anchor tells: any other was not cleaned up after.
type CleanUp struct {
	revision uint64
	stream   string
	pause    time.Duration
}

func NewCleanUp(anchor *entity.Record) *CleanUp {
	c := &CleanUp{pause: cleanUpPause}
	if anchor != nil {
		c.revision, c.stream = anchor.DocumentRevision, anchor.Stream
	}
	return c
}

func (c *CleanUp) Of(anchor *entity.Record) bool {
	return c != nil && anchor != nil && c.revision == anchor.DocumentRevision && c.stream == anchor.Stream
}

// NextPause is how long to wait this time; it doubles.
func (c *CleanUp) NextPause() time.Duration {
	if c == nil {
		return cleanUpPause
	}
	pause := c.pause
	c.pause = min(2*pause, cleanUpPauseMost)
	return pause
}
