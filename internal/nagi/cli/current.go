package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mostConflicts is how often a change is tried anew because another writer came in between.
const mostConflicts = 5

// client is an entity's.
type client = entity.Client[*kinds.Object]

// writer is a client for the documents of a kind alone, without their records. There is one for each bucket.
func (s *session) writer(ctx context.Context, k *kinds.Kind) (*client, error) {
	if c := s.writers[k.Bucket]; c != nil {
		return c, nil
	}
	entry := *k.Entry
	entry.StatusBucket = ""
	c, err := s.client(ctx, &kinds.Kind{Entry: &entry, Registered: k.Registered})
	if err != nil {
		return nil, err
	}
	if s.writers == nil {
		s.writers = map[string]*client{}
	}
	s.writers[k.Bucket] = c
	return c, nil
}

// current is a document as its bucket has it.
type current struct {
	value    []byte
	object   map[string]any // nil if there is no document, or it is no JSON object
	revision uint64         // 0 if there is none
}

func (c *current) exists() bool { return c.revision != 0 }

// read reads a document live. It is no error that there is none.
func (s *session) read(ctx context.Context, c *client, key string) (*current, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	value, revision, err := c.GetRaw(ctx, key)
	if apierrors.IsNotFound(err) {
		return &current{}, nil
	}
	if err != nil {
		return nil, err
	}
	object, _ := manifests.FromJSON(value)
	return &current{value, object, revision}, nil
}

// nothingThere is the error about a document that must be there and is not.
func nothingThere(a target) error {
	of := target{kind: a.kind}.String()
	if !a.kind.Registered {
		of = "--bucket " + of
	}
	return withCode(CodeNotFound, fmt.Errorf("there is no %s: nagi get %s lists those that there are", a, of))
}

// existing is read for a document that must be there.
func (s *session) existing(ctx context.Context, c *client, a target) (*current, error) {
	now, err := s.read(ctx, c, a.key)
	if err == nil && !now.exists() {
		err = nothingThere(a)
	}
	return now, err
}

// write makes wanted of a document by compare-and-set; apierrors.IsConflict if it is at another revision by now. Unless
// opts say more of it, what is left of the document's TTL is kept, and members that do not change keep their text. A
// document that is no JSON object is replaced as a whole, without its TTL.
func (s *session) write(
	ctx context.Context, c *client, key string, now *current, wanted map[string]any, opts ...entity.WriteOption,
) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if now.object == nil {
		text, err := manifests.JSON(wanted)
		if err != nil {
			return err
		}
		if !now.exists() {
			_, err = c.CreateDocumentWith(ctx, key, text, opts...)
		} else {
			_, err = c.PutRaw(ctx, key, text, now.revision)
		}
		return err
	}
	patch := threeway.Diff(now.object, wanted)
	if len(patch) == 0 && len(opts) == 0 {
		return nil
	}
	meta, isObject := patch["metadata"].(map[string]any)
	if _, changed := patch["metadata"]; changed && !isObject {
		meta = map[string]any{}
		for name := range object(now.object["metadata"]) {
			meta[name] = nil
		}
	}
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["resourceVersion"] = strconv.FormatUint(now.revision, 10)
	patch["metadata"] = meta
	text, err := manifests.JSON(patch)
	if err != nil {
		return err
	}
	return c.PatchWith(ctx, key, text, opts...)
}

// object is v if it is an object, else nil.
func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// change makes of a document what wanted makes of it, as often as another writer comes in between, and returns what
// was there and what is. wanted returns nil to leave it. With opts what is wanted is written also if it is there.
func (s *session) change(
	ctx context.Context, c *client, a target, wanted func(now *current) (map[string]any, error),
	opts ...entity.WriteOption,
) (was *current, is map[string]any, err error) {
	for range mostConflicts {
		if was, err = s.read(ctx, c, a.key); err != nil {
			return nil, nil, err
		}
		if is, err = wanted(was); err != nil || is == nil {
			return was, is, err
		}
		if err = s.write(ctx, c, a.key, was, is, opts...); err == nil {
			return was, is, nil
		}
		unanswered := codeOf(ctx, err) == CodeUnreachable
		if !unanswered && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return was, is, err
		}
		// It may have been written all the same, by a first try whose answer was lost.
		now, lost := s.read(ctx, c, a.key)
		switch {
		case lost != nil:
			return was, is, notKnown(a, "written", err)
		case now.revision != was.revision && isAs(now, is):
			if was.exists() && len(opts) > 0 {
				continue // another writer may have made it the same, with another TTL
			}
			return was, is, nil
		case unanswered:
			return was, is, fmt.Errorf("%w: no answer came in time, and it is not written yet: look again, and try "+
				"again", err)
		}
	}
	return nil, nil, withCode(CodeRefused, fmt.Errorf("%s is written so often by others that it has changed %d times "+
		"meanwhile: try again: %w", a.String(), mostConflicts, err))
}

// notKnown is the error about a write of which no answer came, where nobody could look what became of it.
func notKnown(a target, done string, err error) error {
	return fmt.Errorf("%w: whether it is %s is not known, as no answer came and it could not be looked at: once the "+
		"server answers, nagi get %s -o yaml shows it", err, done, a)
}

// isAs reports whether a document is what was to be written.
func isAs(now *current, wanted map[string]any) bool {
	is, err1 := manifests.JSON(now.object)
	want, err2 := manifests.JSON(wanted)
	return now.exists() && err1 == nil && err2 == nil && string(is) == string(want)
}

// unhide puts back what is hidden in a document that a user has written.
func unhide(k *kinds.Kind, document map[string]any, now *current) error {
	err := k.KeepHidden(document, now.object)
	if err == nil {
		err = meant(document, now.object, "")
	}
	if kept, ok := errors.AsType[*kinds.NotKept](err); ok {
		return usage(kept)
	}
	return err
}

// meant refuses what says (secret) where the kind has no secret, as with --bucket, unless the document says so already:
// it would take the place of a secret that another command has hidden.
func meant(v, now any, path string) error {
	switch v := v.(type) {
	case string:
		if v == kinds.Hidden && now != any(v) {
			return &kinds.NotKept{Path: path}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := meant(v[name], object(now)[name], strings.TrimPrefix(path+"."+name, ".")); err != nil {
				return err
			}
		}
	case []any:
		was, _ := now.([]any)
		for i := range v {
			var before any
			if i < len(was) {
				before = was[i]
			}
			if err := meant(v[i], before, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deepCopy copies a document.
func deepCopy(document map[string]any) map[string]any {
	text, err := manifests.JSON(document)
	if err != nil || document == nil {
		return map[string]any{}
	}
	copied, _ := manifests.FromJSON(text)
	return copied
}
