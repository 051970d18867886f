package record_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

var _ record.Store = (*entity.Records)(nil)

// store is a status bucket in memory.
type store struct {
	mu      sync.Mutex
	entries map[string]entry
	last    uint64
	// before is called before each request. It may answer with an error, or write by itself: another replica does so
	// between a read and the write after it.
	before func(ctx context.Context, request, key string) error
}

type entry struct {
	value    string
	revision uint64
}

var errAway = errors.New("nats: no responders")

func (s *store) ask(ctx context.Context, request, key string) error {
	if s.before != nil {
		if err := s.before(ctx, request, key); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *store) GetReserved(ctx context.Context, key string) ([]byte, uint64, error) {
	if err := s.ask(ctx, "get", key); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.entries[key]
	if !ok {
		return nil, 0, apierrors.NewNotFound(schema.GroupResource{}, key)
	}
	return []byte(held.value), held.revision, nil
}

func (s *store) PutReserved(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := s.ask(ctx, "put", key); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[key].revision != revision {
		return 0, apierrors.NewConflict(schema.GroupResource{}, key, errors.New("another revision"))
	}
	return s.write(key, string(value)), nil
}

func (s *store) DeleteReserved(ctx context.Context, key string, revision uint64) error {
	if err := s.ask(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch held, ok := s.entries[key]; {
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{}, key)
	case held.revision != revision:
		return apierrors.NewConflict(schema.GroupResource{}, key, errors.New("another revision"))
	}
	delete(s.entries, key)
	return nil
}

func (s *store) write(key, value string) uint64 {
	if s.entries == nil {
		s.entries = map[string]entry{}
	}
	s.last++
	s.entries[key] = entry{value, s.last}
	return s.last
}

// put writes as somebody else does, by hand or on another replica.
func (s *store) put(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(key, value)
}

func (s *store) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
}

// has returns what a key holds; ok is false if it is absent.
func (s *store) has(key string) (value string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.entries[key]
	return held.value, ok
}

// failing lets the first requests of each kind fail, and counts all.
func (s *store) failing(requests int, err error) (asked func() int) {
	n := 0
	s.before = func(context.Context, string, string) error {
		if n++; n <= requests {
			return err
		}
		return nil
	}
	return func() int { return n }
}

// once runs f before the first request of a kind.
func (s *store) once(request string, f func()) {
	s.before = func(_ context.Context, r, _ string) error {
		if r == request && f != nil {
			f()
			f = nil
		}
		return nil
	}
}

// bucket returns a status bucket over s, and the board that it reports to.
func (s *store) bucket() (*record.Bucket, *health.Board) {
	board := health.New(nil)
	return record.NewBucket(s, "sites-status", board), board
}

// quiet is a context that logs nothing.
func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
