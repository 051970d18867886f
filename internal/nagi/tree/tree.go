// Package tree finds what a document owns, across NATS, Kubernetes and other places, and what caused an object.
//
// The rule: an object is an owner's if its marks name that owner, as they do for the owner's controller; what an object
// of Kubernetes owns there is told by its ownerReferences. What was not looked at is named, never left out in silence.
package tree

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// note makes a node of a note.
func note(in, kind, text string) *Node { return &Node{In: in, Kind: kind, Note: text} }

// Builder finds trees and traces. It may be used concurrently.
type Builder struct {
	Kinds   []*registry.Entry
	Buckets *follow.Set
	Cluster *Cluster // nil: Kubernetes is not looked at
	Remedies
	// Controllers are asked what documents own behind APIs; nil: they are not.
	Controllers *Controllers
}

// Remedies say where it is set what a tree looks at in Kubernetes, to who misses something in it.
type Remedies struct {
	Cluster    string // for who has none
	Namespaces string // for who may list in none
}

// Limits of a tree: of an owner's depth, and of all objects in it.
const (
	mostDepth = 32
	mostNodes = 5000
)

// Tree is a document with all that it owns. IsNotFound if there is neither a document nor a record of the key, which is
// client-go's.
func (b *Builder) Tree(ctx context.Context, kind *kinds.Kind, key string) (*Node, error) {
	bucket, err := b.Buckets.Bucket(ctx, placeOf(kind.Entry))
	if err != nil {
		return nil, err
	}
	d, ok := bucket.Get(follow.NATSKey(key))
	if !ok {
		return nil, notFound(kind, key)
	}
	g := &growth{
		Builder: b, path: map[string]bool{}, lists: map[string]listed{}, denied: map[string]sets.Set[string]{},
		refused: map[schema.GroupVersionResource]error{},
	}
	root := b.documentNode(kind.Entry, d, kind.Namespaced)
	g.grow(ctx, root, kind, 0)
	g.noteDenied(root)
	if g.left > 0 {
		root.Note = joined(root.Note, fmt.Sprintf("%d more are not shown: a tree has %d objects at most", g.left,
			mostNodes))
	}
	return root, ctx.Err()
}

func notFound(kind *kinds.Kind, key string) error {
	err := apierrors.NewNotFound(schema.GroupResource{Resource: kind.Bucket}, key)
	err.ErrStatus.Message = fmt.Sprintf("there is no %s %s in bucket %s, and no record of it: nagi get %s lists what "+
		"is there", printable.Text(kind.Kind), printable.Quote(key), printable.Text(kind.Bucket),
		printable.Text(kind.Name()))
	return err
}

func placeOf(e *registry.Entry) follow.Place {
	return follow.Place{Bucket: e.Bucket, StatusBucket: e.StatusBucket}
}

