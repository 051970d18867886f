package entity

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	waitPollMin = 10 * time.Millisecond
	waitPollMax = time.Second
)

// WaitReconciled blocks until the controller has reconciled this revision of the document, or a later one, and the
// condition Reconciled is True. It fails if the controller gave the revision up (Terminal) or cannot decode it
// (Invalid), if the client has no status bucket, and when the context ends. The error at the end of the context has
// the controller's last report. It reads the cache if the client is started, else live, ever more rarely.
func WaitReconciled[T IEntity](ctx context.Context, client IEntityClient[T], key string, revision uint64) error {
	records := client.Records()
	if records == nil {
		return newInvalid(client.Kind(), client.Config().Bucket, key, "status",
			"the client has no status bucket, so nobody tells what was reconciled")
	}
	documents := &bucket{}
	*documents = *records.bucket
	documents.name = client.Config().Bucket
	documents.stream = "KV_" + documents.name
	var last *Record
	for wait := waitPollMin; ; wait = min(2*wait, waitPollMax) {
		if ctx.Err() != nil {
			return waitEnded(ctx, client.Kind(), key, revision, last)
		}
		cursor := records.cursor()
		rec, err := records.latest(ctx, key)
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			return err
		}
		if rec != nil {
			last = rec
			stream, err := currentStream(ctx, client, documents)
			if err == nil {
				if done, err := reconciled(client.Kind(), key, revision, stream, rec); done {
					return err
				}
			} else if ctx.Err() == nil {
				return err
			}
		}
		records.waitForChange(ctx, cursor, wait)
	}
}

// reconciled reports whether the record is final for the revision; err says why it was given up.
func reconciled(kind, key string, revision uint64, stream string, rec *Record) (done bool, err error) {
	condition := meta.FindStatusCondition(rec.Conditions, ConditionReconciled)
	if condition == nil || rec.Stream != stream {
		return false, nil
	}
	if condition.Status == metav1.ConditionTrue {
		return rec.ObservedRevision >= revision, nil
	}
	// An invalid revision is not reconciled, so only the condition names it.
	if max(rec.ObservedRevision, uint64(condition.ObservedGeneration)) < revision {
		return false, nil
	}
	switch condition.Reason {
	case ReasonTerminal, ReasonInvalid:
		return true, fmt.Errorf("%s %q at revision %d is not reconciled and will not be retried: %s: %s",
			kind, key, revision, condition.Reason, condition.Message)
	}
	return false, nil
}

func waitEnded(ctx context.Context, kind, key string, revision uint64, last *Record) error {
	says := "it has no record: is its controller running?"
	if last != nil {
		says = fmt.Sprintf("its record is at revision %d of stream %s", last.ObservedRevision, last.Stream)
		if condition := meta.FindStatusCondition(last.Conditions, ConditionReconciled); condition != nil {
			says += fmt.Sprintf(", %s=%s (%s: %s)",
				condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("waiting until %s %q is reconciled at revision %d: %s: %w",
		kind, key, revision, says, context.Cause(ctx))
}

// currentStream returns the identity of the documents' stream, from the cache if that knows it, else from the leader.
func currentStream[T IEntity](ctx context.Context, client IEntityClient[T], documents *bucket) (string, error) {
	if client.Records().current().isRunning() {
		if created := client.Informer().Status().StreamCreated; !created.IsZero() {
			return StreamIdentity(created), nil
		}
	}
	info, err := documents.info(ctx, "")
	if err != nil {
		return "", err
	}
	return StreamIdentity(info.Created), nil
}

// latest returns a record from the cache if that runs and has synced, else live.
func (r *Records) latest(ctx context.Context, key string) (*Record, error) {
	if c := r.current(); c.isRunning() && c.store.HasSynced() {
		rec, _ := r.Cached(key)
		return rec, nil
	}
	return r.Get(ctx, key)
}

func (r *Records) cursor() uint64 {
	if c := r.current(); c.isRunning() {
		return c.store.Cursor()
	}
	return 0
}

// waitForChange returns when the cache has moved on from cursor, or after wait.
func (r *Records) waitForChange(ctx context.Context, cursor uint64, wait time.Duration) {
	if c := r.current(); c.isRunning() && c.store.HasSynced() {
		slice, cancel := context.WithTimeout(ctx, waitPollMax)
		defer cancel()
		if c.store.WaitCursor(slice, cursor+1) == nil || slice.Err() != nil {
			return
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
