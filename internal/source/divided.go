package source

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Divided is a source whose caches may keep of the documents no more than what belongs to the keys of this replica.
type Divided interface {
	Source
	// IsDivided reports whether they are to. Divide has them do so, before they start.
	IsDivided() bool
	Divide() error
	// Fetch brings into the caches what has become wanted, PutApart takes out of them what is wanted no more.
	Fetch(ctx context.Context) error
	PutApart(ctx context.Context) error
}

// IsDivided implements Divided.
func (s *NATS[T]) IsDivided() bool { return s.Parts != nil }

// Divide implements Divided.
func (s *NATS[T]) Divide() error { return s.divide(s.Owner) }

// Divide implements Divided.
func (s *Primary[T]) Divide() error { return s.divide("") }

// Fetch implements Divided.
func (s *NATS[T]) Fetch(ctx context.Context) error { return s.port.Fetch(ctx) }

// PutApart implements Divided.
func (s *NATS[T]) PutApart(ctx context.Context) error { return s.port.PutApart(ctx) }

// divide has the caches of the client keep what belongs to keys of this replica. owners is as in entity.EnginePort.
func (s *NATS[T]) divide(owners string) error {
	if s.Parts == nil {
		return nil
	}
	if err := s.port.Divide(s.Parts, owners); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// All implements Owned.
func (s *NATS[T]) All() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for obj := range s.port.CachedDocuments() {
			if !yield(obj) {
				return
			}
		}
		if s.Parts == nil {
			return
		}
		var missing []string
		s.elsewhere(func(key string, _ uint64, exists bool) {
			if !exists {
				missing = append(missing, key)
			}
		})
		unread := error(nil)
		for keys := range slices.Chunk(missing, readAtOnce) {
			found, err := s.read(keys)
			if err != nil {
				unread = err
			}
			for _, obj := range found {
				if !yield(obj) {
					return
				}
			}
		}
		s.unread.Store(&unread)
	}
}

const (
	// readAtOnce is how many documents are read at once.
	readAtOnce = 64
	// readPatience is how long that may take.
	readPatience = 10 * time.Second
)

// read reads documents that are not in the cache. Those that are gone by now are left out.
func (s *NATS[T]) read(keys []string) (found []metav1.Object, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readPatience)
	defer cancel()
	var mu sync.Mutex
	var reads sync.WaitGroup
	for _, key := range keys {
		reads.Go(func() {
			obj, failed := s.client.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed == nil:
				found = append(found, obj)
			case !apierrors.IsNotFound(failed):
				err = failed
			}
		})
	}
	reads.Wait()
	return found, err
}

// readOwned reads what a primary owns at which another replica works.
func (s *NATS[T]) readOwned(owner string) (objects []metav1.Object, err error) {
	var keys []string
	for key, hash := range s.port.ApartOwned() {
		if hash == s.port.OwnerHash(owner) {
			keys = append(keys, key)
		}
	}
	for some := range slices.Chunk(keys, readAtOnce) {
		found, err := s.read(some)
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			if entity.IsOwnedBy(obj, s.Owner, owner) {
				objects = append(objects, obj)
			}
		}
	}
	return objects, nil
}

// elsewhere passes on what others than this replica have, with the hash of its owner, and whether that is there.
func (s *NATS[T]) elsewhere(yield func(key string, owner uint64, exists bool)) {
	var owners map[uint64]struct{}
	for key, owner := range s.port.ApartOwned() {
		if owners == nil {
			owners = map[uint64]struct{}{}
			for key := range s.Owners {
				owners[s.port.OwnerHash(key)] = struct{}{}
			}
		}
		_, exists := owners[owner]
		yield(key, owner, exists)
	}
}

// Elsewhere implements Owned.
func (s *NATS[T]) Elsewhere() (all int, of func(owner string) int) {
	counts := map[uint64]int{}
	s.elsewhere(func(_ string, owner uint64, exists bool) {
		if counts[owner]++; exists {
			all++
		}
	})
	return all, func(owner string) int { return counts[s.port.OwnerHash(owner)] }
}

var (
	_ Divided = (*NATS[entity.IEntity])(nil)
	_ Divided = (*Primary[entity.IEntity])(nil)
)
