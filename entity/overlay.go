package entity

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/ownwrites"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// overlayTTL bounds how long an own write hides the cache's version. It matters only while the informer cannot watch.
const overlayTTL = 30 * time.Second

// overlay holds the own writes of an informer's clients until the informer has them. V is the cached form.
//
// Another stream may take the place of a bucket's, as where a backup is restored. Sequences of two streams cannot be
// compared, so each write belongs to one. A write to the stream of now shows at once, whatever the cache still has of
// the stream before; a write to the stream before shows until the new one was listed, and never again.
type overlay[V any] struct {
	*ownwrites.Overlay[ownWrite[V]]
	informer natsinformer.Informer
}

// ownWrite is a document or record that this process wrote, or a delete.
type ownWrite[V any] struct {
	position
	key     string    // as in the store
	at      time.Time // when its acknowledgement came
	value   V
	deleted bool
	refused error // the cache will not take it, and why; then there is no value
}

// reachedBy reports whether an informer shows the write, or what came after it.
//
// Until another stream is noticed the cache may take messages of the one before that were on their way. So the cursor
// says nothing where the cache has no message of the key that is as late. Where the informer works for a while, and
// notices no other stream, that message was removed.
func (w ownWrite[V]) reachedBy(informer natsinformer.Informer) bool {
	now := informer.Status() // before the cursor, which is zero by the time a change is counted
	works := now.Err == nil && time.Since(now.Since) > doubtLasts
	filled, certain := filledOf(now), works && time.Since(w.at) > doubtLasts
	switch {
	case filled != w.stream:
		return filled > w.stream
	case informer.Cursor() < w.revision:
		return w.doubtful && certain
	}
	return hasReached(informer, w.key, w.revision) || certain && now.StreamsNoticed == filled
}

// hasReached reports whether an informer has a message of a key at a revision or later.
func hasReached(informer natsinformer.Informer, key string, revision uint64) bool {
	natsKey := natsKeyOf(key)
	if informer.Deleted(natsKey) >= revision || informer.InvalidRevision(natsKey) >= revision {
		return true
	}
	item, exists, err := informer.GetStore().GetByKey(key)
	if err != nil {
		return false
	}
	if !exists {
		known, at := informer.Known(natsKey)
		_, apart := known.(natsinformer.Apart)
		return apart && at >= revision
	}
	object, err := meta.Accessor(item)
	if err != nil {
		return false
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return err == nil && version >= revision
}

// natsKeyOf returns a key in NATS, of a key as in the store.
func natsKeyOf(key string) string { return strings.Replace(key, "/", ".", 1) }

// hasValue reports whether it is neither a delete nor refused.
func (w ownWrite[V]) hasValue() bool { return !w.deleted && w.refused == nil }

// newOverlay makes an overlay over an informer. groupsOf names the groups of a value; it may be nil. A delete has none.
func newOverlay[V any](informer natsinformer.Informer, groupsOf func(V) []string) *overlay[V] {
	cfg := ownwrites.Config[ownWrite[V]]{Cache: overlaidCache[V]{informer}, TTL: overlayTTL}
	if groupsOf != nil {
		cfg.GroupsOf = func(w ownWrite[V]) []string {
			if !w.hasValue() {
				return nil
			}
			return groupsOf(w.value)
		}
	}
	return &overlay[V]{Overlay: ownwrites.NewOverlay(cfg), informer: informer}
}

// Get returns the own write of a key that the cache has not reached, or another writer's delete that came after it.
// That may have been told already while the cursor still waits, because the stream keeps no write that was deleted.
func (o *overlay[V]) Get(key string) (own ownWrite[V], ok bool) {
	own, ok = o.Overlay.Get(key)
	if !ok || own.deleted || own.isAheadOf(o.informer) {
		return own, ok
	}
	if deleted := o.informer.Deleted(natsKeyOf(key)); deleted > own.revision {
		own = ownWrite[V]{position: position{revision: deleted, stream: own.stream}, deleted: true}
	}
	return own, true
}

// unseen returns what this process wrote to a key before it was deleted, for natsinformer.Config; nil if nothing.
func unseen[V runtime.Object](o *overlay[V], keys keyspace, natsKey string, deleted uint64) runtime.Object {
	key, _, _, err := keys.fromNATS(natsKey)
	if err != nil {
		return nil
	}
	own, ok := o.Overlay.Get(key)
	if !ok || !own.hasValue() || own.revision > deleted || own.stream != o.informer.Status().StreamsShown {
		return nil
	}
	return own.value
}

// put remembers a write, and logs it if ctx has a log.
func (o *overlay[V]) put(ctx context.Context, key string, at sequence, value V) {
	o.add(ctx, key, at, ownWrite[V]{value: value})
}

// delete is put for a delete; at is that of its marker.
func (o *overlay[V]) delete(ctx context.Context, key string, at sequence) {
	o.add(ctx, key, at, ownWrite[V]{deleted: true})
}

// refuse is put for what the cache will not take, and report as invalid.
func (o *overlay[V]) refuse(ctx context.Context, key string, at sequence, why error) {
	o.add(ctx, key, at, ownWrite[V]{refused: why})
}

func (o *overlay[V]) add(ctx context.Context, key string, at sequence, w ownWrite[V]) {
	w.position, w.key, w.at = at.positionIn(o.informer), key, time.Now()
	o.Add(key, w)
	if log := ownwrites.LogOf(ctx); log != nil {
		log.Add(o.informer, "", loggedWrite{w.position, o.informer}) // no key: revisions are reached in order
	}
}

// overlaidCache is an informer as the cache under an overlay.
type overlaidCache[V any] struct{ informer natsinformer.Informer }

func (c overlaidCache[V]) Follows(w, before ownWrite[V]) bool { return w.follows(before.position) }
func (c overlaidCache[V]) Reached(w ownWrite[V]) bool         { return w.reachedBy(c.informer) }
func (c overlaidCache[V]) Shows(_ string, w ownWrite[V]) bool { return w.reachedBy(c.informer) }

// loggedWrite is the last write to a bucket in the log of a context.
type loggedWrite struct {
	position
	informer natsinformer.Informer
}

// Reached implements ownwrites.Write. A stopped informer will show nothing more, so it counts as having reached w.
func (w loggedWrite) Reached() bool { return w.reachedBy(w.informer) || w.informer.IsStopped() }

// Version implements ownwrites.Versioned. A stream is known by when it was made: informers may share it.
func (w loggedWrite) Version() (of any, version string) {
	return w.informer.Status().StreamCreated.UnixNano(), strconv.FormatUint(w.revision, 10)
}

// Follows implements ownwrites.Write.
func (w loggedWrite) Follows(before ownwrites.Write) bool {
	old, ok := before.(loggedWrite)
	return !ok || w.follows(old.position)
}

// lookAgain is how often a wait checks that the write can still be reached.
const lookAgain = 500 * time.Millisecond

// otherStream is how often it checks whether the informer has listed the stream that the write is in.
const otherStream = 20 * time.Millisecond

// Wait implements ownwrites.Write.
func (w loggedWrite) Wait(ctx context.Context) error {
	for !w.Reached() {
		slice, cancel := context.WithTimeout(ctx, lookAgain)
		err := w.informer.WaitCursor(slice, w.revision)
		if err == nil && !w.Reached() { // the cursor is that of the stream before
			select {
			case <-slice.Done():
			case <-time.After(otherStream):
			}
		}
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
