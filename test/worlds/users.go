package worlds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// does is one event, at a place if it happens at a step.
func (w *world) does(ctx context.Context, e Event, at place) {
	r := rand.New(rand.NewPCG(w.plan.Seed, e.Dice))
	w.note("event", "%s", e)
	if about[e.Do].key && e.Key == "" {
		e.Key = w.documentAt(at, r)
	}
	if at.step != "" {
		w.note("event", "%s %s it writes %s/%s", at.by, e.When, at.bucket, at.key)
	}
	switch about[e.Do].to {
	case aUser:
		defer w.take("user")()
		w.useDocument(e, r)
	case aReplica:
		if p := w.victim(e, at); p != nil {
			w.note("event", "%s is %s's", e.Do, p.Name)
			w.disturb(ctx, p, e, r)
		}
	case aStream:
		w.breakStreams(ctx, e, at, r)
	case aClock:
		w.clock.jump(e.jump())
	case aKey:
		w.touch(e, at, r)
	case aReconciler:
		w.setMood(e.Do, 1)
		sleep(ctx, e.For)
		w.setMood(e.Do, -1)
	case theSubject:
		if n := len(w.subject.Faults); n > 0 {
			lasting, end := context.WithTimeout(ctx, e.For)
			defer end()
			w.subject.Faults[r.IntN(n)](lasting, r)
		}
	}
}

// documentAt is the document that a step is about, or any.
func (w *world) documentAt(at place, r *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := at.key
	if slices.Contains(w.subject.Owned, at.bucket) {
		key = w.owners[at.bucket+"/"+at.key]
	}
	if _, ok := w.model[key]; ok {
		return key
	}
	return w.plan.Key(r.IntN(w.plan.Keys))
}

func (w *world) setMood(d deed, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mood[d] += by
}

// document is the next one.
func (w *world) document(r *rand.Rand) []byte {
	w.mu.Lock()
	w.documents++
	n := w.documents
	w.mu.Unlock()
	return w.subject.Document(r, n)
}

// useDocument is what a user does to a document.
func (w *world) useDocument(e Event, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	w.knows(e.Key, unknown, nil)
	err := func() error {
		kv, err := w.js.KeyValue(ctx, w.subject.Primaries)
		if err != nil {
			return err
		}
		switch e.Do {
		case put:
			_, err = kv.Put(ctx, e.Key, w.document(r))
		case patch: // of what is there
			var was jetstream.KeyValueEntry
			if was, err = kv.Get(ctx, e.Key); err == nil {
				_, err = kv.Update(ctx, e.Key, w.document(r), was.Revision())
			}
		case remove:
			err = kv.Delete(ctx, e.Key)
		case recreate:
			if err = kv.Delete(ctx, e.Key); err == nil {
				_, err = kv.Put(ctx, e.Key, w.document(r))
			}
		case invalid:
			_, err = kv.Put(ctx, e.Key, []byte(`{"spec":{"title":17`))
		}
		return err
	}()
	w.note("user", "%s %s: %v", e.Do, e.Key, err)
	w.learn(e.Key)
}

func (w *world) knows(key string, s state, document []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.model[key]; e.state != s || !bytes.Equal(e.document, document) {
		w.model[key] = existence{s, time.Now(), document}
	}
}

// learn reads whether documents exist.
func (w *world) learn(keys ...string) {
	for _, key := range keys {
		w.patiently("reading "+key, func(ctx context.Context) error {
			kv, err := w.js.KeyValue(ctx, w.subject.Primaries)
			if err != nil {
				return err
			}
			d, err := kv.Get(ctx, key)
			switch {
			case err == nil:
				w.knows(key, exists, d.Value())
			case errors.Is(err, jetstream.ErrKeyNotFound):
				w.knows(key, gone, nil)
			default:
				return err
			}
			return nil
		})
	}
}

func (w *world) keys() (all []string) {
	for i := range w.plan.Keys {
		all = append(all, w.plan.Key(i))
	}
	return all
}

// mend ends all faults, and has users replace what does not decode.
func (w *world) mend() {
	for _, p := range w.living() {
		p.wire.heal()
	}
	w.quiet.Store(true)
	for _, key := range w.keys() {
		w.patiently("mending "+key, func(ctx context.Context) error {
			kv, err := w.js.KeyValue(ctx, w.subject.Primaries)
			if err != nil {
				return err
			}
			d, err := kv.Get(ctx, key)
			if errors.Is(err, jetstream.ErrKeyNotFound) || err == nil && json.Valid(d.Value()) {
				return nil
			}
			if err != nil {
				return err
			}
			_, err = kv.Put(ctx, key, w.document(w.plan.Dice("mend", key)))
			return err
		})
	}
	w.learn(w.keys()...)
}
