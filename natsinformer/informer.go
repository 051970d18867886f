package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/turn"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// Informer is a SharedIndexInformer over a key-value bucket.
//
// SetTransform sets what each document goes through once, right after Config.Decode and before anything of it is kept:
// store, handlers, also those of deletes, and indexers have what it returned. It may change the object in place, or
// return another one with metadata. Name and namespace that it leaves out are set again, as is the resourceVersion;
// it must not change them otherwise. A document that it refuses, or at which it panics, is invalid. It is called from
// any goroutine, and once at a time, so it must be quick and must not wait for this informer. As in client-go it is an
// error to set it after the start.
//
// AddEventHandlerWithResyncPeriod adds a handler without a resync, as client-go does where an informer does none, and
// says so in the log. SetWatchErrorHandler sets who is told of what Config.OnError is told, but for nil.
type Informer interface {
	cache.SharedIndexInformer
	// Exists reports whether the key is in the store, invalid or apart. It takes the key of the store, or that in NATS;
	// one with a slash is the store's. So x/y is the key x.y in NATS if that is an object y in a namespace x, or does
	// not decode; and x.y is never the key x/y.
	Exists(key string) bool
	// Invalid returns the keys (as in NATS) that exist but do not decode, with the reason. The keys are as somebody
	// wrote them, and may have any bytes. Of more than 10,000 keys the rest share ErrManyInvalid as the reason.
	Invalid() map[string]error
	// IsInvalid reports whether the key, as in NATS, exists but does not decode. It costs one look-up.
	IsInvalid(key string) bool
	// InvalidRevision returns the revision at which the key, as in NATS, exists and does not decode; zero if it decodes
	// or is gone.
	InvalidRevision(key string) uint64
	// WhyInvalid returns InvalidRevision and, of that revision, the reason; nil if the key decodes or is gone.
	WhyInvalid(key string) (revision uint64, reason error)
	// Deleted returns the revision of the delete or purge that a key, as in NATS, has ended with; zero if it exists,
	// never was, or has vanished without a message. The store may be about to follow.
	Deleted(key string) (revision uint64)
	// Aged returns the revision of the marker that the server has left in the place of a key, as in NATS, whose value
	// grew older than the bucket's age limit; zero if the key exists, or has ended otherwise. The marker of a delete
	// grows too old, too, and the server may leave one in its place: that is a delete still, as far as it was seen.
	Aged(key string) (revision uint64)
	// Cursor is the stream sequence up to which the store is complete: every change up to it can be read there. It is
	// zero before the first list, and goes down when the stream turns out to be another one. It moves within
	// microseconds of a change. Where sequences are missing (a key was written again before the first write was
	// delivered, or Filter leaves them out), it waits until the server has confirmed that nothing is to come for them.
	Cursor() uint64
	// WaitCursor blocks until Cursor has reached the sequence or the context ends, whose error it then returns. The
	// sequence must be of a key within Config.Filter.
	WaitCursor(ctx context.Context, sequence uint64) error
	// Fetch brings the entries into the store that are apart and of which which is true, and returns when the store has
	// all of them that the leader has; see Apart. which is called concurrently with what Config.Decode decides, and is
	// to say the same: an entry that Config.Decode sets apart again is asked for again, as long as which says so. It
	// waits for an informer that does not watch. The error is that of the context.
	Fetch(ctx context.Context, which func(key string, apart Apart) bool) error
	// PutApart takes the entries out of the store for which of returns what is kept of them, without telling handlers.
	// of must return quickly. PutApart waits for an informer that does not watch. The error is that of the context.
	PutApart(ctx context.Context, of func(key string, object runtime.Object) Apart) error
	// Divided reports whether entries are, or were, apart. If none ever was, Known and AllKnown know nothing.
	Divided() bool
	// Known is what is known of a key, as in NATS, and its revision: an Apart, or the object that is in the store, or
	// is about to be; nil if it does not exist or never decoded.
	Known(key string) (object runtime.Object, revision uint64)
	// AllKnown are all keys of which something is known when it begins, each once.
	AllKnown() iter.Seq2[string, runtime.Object]
	// WaitKey blocks until the store reflects the key, as in NATS, at the revision or a later one (a value, a delete,
	// or an invalid revision), or the context ends, whose error it then returns. Other keys and missing sequences do
	// not hold it up. If the key vanishes without a message meanwhile, it returns a second after the cursor has reached
	// the revision.
	WaitKey(ctx context.Context, key string, revision uint64) error
	// Status tells how the informer is doing.
	Status() Status
}

