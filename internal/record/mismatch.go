package record

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// The id of an installation decides what its controller deletes. While a controller leads it puts back an id that
// was changed; but a new leader takes the one that it finds. So each leader also keeps, under KeyLedWith, the id
// with which it leads. If the id is another one at the next term, and there are objects that were made under the one
// before, or under the one that is there now for documents of another stream, then no replica leads before a person has
// said which is right. A status bucket without a leader so far has no such key, and is that of a new installation. One
// that has the key and no id, because it was removed or a client had the server write an answer over it, tells it so.

// mismatch says why the id in the bucket must not be led with; nil if it may. stream is that of the primaries'
// documents.
func (c *Claim) mismatch(ctx context.Context, seen func() Sightings, stream string) error {
	id := c.Instance()
	led, err := c.idIn(ctx, KeyLedWith)
	if err != nil {
		return err
	}
	if led == id {
		return nil
	}
	if led != "" && c.configured != id {
		if err := c.contradiction(seen(), led, id, stream); err != nil {
			c.instance.Store(&led) // should the bucket be lost while this waits
			return err
		}
	}
	return Text(c.bucket, KeyLedWith).Store(ctx, id)
}

// contradiction says which objects speak against the id; nil if none do.
func (c *Claim) contradiction(seen Sightings, led, id, stream string) error {
	speaking := Sightings{}
	if made, ok := seen[led]; ok {
		speaking[led] = made
	}
	if made, ok := seen[id]; ok && made.Objects > made.Streams[stream] {
		made.Objects -= made.Streams[stream]
		speaking[id] = made
	}
	if len(speaking) == 0 {
		return nil
	}
	return fmt.Errorf("the status bucket %s has another id of this installation than when it was led last: %q, and %q "+
		"before; and there are objects that tell of it: %s. Nothing is reconciled or deleted before it is known which "+
		"is right. To put the one before back: nats kv put %s %s %s. If the new one is meant: WithInstance(%q)",
		c.bucket.name, id, led, speaking, c.bucket.name, KeyInstance, printable.Typed(led, "ID"), id)
}

// forgetAnswer removes what a server has put into a key of the claim.
func (c *Claim) forgetAnswer(ctx context.Context, key string) error {
	cell := Text(c.bucket, key)
	value, revision, err := cell.Raw(ctx)
	if err != nil || !kvstream.IsReply(nil, value) {
		return err
	}
	klog.FromContext(ctx).Info("Removing an answer of the server from the status bucket, which nobody wrote",
		"key", key, "bucket", c.bucket.name)
	return cell.DeleteAt(ctx, revision)
}
