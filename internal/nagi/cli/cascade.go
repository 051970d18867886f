package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/follow"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// doomed is a document that is to be deleted.
type doomed struct {
	target
	revision uint64
	value    []byte
}

// orphans reports whether what the document owns stays when it goes.
func (d *doomed) orphans() bool {
	document, _ := manifests.FromJSON(d.value)
	policy := object(object(document["metadata"])["annotations"])[entity.DeletionPolicyAnnotation]
	return policy == any(entity.DeletionPolicyOrphan)
}

// dependent is a document that an owner takes with it.
type dependent struct {
	Kind   string `json:"kind"` // what the registry calls it, and else the bucket
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Owner  string `json:"owner"`
}

// cascade is what goes with documents.
type cascade struct {
	Documents []dependent `json:"documents"`
	// MayStay are documents that name an owner that goes, and that its controller may not count as its own, with the
	// reason.
	MayStay []string `json:"mayStay,omitempty"`
	// Elsewhere names what the controllers own outside of NATS, and NotCounted the buckets that could not be read.
	Elsewhere  []string `json:"elsewhere,omitempty"`
	NotCounted []string `json:"notCounted,omitempty"`
}

// cascadeOf finds what the controllers delete with documents.
func (s *session) cascadeOf(ctx context.Context, gone []doomed) (all cascade, err error) {
	b := &tree.Builder{}
	if found, err := s.kinds(ctx); err == nil {
		b.Kinds = found.Entries
	}
	of := make([]tree.Doomed, 0, len(gone))
	for _, d := range gone {
		of = append(of, tree.Doomed{Kind: d.kind, Key: d.key, Leaves: d.orphans()})
	}
	found, err := b.Cascade(ctx, of, s.ownedBy)
	if err != nil {
		return all, err
	}
	for _, n := range found.Goes {
		name, _ := strings.CutSuffix(n.Argument(), "/"+n.Key)
		all.Documents = append(all.Documents, dependent{printable.Text(name), n.Bucket, n.Key, printable.Text(n.Owner)})
	}
	for _, n := range found.MayStay {
		all.MayStay = append(all.MayStay, printable.Text(n.Argument())+": "+n.Note)
	}
	for _, r := range found.Elsewhere {
		all.Elsewhere = append(all.Elsewhere, elsewhere(r))
	}
	for _, u := range found.Unread {
		if code := codeOf(ctx, u.Err); code != CodeForbidden && code != CodeNotFound {
			return all, fmt.Errorf("counting what goes with them in bucket %s: %w", printable.Text(u.Bucket), u.Err)
		}
		all.NotCounted = append(all.NotCounted, printable.Text(u.Bucket))
	}
	for _, list := range []*[]string{&all.Elsewhere, &all.NotCounted} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return all, nil
}

func elsewhere(r registry.Resource) string {
	for _, name := range []string{r.Resource, r.Kind, r.Name} {
		if name != "" {
			return printable.Text(name) + " (" + r.In + ")"
		}
	}
	return r.In
}

// ownedBy is the tree.Lookup that reads a bucket as it streams by, for it is asked once.
func (s *session) ownedBy(ctx context.Context, in, of *kinds.Kind, keys []string) (found []tree.Found, err error) {
	if !in.Registered {
		in = kinds.Plain{Bucket: in.Bucket}.Kind()
	}
	owners := map[string][]string{} // by value, which owners share
	for _, key := range keys {
		for _, value := range entity.OwnerIndexValues(of.Kind, key) {
			owners[value] = append(owners[value], key)
		}
	}
	noted, began := false, time.Now()
	err = s.scan(ctx, in, "", func(d kinds.Document) error {
		if !noted && time.Since(began) > time.Second {
			noted = true
			s.t.Notef("Looking in bucket %s for what would go, too…\n", printable.Text(in.Bucket))
		}
		if !bytes.Contains(d.Value, []byte(entity.OwnerKindAnnotation)) {
			return nil
		}
		stored, _ := manifests.FromJSON(d.Value) // as it is: a view has the namespace of the key
		marks := kinds.Object{Object: stored}
		for _, key := range owners[entity.OwnerIndexValueOf(&marks)] {
			if entity.IsOwnedBy(&marks, of.Kind, key) {
				document := follow.Document{
					Key: follow.NATSKey(d.Key), Namespace: marks.GetNamespace(), Revision: d.Revision, Marks: &marks,
				}
				found = append(found, tree.Found{Document: document, Owner: key})
				break
			}
		}
		return nil
	})
	return found, err
}

// says tells what goes, in a sentence; "" if nothing does.
func (c *cascade) says() string {
	counts, order := map[string]int{}, []string{}
	for _, d := range c.Documents {
		if counts[d.Bucket]++; counts[d.Bucket] == 1 {
			order = append(order, d.Bucket)
		}
	}
	var parts []string
	for _, bucket := range order {
		parts = append(parts, fmt.Sprintf("%d in %s", counts[bucket], printable.Text(bucket)))
	}
	for _, name := range c.Elsewhere {
		parts = append(parts, name+", which are not counted here")
	}
	for _, name := range c.MayStay {
		parts = append(parts, "perhaps "+printable.Message(name))
	}
	for _, bucket := range c.NotCounted {
		parts = append(parts, "what is in "+bucket+", which could not be read")
	}
	return strings.Join(parts, "; ")
}

// noteDoomed lists what is deleted once the number is confirmed; not for who knows already.
func (t *tool) noteDoomed(c sure, gone []doomed) {
	if c.yes || c.expect >= 0 {
		return
	}
	t.Notef("These go:\n")
	for i, d := range gone {
		if i == mostShown {
			t.Notef("  and %d more\n", len(gone)-i)
			return
		}
		t.Notef("  %s\n", d.String())
	}
}

// announce says what goes with documents, and of which it stays.
func (s *session) announce(ctx context.Context, gone []doomed) error {
	goes, err := s.cascadeOf(ctx, gone)
	if err != nil {
		return err
	}
	if says := goes.says(); says != "" {
		s.t.Notef("What is owned goes, too: %s.\n", says)
	}
	for _, d := range gone {
		if d.orphans() {
			s.t.Notef("What %s owns stays: %s is %s.\n", d.String(), entity.DeletionPolicyAnnotation,
				entity.DeletionPolicyOrphan)
		}
	}
	return nil
}
