package entity

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/runtime"
)

// Records are the records of a client's entities, in its status bucket. There is one per key, and keys are those of the
// entities. One controller writes them, by compare-and-set. All methods may be called concurrently.
type Records struct {
	bucket  *bucket
	keys    keyspace // of the status bucket
	cfg     Config
	limit   int // bytes of a record
	status  statusDecoder
	secrets *jsonshape.Secrets
	recent  *recordLRU
	echoes  *echoes
	// controller is whose records they are; nil: not known.
	controller atomic.Pointer[string]
	// fence is what writes need beside; nil: nothing.
	fence atomic.Pointer[fence.Of]
	// current returns the cache of the client's current generation, nil if there is none; open makes one then.
	current func() *recordCache
	js      jetstream.JetStream
	// division says which records the cache keeps; nil: all.
	division func() *division
	open     func() *recordCache
}

// recordCache is one life of the records' informer.
type recordCache struct {
	informer natsinformer.Informer // as users get it
	store    natsinformer.Informer
	writes   *overlay[*RecordObject]
	running  *atomic.Bool
	// unreadable are the keys that hold no record.
	unreadable *invalidKeys
	display    func(natsKey string) (key string)
}

func (c *recordCache) isRunning() bool { return c != nil && c.running.Load() }

// Informer returns the cache of records. Its objects are *RecordObject; see RecordOf. After the client's last user has
// stopped, it returns another one, as Client.Informer does.
func (r *Records) Informer() natsinformer.Informer { return r.open().informer }

// Bucket is the name of the status bucket.
func (r *Records) Bucket() string { return r.bucket.name }

// Get reads a record live, with its last document. IsNotFound if there is none; an UnreadableRecordError if the key
// holds what is no record.
func (r *Records) Get(ctx context.Context, key string) (*Record, error) {
	natsKey, err := r.keys.toNATS(key)
	if err != nil {
		return nil, err
	}
	rec, err := r.read(ctx, key, natsKey)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, newNotFound("record of "+r.cfg.Kind, r.bucket.name, key)
	}
	return rec, nil
}

// read is Get, but returns nil if there is no record.
func (r *Records) read(ctx context.Context, key, natsKey string) (*Record, error) {
	last, err := r.bucket.last(ctx, natsKey)
	if err != nil {
		return nil, err
	}
	if last.live() == nil {
		if !isPlanned(last.revision()) {
			r.recently().remove(key)
		}
		return nil, nil
	}
	err = checkNotAnswer(last.Header, last.Value)
	var rec *Record
	if err == nil {
		rec, err = decodeRecord(last.Value, last.Revision)
		err = r.checkReadable(last.Value, rec, err)
	}
	if err != nil {
		r.recently().remove(key)
		return nil, r.newUnreadable(natsKey, last.Revision, err)
	}
	if !isPlanned(last.Revision) {
		r.recently().put(key, rec)
	}
	return rec, nil
}

// Cached returns a record from the cache, or as this process wrote it since. It has no LastDocument and must not be
// modified. Of a key that holds what is no record it is the last good one. The result is false if there is none, and
// while the client was not started.
func (r *Records) Cached(key string) (*Record, bool) {
	o := r.cached(key)
	if o == nil {
		return nil, false
	}
	return o.Record, true
}

func (r *Records) cached(key string) *RecordObject {
	c := r.current()
	if !c.isRunning() {
		return nil
	}
	return c.get(key)
}

func (c *recordCache) get(key string) *RecordObject {
	own, written := c.writes.Get(key)
	item, exists, err := c.store.GetStore().GetByKey(key)
	var stored *RecordObject
	if exists && err == nil {
		stored, _ = item.(*RecordObject)
	}
	if stored != nil && stored.Record == nil {
		stored = nil
	}
	if stored == nil {
		stored = c.known(key)
	}
	if !written || stored != nil && stored.Record.Revision > own.revision && !own.isAheadOf(c.store) {
		return stored
	}
	if own.deleted {
		return nil
	}
	return own.value
}

// Keys returns the keys that have a cached record, in no order.
func (r *Records) Keys() []string {
	var keys []string
	for key := range r.All() {
		keys = append(keys, key)
	}
	return keys
}

