package page

import (
	"context"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// owned is the tree of what a document owns.
type owned struct {
	Err  string
	SVG  *drawing
	Root *tree.Node
	By   []above
	read time.Time
}

// above is what owns a document, or its owner.
type above struct{ Name, Path, State string }

// byOf are the owners of what a trace began with, the nearest first. What could not be followed is the last one.
func byOf(steps []*tree.Node, link func(*tree.Node) string) (by []above) {
	for i, n := range steps {
		if i > 0 {
			by = append(by, above{printable.Text(n.Argument()), link(n), printable.Text(n.State)})
		}
	}
	if last := steps[len(steps)-1]; last.Note != "" && (len(steps) > 1 || strings.Contains(last.Note, "owner")) {
		by = append(by, above{Name: printable.Message(last.Note)})
	}
	return by
}

// treeOf is the tree of what a document owns. With a cluster it is kept for a moment: to make it asks the API server
// many things.
func (p *Page) treeOf(ctx context.Context, kind *kinds.Kind, key string) owned {
	if p.cfg.Cluster == nil {
		return p.newTree(ctx, kind, key)
	}
	at := kind.Bucket + " " + key
	p.mu.Lock()
	known, ok := p.trees[at]
	p.mu.Unlock()
	if ok && time.Since(known.read) < eventsKept {
		return known
	}
	made := p.newTree(ctx, kind, key)
	made.read = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trees == nil || len(p.trees) > mostViewers {
		p.trees = map[string]owned{}
	}
	p.trees[at] = made
	return made
}

func (p *Page) newTree(ctx context.Context, kind *kinds.Kind, key string) owned {
	found, err := p.kinds(ctx)
	if err == nil {
		var root *tree.Node
		ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
		defer cancel()
		b := p.builder(found)
		if root, err = b.Tree(ctx, kind, key); err == nil {
			o := owned{SVG: draw(root, p.linkOf(found)), Root: root}
			if steps, err := b.Trace(ctx, tree.Of{Kind: kind, Key: key}); err == nil {
				o.By = byOf(steps, p.linkOf(found))
			}
			return o
		}
	}
	return owned{Err: printable.Message(err.Error())}
}

func (p *Page) builder(found *registry.Kinds) *tree.Builder {
	return &tree.Builder{
		Kinds: found.Entries, Buckets: p.buckets, Cluster: p.cfg.Cluster, Controllers: p.controllers,
		Remedies: p.cfg.Remedies,
	}
}

// linkOf says where a node has a page of its own.
func (p *Page) linkOf(found *registry.Kinds) func(n *tree.Node) string {
	return func(n *tree.Node) string {
		for _, e := range found.Entries {
			if n.In == registry.InNATS && n.Key != "" && e.Bucket == n.Bucket {
				return pathOf(registry.Key(e.Kind, e.APIVersion), n.Key)
			}
		}
		return ""
	}
}
