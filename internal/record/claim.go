package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"k8s.io/klog/v2"
)

// Claim makes a status bucket that of one controller, and keeps the id of its installation there. All methods may be
// called concurrently.
type Claim struct {
	bucket     *Bucket
	controller string
	configured string // the id that the user gave, or ""
	instance   atomic.Pointer[string]
	removed    chan struct{} // a key of the claim was removed
	given      chan struct{} // the id was put
	made       atomic.Bool   // the id, by Settle
	late       lateSources   // see CameLate
}

// NewClaim returns the claim of a controller. Nothing is claimed before Take. instance is the id of the installation if
// the user has given one, else "".
func NewClaim(bucket *Bucket, controller, instance string) *Claim {
	return &Claim{
		bucket: bucket, controller: controller, configured: instance,
		removed: make(chan struct{}, 1), given: make(chan struct{}, 1),
	}
}

// Instance returns the id of this installation, and "" before Settle has succeeded if the bucket did not have it.
func (c *Claim) Instance() string {
	if id := c.instance.Load(); id != nil {
		return *id
	}
	return ""
}

// Take claims the bucket, and learns the id of this installation if the bucket has it. It writes the id if it is known
// or configured, or if a leader has led with it, and the bucket has none. It fails if another controller has claimed
// the bucket, or if the bucket has another id than the one that is configured, and tries again while NATS is away.
func (c *Claim) Take(ctx context.Context) error {
	if err := c.takeBucket(ctx); err != nil {
		return err
	}
	if id := cmp.Or(c.Instance(), c.configured); id != "" {
		return c.keep(ctx, id)
	}
	id, err := c.idIn(ctx, KeyInstance)
	if err == nil && id != "" {
		c.instance.Store(&id)
		return nil
	}
	if err == nil {
		id, err = c.idIn(ctx, KeyLedWith)
	}
	switch {
	case err != nil:
		return fmt.Errorf("controller %q: %w", c.controller, err)
	case id == "":
		return nil
	}
	klog.FromContext(ctx).Error(nil, "The id of this installation was lost: putting back the one that was led with",
		"id", id, "bucket", c.bucket.name)
	return c.keep(ctx, id)
}

// idIn is the id that a key holds; "" if it holds none.
func (c *Claim) idIn(ctx context.Context, key string) (id string, err error) {
	value, _, err := Text(c.bucket, key).Raw(ctx)
	if err != nil || kvstream.IsReply(nil, value) {
		return "", err
	}
	return strings.TrimSpace(string(value)), nil // a file that was put ends with a newline
}

// keep writes the id if the bucket has none, and takes the one that it has.
func (c *Claim) keep(ctx context.Context, id string) error {
	if err := c.forgetAnswer(ctx, KeyInstance); err != nil {
		return fmt.Errorf("controller %q: %w", c.controller, err)
	}
	id, err := Text(c.bucket, KeyInstance).GetOrCreate(ctx, id)
	switch id = strings.TrimSpace(id); {
	case err != nil:
		return fmt.Errorf("controller %q: %w", c.controller, err)
	case id == "":
		return fmt.Errorf("controller %q: %s in the status bucket %s holds nothing but space: put the id of the "+
			"installation there, or delete the key", c.controller, KeyInstance, c.bucket.name)
	case c.configured != "" && id != c.configured:
		return fmt.Errorf("controller %q: the status bucket %s keeps %q as the id of the installation, and %q is "+
			"configured: the objects of primaries carry one of them; configure that one, or stop all replicas and put "+
			"it into %s",
			c.controller, c.bucket.name, id, c.configured, KeyInstance)
	}
	c.instance.Store(&id)
	return nil
}

// Put notes that a key of the bucket was written.
func (c *Claim) Put(key string) {
	if key != KeyInstance && key != KeyController {
		return
	}
	select {
	case c.given <- struct{}{}:
	default:
	}
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

// takeBucket makes the bucket that of the controller.
func (c *Claim) takeBucket(ctx context.Context) error {
	if err := c.forgetAnswer(ctx, KeyController); err != nil {
		return fmt.Errorf("controller %q: %w", c.controller, err)
	}
	holder, err := Text(c.bucket, KeyController).GetOrCreate(ctx, c.controller)
	if err != nil {
		return fmt.Errorf("controller %q: %w", c.controller, err)
	}
	if holder != c.controller {
		return fmt.Errorf("controller %q: the status bucket %s belongs to controller %q; "+
			"one status bucket serves one controller: give the client of this one another StatusBucket; "+
			"in one process derive it from the other client with WithStatusBucket, and they share one cache",
			c.controller, c.bucket.name, holder)
	}
	return nil
}

// BeginTerm takes the bucket for a term. The id that the bucket has is that of the replica that led before: this one
// may have made another while the key was away. It tries again, degraded, until it has succeeded or ctx ends. It does
// not succeed while the id is another one than in the last term and objects tell of it: seen lists them by their ids,
// and stream is that of the primaries' documents.
func (c *Claim) BeginTerm(ctx context.Context, seen func() Sightings, stream func() string) error {
	board := c.bucket.board
	defer func() { // what is still wrong when ctx has ended is the next leader's
		c.bucket.leave(ctx, c.installation())
		c.bucket.leave(ctx, c.name())
	}()
	for {
		err := c.Take(ctx)
		var wrong error
		if err == nil {
			wrong = c.mismatch(ctx, seen, stream())
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.report(ctx, err)
		board.Set(ctx, c.installation(), wrong)
		if err == nil && wrong == nil {
			return nil
		}
		c.await(ctx, lookAgain)
	}
}

// keepInterval is how often a leader looks at its claim: a key may vanish before any cache has seen it.
const keepInterval = time.Minute

// Keep puts back what was removed or changed of the claim, until ctx ends. The id stays that of the term, because
// the secondaries of this installation carry it.
func (c *Claim) Keep(ctx context.Context) {
	defer c.bucket.leave(ctx, c.name()) // it is the next leader's
	for {
		c.await(ctx, keepInterval)
		if ctx.Err() != nil {
			return
		}
		err := c.takeBucket(ctx)
		if err == nil {
			err = c.putBack(ctx)
		}
		if ctx.Err() != nil {
			c.renew() // for the next Keep
			return
		}
		c.report(ctx, err)
	}
}

// putBack writes the id of the term if the bucket has none, or another.
func (c *Claim) putBack(ctx context.Context) error {
	cell, id := Text(c.bucket, KeyInstance), c.Instance()
	found, err := cell.GetOrCreate(ctx, id)
	if errors.Is(err, ErrUnreadable) {
		found, err = "", nil
	}
	if err != nil || strings.TrimSpace(found) == id {
		return err
	}
	klog.FromContext(ctx).Error(nil, "Putting back the id of this installation; stop all replicas to give another",
		"id", id, "found", found, "bucket", c.bucket.name)
	return cell.Store(ctx, id)
}

// await returns when a key of the claim was touched, after a while, or when ctx ends.
func (c *Claim) await(ctx context.Context, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.removed:
	case <-c.given:
	case <-timer.C:
	}
}

func (c *Claim) report(ctx context.Context, err error) { c.bucket.board.Set(ctx, c.name(), err) }

func (c *Claim) name() string { return "claim (bucket " + c.bucket.name + ")" }
