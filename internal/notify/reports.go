package notify

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// Lines limits how much is told of what others wrote: who may write can write any number of keys that are wrong, any
// number of times. The zero Lines is ready. All methods may be called concurrently.
type Lines struct {
	once    sync.Once
	limiter *rate.Limiter
}

// Allow reports whether one more line, or event, may be told now.
func (l *Lines) Allow() bool {
	l.once.Do(func() { l.limiter = rate.NewLimiter(LinesPerSecond, LinesAtOnce) })
	return l.limiter.Allow()
}

const (
	// LinesPerSecond is how many lines about foreign keys are logged, LinesAtOnce how many after a quiet time.
	LinesPerSecond = 10
	LinesAtOnce    = 50
	// Pause is how long a key that stays wrong rests between two looks at it.
	Pause = time.Second

	// keysKnown is how many keys are remembered; then they are forgotten, and reported once more.
	keysKnown = 10_000
	// leftOutEvery is how often a line says how many were left out, while lines are left out.
	leftOutEvery = 10 * time.Second
)

// Reports logs what is wrong with keys that others wrote: once for each key until it is mended, and never more lines
// than the limits say. The zero Reports is ready. All methods may be called concurrently.
type Reports struct {
	known atomic.Int64 // len(keys), so that most calls of Mended take no lock

	mu      sync.Mutex
	keys    map[string]time.Time // by printable.Text of the key: when it was last looked at; zero if it was not yet
	lines   Lines
	leftOut int       // lines since the last one that said how many
	said    time.Time // when one did
}

// Log logs that something is wrong with a key, unless that is known.
func (r *Reports) Log(ctx context.Context, err error, message, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key = printable.Text(key)
	if _, known := r.keys[key]; known {
		return
	}
	if r.keys == nil || len(r.keys) >= keysKnown {
		r.keys = map[string]time.Time{}
	}
	r.keys[key] = time.Time{}
	r.known.Store(int64(len(r.keys)))
	logger := printable.Logger(klog.FromContext(ctx)).WithCallDepth(1) // its caller reports
	now := time.Now()
	if r.lines.Allow() {
		logger.Error(err, message, "key", key)
		return
	}
	r.leftOut++
	if now.Sub(r.said) >= leftOutEvery {
		logger.Error(nil, "Reports about keys are left out, because there are many; Stats counts all of them",
			"leftOut", r.leftOut, "last", message)
		r.leftOut, r.said = 0, now
	}
}

// Mended forgets a key.
func (r *Reports) Mended(key string) {
	if r.known.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, printable.Text(key))
	r.known.Store(int64(len(r.keys)))
}

// Forget forgets all keys that begin with a prefix, which must be printable.
func (r *Reports) Forget(prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.keys, func(key string, _ time.Time) bool {
		return strings.HasPrefix(strings.TrimPrefix(key, `"`), prefix) // quoted if the rest is not printable
	})
	r.known.Store(int64(len(r.keys)))
}

// Look notes that a key is looked at now. rest is how long to wait instead, because it was looked at less than Pause
// ago. first is true for the first look after Log.
func (r *Reports) Look(key string) (rest time.Duration, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key = printable.Text(key)
	last, known := r.keys[key]
	if rest = Pause - time.Since(last); known && !last.IsZero() && rest > 0 {
		return rest, false
	}
	if known {
		r.keys[key] = time.Now()
	}
	return 0, known && last.IsZero()
}
