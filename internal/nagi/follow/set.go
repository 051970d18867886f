package follow

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// Set opens buckets as they are asked for, and follows them until it is closed. It may be used concurrently.
type Set struct {
	JS jetstream.JetStream
	// Changed is called after each change in one of the buckets; it must return quickly, and may be nil.
	Changed func()

	mu     sync.Mutex
	open   map[Place]*Bucket
	closed bool
}

// Bucket returns a bucket that has synced.
func (s *Set) Bucket(ctx context.Context, at Place) (*Bucket, error) {
	b, err := s.Follow(at)
	if err != nil {
		return nil, err
	}
	return b, b.Wait(ctx)
}

// Follow returns a bucket that may not have synced yet.
func (s *Set) Follow(at Place) (*Bucket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("buckets are followed no more: the program is ending")
	}
	if b := s.open[at]; b != nil {
		return b, nil
	}
	b, err := Open(s.JS, at, s.Changed)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[Place]*Bucket{}
	}
	s.open[at] = b
	return b, nil
}

// Close ends all, for good.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.open {
		b.Close()
	}
	s.open, s.closed = nil, true
}