// documentNode is the node of a document. Where it is not known whether keys have a namespace, the document says it.
func (b *Builder) documentNode(e *registry.Entry, d follow.Document, namespaced bool) *Node {
	namespaced = namespaced || d.Namespace != "" && strings.HasPrefix(d.Key, d.Namespace+".")
	n := &Node{
		In: registry.InNATS, Kind: e.Kind, APIVersion: e.APIVersion, Bucket: e.Bucket,
		Key: follow.ClientKey(d.Key, namespaced), Health: Unknown, registered: slices.Contains(b.Kinds, e),
	}
	if d.Marks != nil {
		n.Leaves = d.Marks.GetAnnotations()[entity.DeletionPolicyAnnotation] == entity.DeletionPolicyOrphan
	}
	if d.Unreadable {
		n.Note = "the document is not JSON"
	}
	if s := d.State; s != nil {
		n.State, n.Message, n.Since, n.Health = string(s.Phase), s.Message, s.Since, Bad
		switch {
		case d.Gone():
			n.State, n.Note = "Deleting", "there is a record, and no document"
		case s.OK() && s.Observed >= d.Revision:
			n.Health = Good
		case s.OK():
			n.Health = Waiting
			n.Note = joined(n.Note, fmt.Sprintf("revision %d; reconciled is %d", d.Revision, s.Observed))
		}
	}
	return n
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// growth is one tree while it is made.
type growth struct {
	*Builder
	path  map[string]bool // from the root: bucket and key
	nodes int
	left  int               // that were not added
	lists map[string]listed // what was listed in Kubernetes, by resource, namespace and selector
	// refused are the resources that the user may not list in all namespaces.
	refused map[schema.GroupVersionResource]error
	// denied are the resources that a deep look may not list, by namespace.
	denied map[string]sets.Set[string]
	// explained is how often controllers were asked.
	explained int
}

// add adds a child if there is room.
func (g *growth) add(to, child *Node) bool {
	if g.nodes >= mostNodes {
		g.left++
		return false
	}
	g.nodes++
	to.Owns = append(to.Owns, child)
	return true
}

// grow adds what a document owns.
func (g *growth) grow(ctx context.Context, n *Node, kind *kinds.Kind, depth int) {
	if ctx.Err() != nil {
		return
	}
	at := n.Bucket + " " + n.Key
	if g.path[at] {
		n.Note = joined(n.Note, "it owns itself, through others: what follows is above")
		return
	}
	if depth == mostDepth {
		n.Note = joined(n.Note, "what it owns is too deep to be shown: see its own tree")
		return
	}
	g.path[at] = true
	defer delete(g.path, at)
	for _, o := range ownedBy(kind) {
		switch o.In {
		case registry.InNATS:
			g.documents(ctx, n, kind, o, depth)
		case registry.InKubernetes:
			g.objects(ctx, n, kind, o)
		case registry.InExternal:
			g.external(ctx, n, kind, o)
		}
	}
}

// owns is a resource with the installations whose controllers own it.
type owns struct {
	registry.Resource
	instances []string // "" is one that is not known
}

// ownedBy are the resources that the controllers of a kind own: NATS first, then Kubernetes, then what is outside.
func ownedBy(kind *kinds.Kind) (all []owns) {
	for _, c := range kind.Controllers {
		for _, r := range c.Owns {
			at := slices.IndexFunc(all, func(o owns) bool { return o.Resource == r })
			if at < 0 {
				all, at = append(all, owns{Resource: r}), len(all)
			}
			all[at].instances = append(all[at].instances, c.Instance)
		}
	}
	order := []string{registry.InNATS, registry.InKubernetes, registry.InExternal}
	slices.SortStableFunc(all, func(a, b owns) int {
		return cmp.Compare(slices.Index(order, a.In), slices.Index(order, b.In))
	})
	return all
}

// allows reports whether marks name an owner for one of the installations.
func (o owns) allows(named owner.Named, kind, key string) bool {
	return slices.ContainsFunc(o.instances, func(instance string) bool {
		if instance == "" {
			instance = named.Owner().Instance
		}
		return named.Allows(owner.Owner{Kind: kind, Key: key, Instance: instance})
	})
}

// documents adds the documents of a bucket that name the owner.
func (g *growth) documents(ctx context.Context, n *Node, kind *kinds.Kind, o owns, depth int) {
	entry, registered := g.entryOf(o.Resource)
	bucket, err := g.Buckets.Bucket(ctx, placeOf(entry))
	if err != nil {
		g.add(n, note(registry.InNATS, o.Kind, "not looked at: "+err.Error()))
		return
	}
	found, err := bucket.OwnedBy(kind.Kind, n.Key)
	if err != nil {
		g.add(n, note(registry.InNATS, o.Kind, "not looked at: "+err.Error()))
		return
	}
	slices.SortFunc(found, func(a, b follow.Document) int { return strings.Compare(a.Key, b.Key) })
	for _, d := range found {
		named := owner.NamedBy(d.Marks)
		if !o.allows(named, kind.Kind, n.Key) {
			continue
		}
		child := g.documentNode(entry, d, registered && entry.Namespaced)
		child.Note = joined(child.Note, doubt(named, child.Key, n.Key))
		if g.add(n, child) {
			g.grow(ctx, child, &kinds.Kind{Entry: entry, Registered: registered}, depth+1)
		}
	}
}

// doubt is why the owner's controller may not count an object as the owner's though it names it.
func doubt(named owner.Named, key, ownerKey string) string {
	namespace, _, namespaced := strings.Cut(key, "/")
	switch {
	case named.Contradicts():
		return "its labels and annotations name different owners: it stays when the owner goes"
	case namespaced && owner.Crosses(namespace, ownerKey):
		return "it is in another namespace than its owner: it is the owner's only if its source is open to that"
	}
	return ""
}

// entryOf is the entry of a resource in NATS; where the registry has none it is made up, without controllers.
func (b *Builder) entryOf(r registry.Resource) (entry *registry.Entry, registered bool) {
	for _, e := range b.Kinds {
		if e.Bucket == r.Bucket {
			return e, true
		}
	}
	return &registry.Entry{
		Kind: r.Kind, APIVersion: r.APIVersion, Bucket: r.Bucket, StatusBucket: r.StatusBucket,
	}, false
}
