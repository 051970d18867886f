package tree

import (
	"context"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/registry"
)

// Doomed is a document that is to be deleted.
type Doomed struct {
	Kind *kinds.Kind
	Key  string
	// Leaves says that what it owns stays: its deletion policy is orphan.
	Leaves bool
}

// Cascade is what goes with documents when their controllers take them down.
type Cascade struct {
	Goes []Going // each document once, those that are deleted apart, by bucket and key
	// MayStay are documents that name an owner that goes, and that its controller may not count as its own: their notes
	// say why.
	MayStay []Going
	// Elsewhere is what the controllers own outside of NATS, which is not looked at.
	Elsewhere []registry.Resource
	Unread    []Unread
}

// Going is a document, with the owner that it goes with.
type Going struct {
	*Node
	Owner string // as Node.Argument
}

// Unread is what could not be looked through.
type Unread struct {
	registry.Resource
	Err error
}

// Found is a document, with the key that it names as its owner's.
type Found struct {
	follow.Document
	Owner string
}

// Lookup finds the documents of a kind that name one of the keys of another kind as their owner, as
// entity.IsOwnedBy has it, in any order.
type Lookup func(ctx context.Context, in *kinds.Kind, of *kinds.Kind, keys []string) ([]Found, error)

// Cascade finds what goes with documents, level by level. It is an error if ctx ends.
func (b *Builder) Cascade(ctx context.Context, gone []Doomed, look Lookup) (*Cascade, error) {
	c := &cascading{Builder: b, look: look, seen: map[string]bool{}}
	var level []owners
	for _, d := range gone {
		c.seen[d.Kind.Bucket+"/"+d.Key] = true
		if !d.Leaves {
			level = with(level, d.Kind, d.Key)
		}
	}
	for len(level) > 0 && ctx.Err() == nil {
		var next []owners
		for _, of := range level {
			next = c.below(ctx, of, next)
		}
		level = next
	}
	for _, list := range [][]Going{c.found.Goes, c.found.MayStay} {
		slices.SortFunc(list, func(a, b Going) int {
			return strings.Compare(a.Bucket+"/"+a.Key, b.Bucket+"/"+b.Key)
		})
	}
	return &c.found, ctx.Err()
}

// owners are documents of one kind.
type owners struct {
	kind *kinds.Kind
	keys []string
}

func with(level []owners, kind *kinds.Kind, key string) []owners {
	at := slices.IndexFunc(level, func(o owners) bool { return o.kind.Entry == kind.Entry })
	if at < 0 {
		level, at = append(level, owners{kind: kind}), len(level)
	}
	level[at].keys = append(level[at].keys, key)
	return level
}

type cascading struct {
	*Builder
	look  Lookup
	found Cascade
	seen  map[string]bool // bucket and key
}

// below adds what documents own to next, unless that leaves again what it owns.
func (c *cascading) below(ctx context.Context, of owners, next []owners) []owners {
	for _, o := range ownedBy(of.kind) {
		if o.In != registry.InNATS {
			if !slices.Contains(c.found.Elsewhere, o.Resource) {
				c.found.Elsewhere = append(c.found.Elsewhere, o.Resource)
			}
			continue
		}
		entry, registered := c.entryOf(o.Resource)
		kind := &kinds.Kind{Entry: entry, Registered: registered}
		found, err := c.look(ctx, kind, of.kind, of.keys)
		if err != nil {
			c.found.Unread = append(c.found.Unread, Unread{o.Resource, err})
			continue
		}
		for _, f := range found {
			named := owner.NamedBy(f.Marks)
			if !o.allows(named, of.kind.Kind, f.Owner) {
				continue
			}
			n := c.documentNode(entry, f.Document, registered && entry.Namespaced)
			at := n.Bucket + "/" + n.Key
			if c.seen[at] {
				continue
			}
			c.seen[at] = true
			going := Going{n, of.kind.Name() + "/" + f.Owner}
			if why := doubt(named, n.Key, f.Owner); why != "" {
				n.Note = joined(n.Note, why)
				c.found.MayStay = append(c.found.MayStay, going)
				continue
			}
			c.found.Goes = append(c.found.Goes, going)
			if !n.Leaves {
				next = with(next, kind, n.Key)
			}
		}
	}
	return next
}

// Followed is the Lookup in the buckets that are followed.
func (b *Builder) Followed(ctx context.Context, in, of *kinds.Kind, keys []string) (all []Found, err error) {
	bucket, err := b.Buckets.Bucket(ctx, placeOf(in.Entry))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		found, err := bucket.OwnedBy(of.Kind, key)
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			all = append(all, Found{d, key})
		}
	}
	return all, nil
}
