package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// What external.Reconcile is about to do for a primary, and what it has done, is written down in a reserved key of the status
// bucket, one for each primary that has external resources. An intent that is open when the primary is gone keeps its teardown
// owed: something may have been created that nobody has seen.

// keptIntents is the value of such a key.
type keptIntents struct {
	Key       string                    `json:"key"` // the name may be a hash
	Resources map[string]external.Entry `json:"resources"`
}

// intents knows of which keys this process has written down something: the cache of the status bucket may be behind. Of the
// entries that have to be waited for it knows when it first met them.
type intents struct {
	keyed[map[string]external.Entry]
	since time.Time // when the term began; written between terms
}

func (i *intents) wrote(key string) {
	i.change(key, func(known map[string]external.Entry, _ bool) map[string]external.Entry { return known })
}

// met returns an entry with when this process first met it as it is, where that may have to be known.
func (i *intents) met(key, resource string, entry external.Entry) external.Entry {
	now := time.Now()
	entry.Since = i.since
	if entry.Intent == nil && (entry.Created == nil || !entry.Created.At.After(now)) {
		if _, ok := i.get(key); ok {
			i.change(key, func(known map[string]external.Entry, _ bool) map[string]external.Entry {
				delete(known, resource)
				return known
			})
		}
		return entry
	}
	entry.Seen = now
	i.change(key, func(known map[string]external.Entry, _ bool) map[string]external.Entry {
		if before, ok := known[resource]; ok && before.Same(entry) {
			entry.Seen = before.Seen
			return known
		}
		if known == nil {
			known = map[string]external.Entry{}
		}
		known[resource] = entry
		return known
	})
	return entry
}

// externalRuntime is what external.Reconcile gets of a reconcile.
type externalRuntime struct{ *reconcileContext }

var _ external.Runtime = externalRuntime{}

// Owner implements external.Runtime.
func (r externalRuntime) Owner() external.Owner {
	return external.Owner{Kind: r.engine.kind, Key: r.req.Key, Instance: r.engine.instanceID()}
}

// Store implements external.Runtime.
func (r externalRuntime) Store() external.Store {
	return intentStore{engine: r.engine, key: r.req.Key, saving: &r.saving}
}

// Gate implements external.Runtime.
func (r externalRuntime) Gate(kind string) external.Gate {
	if s := r.engine.external(kind); s != nil {
		return keyGate{s.breaker, r.req.Key, &r.began}
	}
	return nil
}

// Pending implements external.Runtime.
func (r externalRuntime) Pending(what string, after time.Duration) {
	r.reconcileContext.pending.add(what, after)
}

// ReasonDrifted is the reason of the event about an external resource that has drifted and is left so.
const ReasonDrifted = "Drifted"

// Drifted implements external.Runtime.
func (r externalRuntime) Drifted(what string) {
	v := r.engine.primary.View(r.req.Key)
	r.engine.event(r.engine.regarding(r.req.Key, v), eventWarning, ReasonDrifted, what)
}

// pendingNote is what a reconcile waits for, and when to look again.
type pendingNote struct {
	mu    sync.Mutex
	what  string
	after time.Duration
}

func (p *pendingNote) add(what string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what == "" || after < p.after {
		p.after = after
	}
	if p.what == "" {
		p.what = what
	}
}

func (p *pendingNote) get() (after time.Duration, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.after, p.what
}

// intentStore keeps the intents of one primary.
type intentStore struct {
	engine *engine
	key    string
	saving *sync.Mutex
}

var errNoIntents = errors.New("WithoutTeardown there is no status bucket to write intents to; external.Reconcile needs one")

// Load implements external.Store.
func (s intentStore) Load(ctx context.Context, resource string) (external.Entry, error) {
	if s.engine.records == nil {
		return external.Entry{}, errNoIntents
	}
	kept, _, err := s.engine.readIntents(ctx, s.key)
	if err != nil {
		return external.Entry{}, err
	}
	return s.engine.intents.met(s.key, resource, kept.Resources[resource]), nil
}

