package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pruneSet deletes the documents of the set that are in no file.
func (a *applying) pruneSet(ctx context.Context, items []*item) error {
	all, err := a.kindsToPrune(ctx, items)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, it := range items {
		kept[it.String()] = true
	}
	var gone []doomed
	for _, k := range all {
		err := a.scan(ctx, k, "", func(d kinds.Document) error {
			of := target{k, d.Key}
			if !kept[of.String()] && a.isOfSet(d.Value) {
				gone = append(gone, doomed{target: of, revision: d.Revision, value: bytes.Clone(d.Value)})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("nothing is pruned, as not all of bucket %s could be read: %w", k.Bucket, err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if !a.dryRun {
		if err := a.announce(ctx, gone); err != nil {
			return err
		}
		a.t.noteDoomed(a.sure, gone)
		what := fmt.Sprintf("%s of set %q in no file", count(len(gone), "document"), a.set)
		if err := a.t.confirm(ctx, a.sure, len(gone), what); err != nil {
			return err
		}
	}
	return a.t.each(ctx, len(gone), func(ctx context.Context, i int) error {
		if !a.dryRun {
			if err := a.remove(ctx, gone[i]); err != nil {
				return err
			}
		}
		return a.tell(gone[i].target, pruned, 0)
	})
}

// kindsToPrune are those in which the set may have documents: all of the registry, or that of --bucket. Of several
// kinds in one bucket, which may read its keys differently, there is one: that of the files, if they have it.
func (a *applying) kindsToPrune(ctx context.Context, items []*item) (all []*kinds.Kind, err error) {
	if a.t.plain.Bucket != "" {
		k, err := a.ofBucket(ctx)
		return []*kinds.Kind{k}, err
	}
	found, err := a.kinds(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	add := func(k *kinds.Kind) {
		if !seen[k.Bucket] {
			seen[k.Bucket] = true
			all = append(all, k)
		}
	}
	for _, it := range items {
		add(it.kind)
	}
	for _, e := range found.Entries {
		add(&kinds.Kind{Entry: e, Registered: true})
	}
	return all, nil
}

func (a *applying) isOfSet(value []byte) bool {
	if !bytes.Contains(value, []byte(setLabel)) {
		return false
	}
	document, _ := manifests.FromJSON(value)
	return object(object(document["metadata"])["labels"])[setLabel] == any(a.set)
}

// remove deletes a document if it is still the one that was shown.
func (s *session) remove(ctx context.Context, d doomed) error {
	c, err := s.writer(ctx, d.kind)
	if err != nil {
		return err
	}
	within, cancel := s.within(ctx)
	defer cancel()
	err = c.Delete(within, d.key, entity.IfRevision(d.revision))
	unanswered := codeOf(ctx, err) == CodeUnreachable
	if unanswered || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// It may be gone all the same, by a first try whose answer was lost.
		now, lost := s.read(ctx, c, d.key)
		switch {
		case lost != nil:
			return notKnown(d.target, "deleted", err)
		case !now.exists():
			return nil
		case unanswered:
			return fmt.Errorf("%s: %w: no answer came in time, and it is still there: look again, and try "+
				"again", d, err)
		}
	}
	if apierrors.IsConflict(err) {
		return withCode(CodeRefused, fmt.Errorf("%s has changed since it was looked at, and stays: look again, and "+
			"delete it then", d.String()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.String(), err)
	}
	return nil
}