// All iterates over the records that [Records.Cached] has when it begins, in no order.
func (r *Records) All() iter.Seq2[string, *Record] {
	return func(yield func(string, *Record) bool) {
		c := r.current()
		if !c.isRunning() {
			return
		}
		own := c.writes.Keys() // before the store is listed: it has what the overlay has dropped by then
		for o := range c.all() {
			if _, written := own[o.key]; o.Record != nil && !written && !yield(o.key, o.Record) {
				return
			}
		}
		for key := range own {
			if o := c.get(key); o != nil && !yield(key, o.Record) {
				return
			}
		}
	}
}

// known is what is known of a record that the store does not have: it is apart, or about to come. Nil if nothing is,
// and where the store has all.
func (c *recordCache) known(key string) *RecordObject {
	object, revision := c.store.Known(natsKeyOf(key))
	switch o := object.(type) {
	case *apartRecord:
		return o.object(key, revision)
	case *RecordObject:
		if o.Record != nil {
			return o
		}
	}
	return nil
}

// all are the records, and the reserved keys, that are in the store, apart, or about to come.
func (c *recordCache) all() iter.Seq[*RecordObject] {
	return func(yield func(*RecordObject) bool) {
		if !c.store.Divided() {
			for _, item := range c.store.GetStore().List() {
				if o, is := item.(*RecordObject); is && !yield(o) {
					return
				}
			}
			return
		}
		for natsKey, object := range c.store.AllKnown() {
			o, is := object.(*RecordObject)
			if kept, apart := object.(*apartRecord); apart {
				o, is = kept.object(c.display(natsKey), 0), true
			}
			if is && !yield(o) {
				return
			}
		}
	}
}

// Put writes a record if the stored one is at rec.Revision; 0 means that there must be none. It sets rec.Revision and
// rec.SchemaVersion, and removes the secret fields of LastDocument (Config.SecretFields). A LastDocument that is larger
// than Config.LastDocumentLimit without them is removed from rec, and with it what is said of that document:
// DocumentRevision becomes 0, and DocumentExpires "". IsConflict if the stored one is at another revision.
func (r *Records) Put(ctx context.Context, key string, rec *Record) error {
	w, err := r.write(key, rec)
	if err != nil {
		return err
	}
	revision, err := r.bucket.put(ctx, w)
	return r.written(ctx, key, w, rec, revision, err)
}

// PutAsync is Put without waiting for the server. It reads rec before it returns; rec must not be changed until wait
// has returned. wait must be called once; it returns the error that Put would, and sets rec.Revision. PutAsync blocks
// while a few thousand writes are in flight. Two writes of one key must not be in flight at once.
func (r *Records) PutAsync(key string, rec *Record) (wait func(ctx context.Context) error) {
	return r.PutAsyncUnder(context.Background(), key, rec)
}

// PutAsyncUnder is PutAsync with a context for Config.OnWrite, as of the reconcile that the record is about. That
// context may have ended: it does not bound the write.
func (r *Records) PutAsyncUnder(
	under context.Context, key string, rec *Record,
) (wait func(ctx context.Context) error) {
	w, err := r.write(key, rec)
	if err != nil {
		return func(context.Context) error { return err }
	}
	outcome := r.bucket.putAsync(under, w)
	return func(ctx context.Context) error {
		revision, err := outcome(ctx)
		return r.written(ctx, key, w, rec, revision, err)
	}
}

func (r *Records) write(key string, rec *Record) (write, error) {
	natsKey, err := r.keys.toNATS(key)
	if err != nil {
		return write{}, err
	}
	rec.SchemaVersion = RecordSchemaVersion
	rec.FirstSeen = rec.FirstSeen.UTC().Truncate(time.Second)
	if rec.LastDocument, err = r.secrets.Drop(rec.LastDocument); err != nil {
		return write{}, newInvalid(r.cfg.Kind, r.bucket.name, key, "lastDocument", err.Error())
	}
	if len(rec.LastDocument) > max(r.cfg.LastDocumentLimit, 0) {
		rec.LastDocument, rec.DocumentRevision, rec.DocumentExpires = nil, 0, ""
	}
	data, err := encodeRecord(rec)
	if err == nil {
		err = checkDepthOf(data, recordDepth)
	}
	if err != nil {
		return write{}, newInvalid(r.cfg.Kind, r.bucket.name, key, "record", "it cannot be encoded: "+err.Error())
	}
	if len(data) > r.limit {
		return write{}, newTooLarge(r.cfg.Kind, r.bucket.name, key, len(data), r.limit,
			"the record (status and last document)")
	}
	w := write{key: natsKey, value: data, expected: rec.Revision, before: r.moment()}
	if w.fence, err = r.fenceOfRecord(key, natsKey, rec.Revision); err != nil {
		return write{}, err
	}
	if r.current().isRunning() {
		if own := copyOf(rec); own.record.asDecoded(data) {
			w.echo = r.echoes.add(natsKey, data, r.object(key, own))
		}
	}
	return w, nil
}

