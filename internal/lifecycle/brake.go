package lifecycle

import (
	"context"
	"iter"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// BrakePrimaries are the primaries as the brake sees them. It implements brake.Primaries.
type BrakePrimaries struct {
	Primary interface {
		Exists(key string) bool
		Keys() []string
		View(key string) source.View
		Stream() source.Stream
		Await(ctx context.Context, sequence uint64) error
	}
	Keys *keytable.Table
}

var _ brake.Primaries = BrakePrimaries{}

// Exists implements brake.Primaries.
func (p BrakePrimaries) Exists(key string) bool { return p.Primary.Exists(key) }

// Evidenced implements brake.Primaries.
func (p BrakePrimaries) Evidenced(key string) bool {
	deleted := p.Keys.Of(key).Deleted
	return deleted != nil && deleted.Evidenced
}

// AgedOut implements brake.Primaries.
func (p BrakePrimaries) AgedOut(key string) bool {
	deleted := p.Keys.Of(key).Deleted
	return deleted != nil && deleted.AgedOut
}

// Revisions implements brake.Primaries.
func (p BrakePrimaries) Revisions() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, key := range p.Primary.Keys() {
			if !yield(p.Primary.View(key).Revision) {
				return
			}
		}
	}
}

// Stream implements brake.Primaries.
func (p BrakePrimaries) Stream() brake.Stream { return brake.Stream(p.Primary.Stream()) }

// Await implements brake.Primaries.
func (p BrakePrimaries) Await(ctx context.Context, sequence uint64) error {
	return p.Primary.Await(ctx, sequence)
}