// Status tells how an informer is doing.
type Status struct {
	// StreamCreated is the creation time of the stream that the store reflects, zero before the first list.
	StreamCreated time.Time
	// StreamChanges counts how often the stream turned out to be another one than before (recreated or restored).
	StreamChanges uint64
	// StreamsNoticed counts how often another stream was noticed; also one that was replaced before it was listed, and
	// the stream that the store reflects when it is noticed again after such a one. StreamsShown is StreamsNoticed of
	// when the stream was noticed that the store reflects: it is less until that stream was listed, or, of one that is
	// noticed again, until all is in the store that was written meanwhile.
	StreamsNoticed, StreamsShown uint64
	// Relisting is true from the moment another stream is noticed until the store reflects it. Meanwhile the store
	// reflects the stream before, or neither.
	Relisting bool
	// Suspect is why the store may show keys that the stream does not have any more, such as after a purge through the
	// API; nil while nothing says so. It goes when the stream was listed again, mostly within a second. SuspectSince is
	// when it came.
	Suspect      error
	SuspectSince time.Time
	// Err is why the informer cannot list or watch now; nil when it can.
	Err error
	// Since is when Err became what it is.
	Since time.Time
	// Lists, Resumes and Compares count full lists, consumers made to go on from the cursor, and comparisons with the
	// server's key set.
	Lists, Resumes, Compares uint64
	// Invalid counts the keys that exist but do not decode.
	Invalid int
	// Behind is how many messages were not taken yet, by what the server said with the last one. Lag is how old the
	// state is that the store shows: for how long the oldest of those messages may wait, or for how long the informer
	// cannot watch. Both are zero where nothing is known to be missing.
	Behind uint64
	Lag    time.Duration
}

// informer is client-go's informer over our source.
type informer struct {
	cache.SharedIndexInformer
	src *source

	mu      sync.Mutex
	started bool // guarded by mu, as is the setting of the transform
}

// New makes an informer that runs once, when its Run or RunWithContext is called. New does not talk to the server. The
// informer waits for a bucket that does not exist yet.
func New(js jetstream.JetStream, cfg Config) (Informer, error) {
	if js == nil {
		return nil, errors.New("natsinformer: a JetStream context is required")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := kvstream.CheckJetStream(js); err != nil {
		return nil, fmt.Errorf("natsinformer: %w", err)
	}
	src := &source{
		busy: turn.New(),

		js: js, cfg: cfg, apiPrefix: apiPrefixOf(js), keys: newKeys(),
		health: &health{bucket: cfg.Bucket, onError: cfg.OnError, reported: cfg.Reported},
		place:  usualPlace(cfg.Bucket), ordered: make(chan struct{}, 1),
	}
	indexers := cache.Indexers{}
	maps.Copy(indexers, cfg.Indexers)
	shared := cache.NewSharedIndexInformerWithOptions(src, nil, cache.SharedIndexInformerOptions{
		Indexers: indexers, ObjectDescription: "bucket " + cfg.Bucket,
	})
	var err error
	if src.progress, err = newProgress(shared); err != nil {
		return nil, fmt.Errorf("natsinformer: bucket %q: %w", cfg.Bucket, err)
	}
	return &informer{SharedIndexInformer: shared, src: src}, nil
}

// SetTransform keeps the transform from client-go, which would apply it to what the source has kept by then, and to
// what was deleted, too.
func (i *informer) SetTransform(call cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return fmt.Errorf("natsinformer: bucket %q: the informer has already started: set its transform before Run",
			i.src.cfg.Bucket)
	}
	i.src.transform = guard.NewTransform(call)
	return nil
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext.
func (i *informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext keeps the handler from client-go, which would never call it: our list and watch never
// fail.
func (i *informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return fmt.Errorf("natsinformer: bucket %q: the informer has already started: "+
			"set its watch error handler before Run", i.src.cfg.Bucket)
	}
	if handler == nil {
		i.src.health.onFailure = nil
		return nil
	}
	// A handler may ask it for its name and type, as client-go's own does.
	reflector := cache.NewReflectorWithOptions(i.src, nil, cache.NewStore(cache.MetaNamespaceKeyFunc),
		cache.ReflectorOptions{Name: "natsinformer", TypeDescription: "bucket " + i.src.cfg.Bucket})
	i.src.health.onFailure = func(ctx context.Context, err error) { handler(ctx, reflector, err) }
	return nil
}

// Run is RunWithContext for a stop channel.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs until the context ends, and returns when nothing of the informer is left, here or on the server.
func (i *informer) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	i.started = true
	i.mu.Unlock()
	i.SharedIndexInformer.RunWithContext(printable.Context(ctx))
	// client-go waits for a watch, but not for a list that was under way.
	if i.src.busy.Take(context.WithoutCancel(ctx)) == nil {
		i.src.busy.Give()
	}
}

