// Package follow keeps, for as long as somebody looks, what lists and trees show of the documents of a bucket and of
// their records: keys, labels, owners and states.
//
// The rule: nothing of what a document says stays in memory, so a bucket of 100,000 documents costs some tens of
// megabytes. Who shows a document reads it when it is shown.
package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Place is where documents and their records are.
type Place struct {
	Bucket       string
	StatusBucket string // "" if there are no records
}

// Document is what is kept of a document, and of its record.
type Document struct {
	Key       string // as in NATS
	Namespace string // as the document says, "" if it says none
	Revision  uint64 // 0 if there is a record alone
	Written   time.Time
	// Unreadable says that it is no JSON object with metadata.
	Unreadable bool
	// Marks has the labels, and the annotations that name an owner; nil if there is a record alone.
	Marks metav1.Object
	State *State // nil if there is no record
}

// Gone says that there is a record alone: a teardown is owed.
func (d *Document) Gone() bool { return d.Revision == 0 }

// Bucket follows a bucket of documents, and their records. All methods may be called concurrently.
type Bucket struct {
	docs, records natsinformer.Informer // records is nil if there are none
	changes       atomic.Uint64
	stop          context.CancelFunc
	done          sync.WaitGroup
	failed        chan struct{} // closed with the first error of a list
	mu            sync.Mutex
	err           error
}

// ownerIndex has the values of entity.OwnerIndex.
const ownerIndex = entity.OwnerIndex

// Open begins to follow. changed is called after each change of a document or record; it must return quickly, and may
// be nil. Close ends it.
func Open(js jetstream.JetStream, at Place, changed func()) (*Bucket, error) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bucket{stop: cancel, failed: make(chan struct{})}
	count := func() {
		b.changes.Add(1)
		if changed != nil {
			changed()
		}
	}
	var err error
	b.docs, err = b.informer(js, natsinformer.Config{
		Bucket: at.Bucket, Decode: decodeDocument, Indexers: cache.Indexers{ownerIndex: indexByOwner},
	}, count)
	if err == nil && at.StatusBucket != "" {
		b.records, err = b.informer(js, natsinformer.Config{Bucket: at.StatusBucket, Decode: decodeRecord}, count)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	for _, informer := range b.informers() {
		b.done.Go(func() { informer.RunWithContext(ctx) })
	}
	return b, nil
}

func (b *Bucket) informer(
	js jetstream.JetStream, cfg natsinformer.Config, changed func(),
) (natsinformer.Informer, error) {
	cfg.Reported = func() bool { return true }
	cfg.OnError = func(err error) {
		// A late answer is waited for.
		if err == nil || errors.Is(err, natsinformer.ErrUnanswered) {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.err == nil {
			b.err = err
			close(b.failed)
		}
	}
	informer, err := natsinformer.New(js, cfg)
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(_, _ any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	return informer, err
}

// Close ends it, and waits for that.
func (b *Bucket) Close() {
	b.stop()
	b.done.Wait()
}

// Version is another number after each change.
func (b *Bucket) Version() uint64 { return b.changes.Load() }

// Synced reports whether all is there that was when it began.
func (b *Bucket) Synced() bool {
	return b.docs.HasSynced() && (b.records == nil || b.records.HasSynced())
}

// patience is how long an answer may be late before Wait gives up.
const patience = 10 * time.Second

// Wait waits until it has synced, and returns why it cannot.
func (b *Bucket) Wait(ctx context.Context) error {
	for wait := time.Millisecond; !b.Synced(); wait = min(2*wait, 50*time.Millisecond) {
		if err := b.late(); err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-b.failed:
			timer.Stop()
			return b.Failure()
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("the bucket was not read in time: %w", ctx.Err())
		}
	}
	return nil
}

// late is what has not worked for longer than patience; nil if nothing.
func (b *Bucket) late() error {
	for _, informer := range b.informers() {
		if s := informer.Status(); s.Err != nil && time.Since(s.Since) > patience {
			return s.Err
		}
	}
	return nil
}

func (b *Bucket) informers() []natsinformer.Informer {
	if b.records == nil {
		return []natsinformer.Informer{b.docs}
	}
	return []natsinformer.Informer{b.docs, b.records}
}

// Failure is why it can be followed no more, or not yet; nil if it can.
func (b *Bucket) Failure() error {
	for _, informer := range b.informers() {
		if err := informer.Status().Err; err != nil {
			return err
		}
	}
	if b.Synced() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Get returns what is known of a key, as in NATS.
func (b *Bucket) Get(key string) (Document, bool) {
	if item, ok, _ := b.docs.GetStore().GetByKey(key); ok {
		return b.join(item.(*document)), true
	}
	if state := b.state(key); state != nil {
		return Document{Key: key, State: state}, true
	}
	return Document{}, false
}

// Keys are those of all documents, and of records without one, in no order.
func (b *Bucket) Keys() []string {
	keys := b.docs.GetStore().ListKeys()
	if b.records == nil {
		return keys
	}
	for _, key := range b.records.GetStore().ListKeys() {
		if _, ok, _ := b.docs.GetStore().GetByKey(key); !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// OwnedBy returns the documents that name an owner of this kind and key, of any installation, in no order.
func (b *Bucket) OwnedBy(kind, key string) (owned []Document, err error) {
	for _, value := range entity.OwnerIndexValues(kind, key) {
		items, err := b.docs.GetIndexer().ByIndex(ownerIndex, value)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if d := item.(*document); entity.IsOwnedBy(d, kind, key) {
				owned = append(owned, b.join(d))
			}
		}
	}
	return owned, nil
}

func (b *Bucket) join(d *document) Document {
	return Document{
		Key: d.Name, Namespace: d.in, Revision: d.revision, Written: d.written, Unreadable: d.unreadable,
		Marks: d, State: b.state(d.Name),
	}
}

func (b *Bucket) state(key string) *State {
	if b.records == nil {
		return nil
	}
	if item, ok, _ := b.records.GetStore().GetByKey(key); ok {
		return &item.(*record).State
	}
	return nil
}

// ClientKey is a key of NATS as client-go has it, where keys have a namespace.
func ClientKey(key string, namespaced bool) string {
	if namespaced {
		return strings.Replace(key, ".", "/", 1)
	}
	return key
}

// NATSKey is a key of client-go as NATS has it.
func NATSKey(key string) string { return strings.Replace(key, "/", ".", 1) }