// Save implements external.Store.
func (s intentStore) Save(ctx context.Context, resource string, before, after external.Entry) error {
	if s.engine.records == nil {
		return errNoIntents
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	for tries := 0; ; tries++ {
		kept, revision, err := s.engine.readIntents(ctx, s.key)
		if err != nil {
			return err
		}
		if !kept.Resources[resource].Same(before) {
			return fmt.Errorf("the intents of %s %q (%s in bucket %s): somebody else has changed what is kept of %s; two reconciles of one resource at once?",
				s.engine.kind, s.key, record.IntentsKey(s.key), s.engine.statusBucket, resource)
		}
		if kept.Resources == nil {
			kept.Resources = map[string]external.Entry{}
		}
		kept.Key = s.key
		kept.Resources[resource] = after
		if after.IsZero() {
			delete(kept.Resources, resource)
		}
		err = s.engine.writeIntents(ctx, kept, revision)
		if err == nil {
			s.engine.intents.met(s.key, resource, after)
			s.engine.made(s.key, resource, kept, before, after)
		}
		if err == nil || tries == maxConflicts || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

// readIntents reads live what is kept for a key.
func (e *engine) readIntents(ctx context.Context, key string) (kept keptIntents, revision uint64, err error) {
	name := record.IntentsKey(key)
	data, revision, err := e.records.GetReserved(ctx, name)
	if apierrors.IsNotFound(err) {
		return keptIntents{Key: key}, 0, nil
	}
	if err != nil {
		return kept, 0, fmt.Errorf("read %s in bucket %s: %w", name, e.statusBucket, err)
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return kept, 0, fmt.Errorf("%s in bucket %s does not decode; mend it, or delete it if nothing is under way: %w", name, e.statusBucket, err)
	}
	if kept.Key != key {
		return kept, 0, fmt.Errorf("%s in bucket %s is of key %q, not of %q; mend it, or delete it if nothing is under way", name, e.statusBucket, kept.Key, key)
	}
	return kept, revision, nil
}

func (e *engine) writeIntents(ctx context.Context, kept keptIntents, revision uint64) error {
	name := record.IntentsKey(kept.Key)
	if len(kept.Resources) == 0 {
		if revision == 0 {
			return nil
		}
		err := e.records.DeleteReserved(ctx, name, revision)
		if apierrors.IsNotFound(err) {
			err = nil
		}
		if err == nil {
			e.intents.forget(kept.Key)
		}
		return err
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	e.intents.wrote(kept.Key)
	_, err = e.records.PutReserved(ctx, name, data, revision)
	return err
}

// mayHaveIntents tells without asking a server whether anything may be kept for a key.
func (e *engine) mayHaveIntents(key string) bool {
	if _, ok := e.intents.get(key); ok || e.filtered {
		return true // the cache of a part of the bucket has no reserved keys
	}
	_, exists, err := e.records.Informer().GetStore().GetByKey(record.IntentsKey(key))
	return exists || err != nil
}

// leftOpen is what is known of the intents that were left open for a primary that is gone, whose reconciler did not settle
// them.
type leftOpen struct {
	told bool           // the caches show what came of those for which a list can tell
	err  error          // of those for which no list can: somebody has to do something
	held []source.Owned // the APIs of these, where an operation goes on: nothing of theirs is to be touched
}

// before is the error of a cleaning up that met another one too. What is left open is settled by somebody else, so the teardown is
// tried again and again, whatever the other one says, but that the document is back.
func (left *leftOpen) before(err error) error {
	if left.err == nil || errors.Is(err, errBackAgain) {
		return err
	}
	return fmt.Errorf("%w; and %v", left.err, err)
}

// intentsLeft looks at the intents that were left open. A call that was sent before a crash may arrive after it.
func (e *engine) intentsLeft(ctx context.Context, key string) (left leftOpen, err error) {
	left.told = true
	if !e.mayHaveIntents(key) {
		return left, nil
	}
	kept, _, err := e.readIntents(ctx, key)
	if err != nil {
		return left, err
	}
	for _, resource := range slices.Sorted(maps.Keys(kept.Resources)) { // sorted, so that the same reasons make the same text
		entry := kept.Resources[resource]
		kind, _, _ := strings.Cut(resource, "/")
		s := e.external(kind)
		switch {
		case entry.Intent == nil && (s == nil || entry.ObserveOnly):
		case s == nil:
			left.err = errors.Join(left.err, fmt.Errorf("%s of external %s, for %s %q, was begun and not seen to be done, and this controller has no client that could list it: "+
				"call external.ReconcileAbsent in the reconcile of the delete, or give it the client (OwnsExternal); or delete %s in bucket %s if nothing is left",
				entry.Intent.Action, resource, e.kind, key, record.IntentsKey(key), e.statusBucket))
		case entry.Intent != nil && entry.Intent.Operation != "":
			left.held = append(left.held, s)
			left.err = errors.Join(left.err, fmt.Errorf("operation %q (%s) of external %s, for %s %q, was begun and not seen to be over; only its driver can ask for it: "+
				"call external.ReconcileAbsent in the reconcile of the delete; or delete %s in bucket %s if nothing is left",
				entry.Intent.Operation, entry.Intent.Action, resource, e.kind, key, record.IntentsKey(key), e.statusBucket))
		default:
			entry = e.intents.met(key, resource, entry)
			if !s.listedFor(ctx, key, entry.Settled(s.config.Timeout, s.config.Settle)) {
				left.told = false
			}
		}
	}
	return left, nil
}

// removeIntents forgets what was kept for a primary that is gone.
func (e *engine) removeIntents(ctx context.Context, key string) error {
	if !e.mayHaveIntents(key) {
		return nil
	}
	name := record.IntentsKey(key)
	_, revision, err := e.records.GetReserved(ctx, name)
	if err == nil {
		err = e.records.DeleteReserved(ctx, name, revision)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the intents of %s %q: %w", e.kind, key, err)
	}
	e.intents.forget(key)
	return nil
}

// spare leaves out of what a primary owned the resources that its reconciler only observed.
func (e *engine) spare(ctx context.Context, key string, targets []ownedObject) (rest []ownedObject, spared bool, err error) {
	if len(e.externals) == 0 || !e.mayHaveIntents(key) {
		return targets, false, nil
	}
	kept, _, err := e.readIntents(ctx, key)
	if err != nil {
		return nil, false, err
	}
	observed, managed := map[string]int{}, map[string]string{}
	for resource, entry := range kept.Resources {
		kind, _, _ := strings.Cut(resource, "/")
		if entry.ObserveOnly {
			observed[kind]++
		} else {
			managed[kind] = resource
		}
	}
	left := map[string]int{}
	for _, target := range targets {
		s, ok := target.source.(*externalSource)
		if !ok || observed[s.resources] == 0 {
			rest = append(rest, target)
			continue
		}
		left[s.resources]++
	}
	for kind, n := range left {
		if managed[kind] != "" && n > observed[kind] {
			return nil, false, fmt.Errorf("%s %q has several external %s, of which some are only observed, and the list does not tell which: "+
				"call external.ReconcileAbsent for %s in the reconcile of the delete", e.kind, key, kind, managed[kind])
		}
	}
	return rest, len(left) > 0, nil
}

// forgottenIntents are those of keys that neither exist nor owe a teardown: somebody has removed the record. Nothing is asked
// of a server for the others.
// Where the client has a Config.Filter the cache has no reserved keys, and none are found.
func (e *engine) forgottenIntents(ctx context.Context) orphaned {
	found := orphaned{source: "intents", owners: map[string]int{}}
	names := map[string]struct{}{}
	for _, name := range e.records.Informer().GetStore().ListKeys() {
		if strings.HasPrefix(name, record.IntentsPrefix) {
			names[name] = struct{}{}
		}
	}
	if len(names) == 0 {
		return found
	}
	found.known = len(names)
	for _, key := range e.primary.Keys() {
		delete(names, record.IntentsKey(key))
	}
	for key, anchor := range e.records.All() {
		if isAnchor(anchor) {
			delete(names, record.IntentsKey(key))
		}
	}
	for name := range names {
		kept, held, err := record.JSON[keptIntents](e.reserved, name).Load(ctx)
		if err != nil || !held || record.IntentsKey(kept.Key) != name {
			continue
		}
		if e.primary.Exists(kept.Key) || isAnchor(e.anchors.cached(kept.Key)) || !e.WellFormed(kept.Key) {
			continue
		}
		found.owners[kept.Key]++
		found.count++
	}
	return found
}