// written ends a Put. It repeats a create that met a marker, and remembers a success.
func (r *Records) written(ctx context.Context, key string, w write, rec *Record, revision uint64, err error) error {
	if conflict, ok := errors.AsType[*casError](err); ok && w.expected == 0 && conflict.actual.live() == nil {
		w.expected = conflict.actual.revision()
		revision, err = r.bucket.create(ctx, w)
	}
	if err != nil {
		r.recently().remove(key)
		r.echoes.forget(w.key, w.echo)
		return r.conflict(key, err)
	}
	rec.Revision = revision
	if isPlanned(revision) {
		r.echoes.forget(w.key, w.echo)
		return nil
	}
	r.recently().put(key, rec)
	if c := r.current(); c.isRunning() {
		object := r.echoes.settle(w.echo, revision)
		if object == nil {
			object = r.object(key, copyOf(rec))
		}
		c.writes.put(ctx, key, sequence{revision, w.before}, object)
	} else {
		r.echoes.forget(w.key, w.echo)
	}
	return nil
}

// conflict turns a *casError into IsConflict.
func (r *Records) conflict(key string, err error) error {
	if conflict, ok := errors.AsType[*casError](err); ok {
		return newConflict("record of "+r.cfg.Kind, r.bucket.name, key,
			fmt.Sprintf("it is at revision %d, not %d", conflict.actual.live().revision(), conflict.expected))
	}
	return err
}

// Delete removes a record if it is at this revision. It puts a purge marker that expires. IsConflict if the record is
// at another revision, IsNotFound if there is none.
func (r *Records) Delete(ctx context.Context, key string, revision uint64) error {
	natsKey, err := r.keys.toNATS(key)
	if err != nil {
		return err
	}
	w := write{key: natsKey, expected: revision, op: operationPurge, before: r.moment()}
	if w.fence, err = r.fenceOfRecord(key, natsKey, revision); err != nil {
		return err
	}
	marker, err := r.bucket.put(ctx, w)
	if !isPlanned(marker) {
		r.recently().remove(key)
	}
	if conflict, ok := errors.AsType[*casError](err); ok && conflict.actual.live() == nil {
		return newNotFound("record of "+r.cfg.Kind, r.bucket.name, key)
	}
	if err != nil {
		return r.conflict(key, err)
	}
	if isPlanned(marker) {
		return nil
	}
	r.echoes.forgetKey(natsKey)
	if c := r.current(); c.isRunning() {
		c.writes.delete(ctx, key, sequence{marker, w.before})
	}
	return nil
}

// decode makes the cached form of an entry of the status bucket.
func (r *Records) decode(entry natsinformer.Entry) (runtime.Object, error) {
	if strings.HasPrefix(entry.Key, ReservedPrefix) {
		return &RecordObject{recordMeta: recordMeta{key: entry.Key}}, nil
	}
	key, _, _, err := r.keys.fromNATS(entry.Key)
	if err != nil {
		return nil, err
	}
	if err := checkNotAnswer(entry.Header, entry.Value); err != nil {
		return nil, err
	}
	if sent := r.echoes.take(entry); sent != nil {
		if a := r.apartOf(sent); a != nil {
			return a, nil
		}
		return sent, nil
	}
	own, err := decodeCached(entry.Value, entry.Revision)
	var rec *Record
	if err == nil {
		rec = &own.record.Record
	}
	if err := r.checkReadable(entry.Value, rec, err); err != nil {
		return nil, err
	}
	if a := r.apartOf(&RecordObject{recordMeta: recordMeta{key: key}, Record: rec}); a != nil {
		return a, nil
	}
	return r.object(key, own), nil
}

// object makes the cached form of a record. It decodes the status once for all readers.
func (r *Records) object(key string, own *recordCell) *RecordObject {
	o := own.object()
	o.key, o.status = key, r.status.decodeStatus(o.Record.Status)
	o.Record.share()
	o.setRevision(o.Record.Revision)
	return o
}
