package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/cmd/nagi/internal/kinds"
	"github.com/nagi-runtime/nagi/cmd/nagi/internal/manifests"
	"github.com/nagi-runtime/nagi/entity"
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
	// Elsewhere names what the controllers own outside of NATS, and NotCounted the buckets that could not be read.
	Elsewhere  []string `json:"elsewhere,omitempty"`
	NotCounted []string `json:"notCounted,omitempty"`
}

// cascadeOf finds what the controllers delete with documents, level by level.
func (s *session) cascadeOf(ctx context.Context, gone []doomed) (all cascade, err error) {
	owners := map[*registry.Entry][]string{}
	for _, d := range gone {
		if !d.orphans() {
			owners[d.kind.Entry] = append(owners[d.kind.Entry], d.key)
		}
	}
	seen := map[string]bool{}
	for len(owners) > 0 {
		next := map[*registry.Entry][]string{}
		for entry, keys := range owners {
			of := kinds.Kind{Entry: entry}
			for _, r := range ownsOf(entry) {
				if r.In != registry.InNATS {
					all.Elsewhere = append(all.Elsewhere, elsewhere(r))
					continue
				}
				k := s.ownedKind(ctx, r)
				found, err := s.ownedBy(ctx, k, entry, keys)
				if codeOf(ctx, err) == CodeForbidden || codeOf(ctx, err) == CodeNotFound {
					all.NotCounted = append(all.NotCounted, printable.Text(r.Bucket))
					continue
				}
				if err != nil {
					return all, fmt.Errorf("counting what %s own in bucket %s: %w", of.Name(), r.Bucket, err)
				}
				for _, d := range found {
					if id := d.Bucket + "/" + d.Key; !seen[id] {
						seen[id] = true
						all.Documents = append(all.Documents, d)
						next[k.Entry] = append(next[k.Entry], d.Key)
					}
				}
			}
		}
		owners = next
	}
	for _, list := range []*[]string{&all.Elsewhere, &all.NotCounted} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(all.Documents, func(a, b dependent) int {
		return strings.Compare(a.Bucket+"/"+a.Key, b.Bucket+"/"+b.Key)
	})
	return all, nil
}

// ownsOf is what the controllers of a kind own.
func ownsOf(e *registry.Entry) (all []registry.Resource) {
	for _, c := range e.Controllers {
		for _, r := range c.Owns {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

func elsewhere(r registry.Resource) string {
	for _, name := range []string{r.Resource, r.Kind, r.Name} {
		if name != "" {
			return printable.Text(name) + " (" + r.In + ")"
		}
	}
	return r.In
}

// ownedKind is the kind of a resource: that of the registry, or of its bucket alone.
func (s *session) ownedKind(ctx context.Context, r registry.Resource) *kinds.Kind {
	if found, err := s.kinds(ctx); err == nil {
		for _, e := range found.Entries {
			if e.Bucket == r.Bucket {
				return &kinds.Kind{Entry: e, Registered: true}
			}
		}
	}
	return kinds.Plain{Bucket: r.Bucket}.Kind()
}

// ownedBy finds the documents that name one of some documents as their owner.
func (s *session) ownedBy(ctx context.Context, k *kinds.Kind, owner *registry.Entry, keys []string) (
	found []dependent, err error,
) {
	byKey, byLabel := map[string]bool{}, map[string]string{}
	for _, key := range keys {
		byKey[key], byLabel[entity.OwnerLabelValue(key)] = true, key
	}
	noted, began := false, time.Now()
	err = s.scan(ctx, k, "", func(d kinds.Document) error {
		if !noted && time.Since(began) > time.Second {
			noted = true
			s.t.Notef("Looking in bucket %s for what would go, too…\n", printable.Text(k.Bucket))
		}
		if !bytes.Contains(d.Value, []byte(entity.OwnerKindAnnotation)) {
			return nil
		}
		document, _ := manifests.FromJSON(d.Value)
		meta := object(document["metadata"])
		key, ok := ownerKey(object(meta["annotations"]), object(meta["labels"]), owner.Kind, byLabel)
		if ok && byKey[key] {
			of := target{&kinds.Kind{Entry: owner}, key}
			found = append(found, dependent{target{kind: k}.String(), k.Bucket, d.Key, of.String()})
		}
		return nil
	})
	return found, err
}

// ownerKey is the key of the owner of this kind that annotations, or else labels, name.
func ownerKey(annotations, labels map[string]any, kind string, byLabel map[string]string) (string, bool) {
	if annotations[entity.OwnerKindAnnotation] == any(kind) {
		key, ok := annotations[entity.OwnerKeyAnnotation].(string)
		return key, ok
	}
	if labels[entity.OwnerKindLabel] == any(kind) {
		value, _ := labels[entity.OwnerKeyLabel].(string)
		key, ok := byLabel[value]
		return key, ok
	}
	return "", false
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
