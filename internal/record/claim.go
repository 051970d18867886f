package record

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nuid"
)

// Claim makes a status bucket that of one controller, and keeps the id of its installation there. All methods may be
// called concurrently.
type Claim struct {
	bucket     *Bucket
	controller string
	instance   atomic.Pointer[string]
	removed    chan struct{} // somebody removed a key of the claim
}

// NewClaim returns the claim of a controller. Nothing is claimed before Take.
func NewClaim(bucket *Bucket, controller string) *Claim {
	return &Claim{bucket: bucket, controller: controller, removed: make(chan struct{}, 1)}
}

// Instance returns the id of this installation, and "" before the first Take has succeeded.
func (c *Claim) Instance() string {
	if id := c.instance.Load(); id != nil {
		return *id
	}
	return ""
}

// Take claims the bucket and learns the id of this installation; it makes one for a bucket without. It fails if another
// controller has claimed the bucket, and tries again while NATS is away.
func (c *Claim) Take(ctx context.Context) error {
	holder, err := Text(c.bucket, KeyController).GetOrCreate(ctx, c.controller)
	if err != nil {
		return fmt.Errorf("controller %q: %w", c.controller, err)
	}
	if holder != c.controller {
		return fmt.Errorf("controller %q: the status bucket %s belongs to controller %q; "+
			"one status bucket serves one controller: give the client of this one another StatusBucket",
			c.controller, c.bucket.name, holder)
	}
	id := c.Instance()
	if id == "" {
		id = nuid.Next()
	}
	if id, err = Text(c.bucket, KeyInstance).GetOrCreate(ctx, id); err != nil {
		return fmt.Errorf("controller %q: %w", c.controller, err)
	}
	c.instance.Store(&id)
	return nil
}

// Removed notes that a key of the bucket was removed. Keep acts on it if the key belongs to the claim.
func (c *Claim) Removed(key string) {
	if key == KeyController || key == KeyInstance {
		c.renew()
	}
}

func (c *Claim) renew() {
	select {
	case c.removed <- struct{}{}:
	default:
	}
}

// Keep claims the bucket again when somebody removed a key of the claim, or the whole bucket, until ctx ends. The id
// stays the same, because the secondaries of this installation carry it.
func (c *Claim) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.removed:
		}
		err := c.Take(ctx)
		if ctx.Err() != nil {
			c.renew() // for the next Keep
			return
		}
		c.bucket.board.Set(ctx, "claim (bucket "+c.bucket.name+")", err)
	}
}
