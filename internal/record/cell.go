// Package record keeps the state of a controller in its status bucket.
//
// A [Cell] is one reserved key with a typed value, over a [Store] of three methods. It reads and writes live, by
// compare-and-set. Its methods try until NATS answers or their context ends: while NATS is away nothing can be decided,
// and nothing must be lost. A [Claim] makes the bucket that of one controller. [Anchors] write the records of
// primaries.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/retry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// Store is the reserved keys of a status bucket. Errors are apimachinery's. *entity.Records is a Store.
type Store interface {
	// GetReserved reads a key live. IsNotFound if it is absent.
	GetReserved(ctx context.Context, key string) (value []byte, revision uint64, err error)
	// PutReserved writes a key if it is at this revision, and returns the new one. Revision 0 creates the key.
	PutReserved(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	// DeleteReserved removes a key if it is at this revision. IsNotFound if it is absent.
	DeleteReserved(ctx context.Context, key string, revision uint64) error
}

// Bucket is a status bucket, as far as its reserved keys go.
type Bucket struct {
	store  Store
	name   string
	board  *health.Board
	delays retry.Backoff
}

// NewBucket returns the status bucket of that name. Keys that do not decode are reported to board.
func NewBucket(store Store, name string, board *health.Board) *Bucket {
	return &Bucket{store: store, name: name, board: board, delays: retry.NewBackoff(firstRetry, longestRetry)}
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// The pause after a request that failed grows from firstRetry to longestRetry.
const (
	firstRetry   = 20 * time.Millisecond
	longestRetry = 2 * time.Second
)

// longestRequest bounds one try. A broken connection may have swallowed it; the next one goes over a new connection.
const longestRequest = 5 * time.Second

// ErrUnreadable is for a key whose value does not decode, or is a reply of the server, which no client wrote. Only the
// caller knows what is safe to assume then.
var ErrUnreadable = errors.New("unreadable")

// Cell is one reserved key and the type of its value. All methods may be called concurrently.
type Cell[T any] struct {
	bucket *Bucket
	key    string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

// JSON returns the cell of a key that holds JSON.
func JSON[T any](bucket *Bucket, key string) Cell[T] {
	return Cell[T]{
		bucket: bucket,
		key:    key,
		encode: func(value T) ([]byte, error) { return json.Marshal(value) },
		decode: func(data []byte) (value T, err error) {
			err = json.Unmarshal(data, &value)
			return value, err
		},
	}
}

// Text returns the cell of a key that holds plain text.
func Text(bucket *Bucket, key string) Cell[string] {
	return Cell[string]{
		bucket: bucket,
		key:    key,
		encode: func(value string) ([]byte, error) { return []byte(value), nil },
		decode: func(data []byte) (string, error) { return string(data), nil },
	}
}

// GetOrCreate returns what the key holds. If that is nothing, or an answer of the server, it stores value first. Of
// several writers at once all get the value of one.
func (c Cell[T]) GetOrCreate(ctx context.Context, value T) (T, error) {
	var none T
	fresh, err := c.encoded(value)
	if err != nil {
		return none, err
	}
	var held []byte
	err = c.try(ctx, "read or create", func(ctx context.Context) error {
		data, revision, err := c.get(ctx)
		if err == nil && (len(data) == 0 || kvstream.IsReply(nil, data)) {
			data = fresh
			_, err = c.bucket.store.PutReserved(ctx, c.key, data, revision)
		}
		held = data
		return err
	})
	if err != nil {
		return none, err
	}
	return c.decoded(ctx, held)
}

// Load returns what the key holds; found is false if that is nothing. ErrUnreadable if it does not decode: that is
// reported as degraded until a method finds the key mended, absent, or changes it.
func (c Cell[T]) Load(ctx context.Context) (value T, found bool, err error) {
	var held []byte
	err = c.try(ctx, "read", func(ctx context.Context) (err error) {
		held, _, err = c.get(ctx)
		return err
	})
	if err != nil {
		return value, false, err
	}
	if len(held) == 0 {
		c.report(ctx, nil)
		return value, false, nil
	}
	value, err = c.decoded(ctx, held)
	return value, true, err
}

// Store writes the key, whatever it holds.
func (c Cell[T]) Store(ctx context.Context, value T) error {
	data, err := c.encoded(value)
	if err != nil {
		return err
	}
	err = c.try(ctx, "write", func(ctx context.Context) error {
		_, revision, err := c.get(ctx)
		if err == nil {
			_, err = c.bucket.store.PutReserved(ctx, c.key, data, revision)
		}
		return err
	})
	if err == nil {
		c.report(ctx, nil)
	}
	return err
}

// Delete removes the key, whatever it holds. An absent one is fine.
func (c Cell[T]) Delete(ctx context.Context) error {
	err := c.try(ctx, "delete", func(ctx context.Context) error {
		_, revision, err := c.get(ctx)
		if err == nil && revision > 0 {
			err = c.bucket.store.DeleteReserved(ctx, c.key, revision)
		}
		return err
	})
	if err == nil {
		c.report(ctx, nil)
	}
	return err
}

// Exists reports whether the key is there, also if it holds nothing, or nothing that decodes.
func (c Cell[T]) Exists(ctx context.Context) (bool, error) {
	found := false
	err := c.try(ctx, "read", func(ctx context.Context) error {
		_, revision, err := c.get(ctx)
		found = revision > 0
		return err
	})
	return found && err == nil, err
}

// get reads the key; revision is 0 if it is absent.
func (c Cell[T]) get(ctx context.Context) (data []byte, revision uint64, err error) {
	data, revision, err = c.bucket.store.GetReserved(ctx, c.key)
	if apierrors.IsNotFound(err) {
		return nil, 0, nil
	}
	return data, revision, err
}

// silent is for how long a key may fail before the next failure is reported as degraded: a person waits for it. The
// pauses grow, so that comes within two seconds. A missing permission is reported at once: only a person can give it.
const silent = 500 * time.Millisecond

// try calls f until it succeeds or ctx ends. It fails with fence.ErrMoved, too: another replica has the key.
func (c Cell[T]) try(ctx context.Context, doing string, f func(context.Context) error) (err error) {
	began, told := time.Now(), false
	defer func() {
		switch {
		case told && err == nil:
			c.report(ctx, nil)
		case told: // ctx has ended, and there is no better answer
			c.bucket.leave(ctx, c.name())
		}
	}()
	for failed := 0; ; failed++ {
		bounded, cancel := context.WithTimeout(ctx, longestRequest)
		err = f(bounded)
		cancel()
		if err == nil {
			return nil
		}
		if errors.Is(err, fence.ErrMoved) {
			return fmt.Errorf("%s %s in status bucket %s: %w", doing, c.key, c.bucket.name, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s in status bucket %s: %w (last error: %w)",
				doing, c.key, c.bucket.name, context.Cause(ctx), err)
		}
		if denied := apierrors.IsForbidden(err); told || denied || time.Since(began) >= silent {
			told = true
			c.report(ctx, fmt.Errorf("%s %s in status bucket %s, will try again: %w", doing, c.key, c.bucket.name, err))
		}
		klog.FromContext(ctx).V(2).Info("Will try again",
			"doing", doing, "key", c.key, "bucket", c.bucket.name, "err", err)
		pause(ctx, c.bucket.delays.Delay(failed))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (c Cell[T]) encoded(value T) ([]byte, error) {
	data, err := c.encode(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.key, err)
	}
	return data, nil
}

func (c Cell[T]) decoded(ctx context.Context, data []byte) (T, error) {
	value, err := c.decode(data)
	if kvstream.IsReply(nil, data) {
		err = errAnswer
	}
	if err != nil {
		var none T
		err = fmt.Errorf("%w: %s in status bucket %s does not decode; mend or delete the key: %w",
			ErrUnreadable, c.key, c.bucket.name, err)
		c.report(ctx, err)
		return none, err
	}
	c.report(ctx, nil)
	return value, nil
}

var errAnswer = errors.New("it holds an answer of the server, for which somebody named this key as the reply subject")

func (c Cell[T]) report(ctx context.Context, err error) { c.bucket.board.Set(ctx, c.name(), err) }

func (c Cell[T]) name() string { return c.key + " (bucket " + c.bucket.name + ")" }

// leave takes off the board what the next leader will report.
func (b *Bucket) leave(ctx context.Context, name string) {
	b.board.Leave(context.WithoutCancel(ctx), name, func() error { return nil })
}
