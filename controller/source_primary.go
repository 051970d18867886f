package controller

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/engine"
)

// WithPrimary gives options, such as predicates, to the source of the primaries. A predicate does not hold back owed
// deletes, nor changes of the annotations that the runtime reads. Resync still reconciles the keys it filtered.
func WithPrimary(opts ...SourceOption) Option {
	return func(o *engine.Options) error {
		so, err := applySourceOptions(opts)
		if err != nil {
			return fmt.Errorf("WithPrimary: %w", err)
		}
		if so.deleter != nil {
			return errors.New("WithPrimary: WithDeleter is for Kubernetes sources; the runtime never deletes primaries")
		}
		if so.prune {
			return errors.New("WithPrimary: WithPrune is for Owns and OwnsKube; the runtime never deletes primaries")
		}
		if so.optional {
			return errors.New("WithPrimary: WithOptional is for what is owned or watched; " +
				"without its primaries a controller has nothing to do")
		}
		if err := errors.Join(so.onlyForKube(), so.onlyForOwned()); err != nil {
			return fmt.Errorf("WithPrimary: %w", err)
		}
		o.Predicates = append(o.Predicates, so.predicates...)
		return nil
	}
}
