package source

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Divided is a source whose caches may keep of the documents no more than what belongs to the keys of this replica.
type Divided interface {
	Source
	// IsDivided reports whether they are to. Divide has them do so, before they start; Undivide takes that back.
	IsDivided() bool
	Divide() error
	Undivide()
	// Fetch brings into the caches what has become wanted, PutApart takes out of them what is wanted no more.
	Fetch(ctx context.Context) error
	PutApart(ctx context.Context) error
}

// Whole is what a source has whose cache has all.
type Whole struct{}

// Elsewhere implements Owned.
func (Whole) Elsewhere() iter.Seq[entity.ApartDocument] {
	return func(func(entity.ApartDocument) bool) {}
}

// OwnerHash implements Owned.
func (Whole) OwnerHash(string) uint64 { return 0 }

// Read implements Owned.
func (Whole) Read(context.Context, []string) ([]metav1.Object, error) { return nil, nil }

// IsDivided implements Divided.
func (s *NATS[T]) IsDivided() bool { return s.Division != nil }

// Fetch implements Divided.
func (s *NATS[T]) Fetch(ctx context.Context) error { return s.port.Fetch(ctx) }

// PutApart implements Divided.
func (s *NATS[T]) PutApart(ctx context.Context) error { return s.port.PutApart(ctx) }

// Divide implements Divided.
func (s *NATS[T]) Divide() error { return s.divide(owner.Division(s.Division, s.Owner)) }

// Divide implements Divided.
func (s *Primary[T]) Divide() error { return s.divide(s.Division) }

// divide has the caches of the client keep what belongs to keys of this replica.
func (s *NATS[T]) divide(of *entity.Division) error {
	if of == nil {
		return nil
	}
	if err := s.port.Divide(of); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Undivide implements Divided.
func (s *NATS[T]) Undivide() {
	if s.Division != nil {
		_ = s.port.Divide(nil) // fails while others use the caches, which then are as they were
	}
}

// wants reports whether this replica works at a primary.
func (s *NATS[T]) wants(key string) bool { return s.Division == nil || s.Division.Parts.Wants(key) }

// Elsewhere implements Owned.
func (s *NATS[T]) Elsewhere() iter.Seq[entity.ApartDocument] { return s.port.ApartOwned() }

// OwnerHash implements Owned.
func (s *NATS[T]) OwnerHash(key string) uint64 { return s.port.OwnerHash(key) }

const (
	// readAtOnce is how many documents are read at once.
	readAtOnce = 64
	// readPatience is how long that may take.
	readPatience = 10 * time.Second
)

// Read implements Owned.
func (s *NATS[T]) Read(ctx context.Context, keys []string) (found []metav1.Object, err error) {
	for some := range slices.Chunk(keys, readAtOnce) {
		objects, err := s.readSome(ctx, some)
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

func (s *NATS[T]) readSome(ctx context.Context, keys []string) (found []metav1.Object, err error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
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
			case !apierrors.IsNotFound(failed) && !apierrors.IsInvalid(failed):
				err = fmt.Errorf("%s: %w", s, failed)
			}
		})
	}
	reads.Wait()
	return found, err
}

// readOwned reads what a primary owns at which another replica works.
func (s *NATS[T]) readOwned(key string) (objects []metav1.Object, err error) {
	var names []string
	for a := range s.Elsewhere() {
		if a.Owner == s.OwnerHash(key) {
			names = append(names, a.Key)
		}
	}
	found, err := s.Read(context.Background(), names)
	return slices.DeleteFunc(found, func(obj metav1.Object) bool { return !entity.IsOwnedBy(obj, s.Owner, key) }), err
}

var (
	_ Divided = (*NATS[entity.IEntity])(nil)
	_ Divided = (*Primary[entity.IEntity])(nil)
)