func (i *informer) Exists(key string) bool {
	if _, exists, _ := i.GetIndexer().GetByKey(key); exists { // GetByKey never fails
		return true
	}
	// client-go's key of an object in a namespace is namespace/name; in NATS it is namespace.name.
	namespace, name, isStores := strings.Cut(key, "/")
	if !isStores {
		// An object without a namespace whose name has a slash is another one.
		object, exists, _ := i.GetIndexer().GetByKey(strings.Replace(key, ".", "/", 1))
		if exists && isNamespaced(object) {
			return true
		}
	}
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	if !isStores {
		_, exists := i.src.keys.live.get(key)
		return exists
	}
	l, exists := i.src.keys.live.get(namespace + "." + name)
	if !exists || l.held() == nil { // what never decoded, or is apart, may have a namespace
		return exists && !strings.Contains(namespace, ".")
	}
	stored, err := cache.MetaNamespaceKeyFunc(l.object)
	return err == nil && stored == key
}

func isNamespaced(object any) bool {
	accessor, err := meta.Accessor(object)
	return err == nil && accessor.GetNamespace() != ""
}

func (i *informer) Invalid() map[string]error {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	invalid := make(map[string]error, len(i.src.keys.invalid))
	for key, bad := range i.src.keys.invalid {
		invalid[key] = bad.err
	}
	return invalid
}

func (i *informer) IsInvalid(key string) bool {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	_, bad := i.src.keys.invalid[key]
	return bad
}

func (i *informer) InvalidRevision(key string) uint64 {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	return i.src.keys.invalid[key].entry.Revision
}

func (i *informer) WhyInvalid(key string) (revision uint64, reason error) {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	bad := i.src.keys.invalid[key]
	return bad.entry.Revision, bad.err
}

func (i *informer) Deleted(key string) uint64 {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	return i.src.keys.tombs[key].revision
}

func (i *informer) Aged(key string) uint64 {
	i.src.mu.RLock()
	defer i.src.mu.RUnlock()
	if t := i.src.keys.tombs[key]; t.reason == expiredByAge && !t.ordered {
		return t.revision
	}
	return 0
}

func (i *informer) Cursor() uint64 { return i.src.progress.cursor() }

func (i *informer) WaitCursor(ctx context.Context, sequence uint64) error {
	return i.src.progress.wait(ctx, sequence)
}

// vanishedAfter is how long WaitKey waits for a key after the cursor has passed its revision.
const vanishedAfter = time.Second

func (i *informer) WaitKey(ctx context.Context, key string, revision uint64) error {
	var passed time.Time
	processed := func() uint64 {
		i.src.mu.RLock()
		defer i.src.mu.RUnlock()
		return i.src.keys.revisionOf(key)
	}
	done := func() bool {
		if at := processed(); at >= revision {
			return i.src.progress.has(at)
		}
		switch {
		case i.src.progress.cursor() < revision:
			passed = time.Time{}
		case passed.IsZero():
			passed = time.Now()
		default:
			return time.Since(passed) > vanishedAfter
		}
		return false
	}
	return i.src.progress.until(ctx, done, func() bool { return processed() >= revision })
}

func (i *informer) Status() Status {
	if again := i.src.shownAgain.Load(); again != nil && i.Cursor() >= again.end {
		i.src.health.update(func(st *Status) { st.StreamsShown = max(st.StreamsShown, again.noticed) })
		i.src.shownAgain.CompareAndSwap(again, nil)
	}
	status := i.src.health.get()
	status.Behind = i.src.behind.Load()
	if status.Behind > 0 {
		status.Lag = max(0, time.Since(time.Unix(0, i.src.waits.Load())))
	}
	if status.Err != nil {
		status.Lag = max(status.Lag, time.Since(status.Since))
	}
	return status
}
