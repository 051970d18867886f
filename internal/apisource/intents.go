package apisource

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/record"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// external.Reconcile writes down what it is about to do for a primary, and what it has done, in a reserved key of the
// status bucket, one for each primary that has external resources. While an intent of a primary that is gone is open,
// its teardown does not end: something may have been created unseen.

// Intents is the value of such a key: see record.IntentsKey.
type Intents struct {
	Key       string                    `json:"key"` // the name may be a hash
	Resources map[string]external.Entry `json:"resources"`
}

// maxConflicts bounds how often intents are written on top of another writer's in a row.
const maxConflicts = 20

// intents knows the keys of which this process has written intents, because the cache of the status bucket may be
// behind. Of the entries that have to be waited for it knows when it first met them.
type intents struct {
	table[*knownEntries]
	since time.Time // when the term began; written between terms
}

// knownEntries are entries by resource. They are changed under the lock of their table.
type knownEntries map[string]external.Entry

// wrote notes that this process writes intents of a key.
func (i *intents) wrote(key string) { i.entries(key, func(knownEntries) {}) }

// entries lets f change the entries of a key, and begins to know the key.
func (i *intents) entries(key string, f func(knownEntries)) {
	i.change(key, func(known **knownEntries) {
		if *known == nil {
			*known = &knownEntries{}
		}
		f(**known)
	})
}

// meet returns an entry with the moment when this process first met it as it is, where that moment may matter.
func (i *intents) meet(key, resource string, entry external.Entry) external.Entry {
	now := time.Now()
	entry.Since = i.since
	if entry.Intent == nil && (entry.Created == nil || !entry.Created.At.After(now)) {
		i.amend(key, func(known **knownEntries) { delete(**known, resource) })
		return entry
	}
	entry.Seen = now
	i.entries(key, func(known knownEntries) {
		if before, ok := known[resource]; ok && before.Same(entry) {
			entry.Seen = before.Seen
			return
		}
		known[resource] = entry
	})
	return entry
}

// mayHaveIntents tells without asking a server whether there may be intents of a key.
func (s *Set) mayHaveIntents(key string) bool {
	return s.intents.of(key) != nil || s.shared.MayExist(record.IntentsKey(key))
}

// readIntents reads the intents of a key from the server.
func (s *Set) readIntents(ctx context.Context, key string) (kept Intents, revision uint64, err error) {
	name, bucket := record.IntentsKey(key), s.shared.Bucket
	data, revision, err := s.shared.Records.GetReserved(ctx, name)
	if apierrors.IsNotFound(err) {
		return Intents{Key: key}, 0, nil
	}
	if err != nil {
		return kept, 0, fmt.Errorf("read %s in bucket %s: %w", name, bucket, err)
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return kept, 0, fmt.Errorf("%s in bucket %s does not decode; mend it, or delete it if nothing is under way: %w",
			name, bucket, err)
	}
	if kept.Key != key {
		return kept, 0, fmt.Errorf("%s in bucket %s is of key %q, not of %q; "+
			"mend it, or delete it if nothing is under way", name, bucket, kept.Key, key)
	}
	return kept, revision, nil
}

// writeIntents replaces the intents of a key if they are at this revision. Where nothing is left it deletes them.
func (s *Set) writeIntents(ctx context.Context, kept Intents, revision uint64) error {
	name := record.IntentsKey(kept.Key)
	if len(kept.Resources) == 0 {
		if revision == 0 {
			return nil
		}
		err := s.shared.Records.DeleteReserved(ctx, name, revision)
		if apierrors.IsNotFound(err) {
			err = nil
		}
		if err == nil {
			s.intents.forget(kept.Key)
		}
		return err
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	s.intents.wrote(kept.Key)
	_, err = s.shared.Records.PutReserved(ctx, name, data, revision)
	return err
}

// RemoveIntents deletes the intents of a primary that is gone.
func (s *Set) RemoveIntents(ctx context.Context, key string) error {
	if !s.mayHaveIntents(key) {
		return nil
	}
	name := record.IntentsKey(key)
	_, revision, err := s.shared.Records.GetReserved(ctx, name)
	if err == nil {
		err = s.shared.Records.DeleteReserved(ctx, name, revision)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the intents of %s %q: %w", s.shared.Kind, key, err)
	}
	s.intents.forget(key)
	return nil
}

// kindOf is the kind of a resource that an entry names: "Kind" or "Kind/name".
func kindOf(resource string) string {
	kind, _, _ := strings.Cut(resource, "/")
	return kind
}
