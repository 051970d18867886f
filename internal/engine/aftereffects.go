package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// The reasons of events about what was done.
const (
	reasonTornDown        = "TornDown"
	reasonRecordsRestored = "RecordsRestored"
)

const (
	// restoredAfter is how long records that are written again are counted before they are told.
	restoredAfter = 2 * time.Second
	// untoldAfter is how long teardowns that have no line of their own are counted.
	untoldAfter = 10 * time.Second
)

// aftereffects tells what was done for good: teardowns, one by one as far as there are few, and records that had
// vanished and are written again, in numbers.
type aftereffects struct {
	lines    notify.Lines
	untold   notify.Tally
	restored notify.Tally
}

// tellAftereffects tells in the log of a context from now on.
func (e *Engine) tellAftereffects(ctx context.Context) {
	logger := printable.Logger(klog.FromContext(ctx))
	e.aftereffects.untold.After, e.aftereffects.restored.After = untoldAfter, restoredAfter
	e.aftereffects.untold.Tell = func(n int) {
		logger.Info("More keys were torn down, which are not told one by one", "keys", n)
	}
	e.aftereffects.restored.Tell = func(n int) {
		logger.Info("Records had vanished and were written again", "bucket", e.statusBucket, "records", n)
		e.EventOfSelf(EventWarning, reasonRecordsRestored, fmt.Sprintf(
			"%d records had vanished from the bucket %s and were written again: look who deletes there",
			n, e.statusBucket))
	}
}

func (a *aftereffects) flush() {
	a.untold.Flush()
	a.restored.Flush()
}

// deletedBehindAPI is told that a reconcile has deleted a resource. It counts for the teardown of a primary that is
// gone.
func (e *Engine) deletedBehindAPI(key, resource string) {
	if e.teardown != nil && !e.primary.Exists(key) {
		kind, _, _ := strings.Cut(resource, "/")
		e.teardown.NoteDeleted(key, "external "+kind, resource)
	}
}

// forgetDeletedOf is for a teardown that ended because the document is back.
func (e *Engine) forgetDeletedOf(key string) {
	if e.teardown != nil {
		e.teardown.TakeDeleted(key)
	}
}

// tellTornDown tells that a teardown has ended, and what it has deleted.
func (e *Engine) tellTornDown(t *lifecycle.Term, key string) {
	if e.teardown == nil {
		return
	}
	deleted := e.teardown.TakeDeleted(key)
	if !e.aftereffects.lines.Allow() {
		e.aftereffects.untold.Add()
		return
	}
	if deleted == "" {
		t.Logger.Info("Torn down", "key", key)
		return
	}
	t.Logger.Info("Torn down", "key", key, "deleted", deleted)
	e.EventOf(key, EventNormal, reasonTornDown, "torn down, and deleted "+deleted)
}
