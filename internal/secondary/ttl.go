package secondary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lasting is what a write says of the TTL of the entity. nil leaves it as it is.
type lasting struct {
	ttl    time.Duration // 0 for none
	option entity.WriteOption
}

// WithTTL is that of package controller.
func WithTTL(ttl time.Duration) Option {
	return func(o *Options) error {
		if ttl <= 0 {
			return fmt.Errorf("WithTTL(%v): such a TTL is over already; give one above 0, or WithoutTTL for none", ttl)
		}
		o.lasts = &lasting{ttl, entity.WithTTL(ttl)}
		return nil
	}
}

// WithoutTTL is that of package controller.
func WithoutTTL() Option {
	return func(o *Options) error {
		o.lasts = &lasting{option: entity.WithoutTTL()}
		return nil
	}
}

// CheckNoTTL refuses options that say how long an object lasts that has no TTL.
func (o Options) CheckNoTTL() error {
	if o.lasts == nil {
		return nil
	}
	return errors.New("objects in Kubernetes have no TTL: leave WithTTL and WithoutTTL away, and delete the object " +
		"when it is to end")
}

// isMet reports whether an entity need not be written for its TTL alone. About as much as is wanted will do: each write
// wakes who watches the entity, mostly the reconcile that writes it.
func (l *lasting) isMet(existing metav1.Object, now time.Time) bool {
	if l == nil {
		return true
	}
	ends, ok := entity.ExpiresAt(existing)
	if l.ttl == 0 {
		return existing.GetAnnotations()[entity.ExpiresAnnotation] == ""
	}
	left := ends.Sub(now)
	return ok && left >= l.ttl/2 && left/2 <= l.ttl
}

func create[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], obj T, lasts *lasting) error {
	if lasts == nil {
		return client.Create(ctx, obj)
	}
	return client.CreateWith(ctx, obj, lasts.option)
}

func update[T entity.IEntity](ctx context.Context, client entity.IEntityClient[T], obj T, lasts *lasting) error {
	if lasts == nil {
		return client.Update(ctx, obj)
	}
	return client.UpdateWith(ctx, obj, lasts.option)
}
