package entity

import (
	"bytes"
	"hash/maphash"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// The limits of echoes, by number and by bytes as sent. A controller that keeps up stays far below them. What goes
// beyond was replaced before it was delivered, or the informer cannot watch.
const (
	echoesMost  = 2 * asyncPending
	echoesBytes = 16 << 20
)

// echoes are the records that this process has sent and that its informer has not delivered yet. They save decoding
// those records again. A record is added before it is sent, because it often comes back before its acknowledgement.
// Equal bytes prove that it is the same record. An equal revision does not, because a stream may be made anew or
// restored.
type echoes struct {
	seed maphash.Seed

	mu    sync.Mutex
	byKey map[string]*echo // by NATS key, the last one that was sent
	bytes int              // of all of them
}

// echo is a record as it was sent. Its revision is 0 until the acknowledgement or the informer gives it. From then on
// the object is shared and never changed.
type echo struct {
	hash   uint64
	size   int
	object *RecordObject
}

func newEchoes() *echoes {
	return &echoes{seed: maphash.MakeSeed(), byKey: map[string]*echo{}}
}

func (e *echoes) add(natsKey string, sent []byte, object *RecordObject) *echo {
	own := &echo{hash: maphash.Bytes(e.seed, sent), size: len(sent), object: object}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeLocked(natsKey)
	if len(e.byKey) >= echoesMost || e.bytes+own.size > echoesBytes {
		clear(e.byKey) // they will be decoded instead
		e.bytes = 0
	}
	e.byKey[natsKey] = own
	e.bytes += own.size
	return own
}

// take returns the object that decoding the entry would give, if this process has sent the entry; else nil.
func (e *echoes) take(entry natsinformer.Entry) *RecordObject {
	e.mu.Lock()
	own := e.byKey[entry.Key]
	e.mu.Unlock()
	if own == nil {
		return nil
	}
	if own.hash != maphash.Bytes(e.seed, entry.Value) {
		e.overtaken(entry, own)
		return nil
	}
	object := e.settle(own, entry.Revision)
	if object != nil {
		e.forget(entry.Key, own)
	}
	return object
}

// overtaken forgets an echo when a later record of its key is delivered.
func (e *echoes) overtaken(entry natsinformer.Entry, own *echo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if revision := own.object.Record.Revision; revision != 0 && revision < entry.Revision && e.byKey[entry.Key] == own {
		e.removeLocked(entry.Key)
	}
}

// settle returns the object of an echo at this revision. It returns nil if there is no echo, or if its known revision
// is another one, as when the same bytes were written twice.
func (e *echoes) settle(own *echo, revision uint64) *RecordObject {
	if own == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if own.object.Record.Revision == 0 {
		own.object.setRevision(revision)
	}
	if own.object.Record.Revision != revision {
		return nil
	}
	return own.object
}

func (e *echoes) forget(natsKey string, own *echo) {
	if own == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byKey[natsKey] == own {
		e.removeLocked(natsKey)
	}
}

// forgetKey forgets the echo of a deleted record, because its last revision may never be delivered.
func (e *echoes) forgetKey(natsKey string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeLocked(natsKey)
}

func (e *echoes) removeLocked(natsKey string) {
	if own, ok := e.byKey[natsKey]; ok {
		delete(e.byKey, natsKey)
		e.bytes -= own.size
	}
}

// asDecoded turns a copy of a record into the value that decoding the encoded record gives; ok is false if it cannot.
func (r *Record) asDecoded(encoded []byte) (ok bool) {
	r.Revision = 0
	if len(r.Status) == 0 {
		r.Status = nil
	}
	r.Status = bytes.Clone(r.Status)       // the caller may use the memory again
	ok = bytes.Contains(encoded, r.Status) // encoding neither compacted nor escaped it
	valid := func(s string) { ok = ok && utf8.ValidString(s) }
	valid(r.Controller)
	valid(r.Stream)
	valid(r.DocumentExpires)
	valid(r.DeletionPolicy)
	r.FirstSeen = r.FirstSeen.UTC().Round(0)
	if r.Invalid != nil {
		valid(r.Invalid.Stream)
		valid(r.Invalid.Path)
		valid(r.Invalid.Reason)
	}
	for i := range r.Conditions {
		c := &r.Conditions[i]
		if !c.LastTransitionTime.IsZero() {
			c.LastTransitionTime.Time = time.Unix(c.LastTransitionTime.Unix(), 0)
		}
		valid(c.Type)
		valid(string(c.Status))
		valid(c.Reason)
		valid(c.Message)
	}
	return ok
}
