package entity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"k8s.io/apimachinery/pkg/api/meta"
)

// wholeDocumentOf encodes an entity that the cache has, as DocumentOf does, together with the members of its document
// that T does not know, and the zeros that it writes out and T leaves out. The LastDocument of a record is made so.
// Where those members have taken too much memory to be kept in it (64 MiB for all documents together), and in kinds
// with secret fields, they are missing; of unknown ones Records.LastDocumentLacks finds that out. So are the secret
// fields of what interfaces hold, which the type T does not tell of, and what a transform of the informer left out, see
// WholeDocument.
func (c *Client[T]) wholeDocumentOf(obj T) ([]byte, error) {
	return c.wholeOf(obj, func() *oddity {
		if !c.codec.keeps || c.shared.oddities.count.Load() == 0 {
			return nil
		}
		key, err := c.keys.of(obj)
		if err != nil {
			return nil
		}
		natsKey, err := c.keys.toNATS(key)
		if err != nil {
			return nil
		}
		odd, _ := c.oddityOf(key, natsKey, uint64(obj.GetGeneration()))
		return odd
	})
}

// wholeOf encodes an entity without the secret fields of what its interfaces hold, and adds the members that T does not
// know, if none of them can be a secret.
func (c *Client[T]) wholeOf(obj T, oddityOf func() *oddity) ([]byte, error) {
	document, err := c.DocumentOf(obj)
	if err != nil {
		return nil, err
	}
	if c.codec.holds {
		held, err := jsonshape.SecretsOfValue(obj)
		if err != nil {
			return nil, fmt.Errorf("leave out the secret fields of %s: %w", c.cfg.Kind, err)
		}
		if held != nil {
			return held.Drop(document)
		}
	}
	// Of a kind with secret fields a member that T does not know may be a secret, wrongly written or of another
	// version.
	if c.codec.secrets != nil {
		return document, nil
	}
	return c.withUnknown(document, oddityOf()), nil
}

// withUnknown adds to a document the members that T does not know or leaves out, if they fit.
func (c *Client[T]) withUnknown(document []byte, odd *oddity) []byte {
	if odd == nil || odd.kept == nil {
		return document
	}
	whole, err := jsonshape.MergeKept(document, odd.kept)
	if err != nil || checkDepth(whole) != nil || len(whole) > max(c.cfg.LastDocumentLimit, 0) {
		return document // what T knows is enough to clean up after it
	}
	return whole
}

// WholeDocument implements EnginePort.
func (c enginePort[T]) WholeDocument(ctx context.Context, obj T) ([]byte, error) {
	if !IsTransformed(obj) {
		return c.wholeDocumentOf(obj)
	}
	key, err := c.keys.of(obj)
	if err != nil {
		return nil, err
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return nil, err
	}
	revision := uint64(obj.GetGeneration())
	value, err := c.originalOf(ctx, key, natsKey, revision, obj)
	if err != nil {
		return nil, err
	}
	whole, odd, err := c.codec.read(natsKey, revision, value, true)
	if err != nil {
		return nil, err
	}
	return c.wholeOf(whole, func() *oddity { return odd })
}

// originalOf returns the document that a transform made an object of.
func (c *Client[T]) originalOf(ctx context.Context, key, natsKey string, revision uint64, obj T) ([]byte, error) {
	if d := c.runningDocuments(); d != nil {
		if value, known := d.originals.of(natsKey, revision, obj); known {
			return value, nil
		}
	}
	last, err := c.stillAt(ctx, key, natsKey, revision)
	if err != nil {
		return nil, err
	}
	return last.Value, nil
}

// CreateDocument writes a document as it is under a key that has none, over the marker of its delete if it has one.
// Members that T does not know are written, too. It returns the revision. IsAlreadyExists if the key has a document,
// IsInvalid if the document does not decode into the entity of that key. To put the LastDocument of a record back, use
// PrepareRestore, which writes over nothing.
func (c *Client[T]) CreateDocument(ctx context.Context, key string, document []byte) (revision uint64, err error) {
	return c.CreateDocumentWith(ctx, key, document)
}

// CreateDocumentWith is CreateDocument with options, such as WithTTL. The document is there with its TTL from the
// beginning.
func (c *Client[T]) CreateDocumentWith(
	ctx context.Context, key string, document []byte, opts ...WriteOption,
) (revision uint64, err error) {
	o, err := c.writeOptions(key, opts)
	if err != nil {
		return 0, err
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return 0, err
	}
	sent, odd, err := c.codec.read(natsKey, 0, document, true)
	if err != nil {
		return 0, err
	}
	if err := c.checkSize(key, document); err != nil {
		return 0, err
	}
	d := draft[T]{key: key, natsKey: natsKey, data: bytes.Clone(document), sent: sent, before: c.moment()}
	if err := c.setLifetime(ctx, &d, o); err != nil {
		return 0, err
	}
	revision, err = c.documents.create(ctx, write{key: natsKey, value: d.data, lasts: d.lasts})
	if conflict, ok := errors.AsType[*casError](err); ok {
		return 0, newAlreadyExists(c.cfg.Kind, c.cfg.Bucket, key, conflict.actual.live().revision())
	}
	if err != nil {
		return 0, err
	}
	c.noteOddity(natsKey, revision, odd.expiring(d.expires), false)
	setRevision(sent, revision)
	showExpiry(sent, d.expires)
	c.remember(ctx, key, sent, sequence{revision, d.before})
	return revision, nil
}

// DropsSecrets reports whether T has secret fields (Config.SecretFields), which no LastDocument has.
func (r *Records) DropsSecrets() bool { return r.secrets != nil }

// LastDocumentLacks says, for people, what the LastDocument of a record does not have of the document that it is made
// of; "" if it is whole. There may be none at all. The record is one that Get returned: cached ones have no
// LastDocument.
func (r *Records) LastDocumentLacks(rec *Record) string {
	switch of := meta.FindStatusCondition(rec.Conditions, ConditionDocumentWarnings); {
	case len(rec.LastDocument) == 0:
		return fmt.Sprintf("the record has no last document: it was larger than Config.LastDocumentLimit (%d bytes), "+
			"did not fit into the record, was never reconciled, or was replaced before it could be read past the "+
			"informer's transform (SetTransform, or Config.OnlyMetadata)", max(r.cfg.LastDocumentLimit, 0))
	case r.secrets != nil || r.status.mayLack(rec.LastDocument):
		return fmt.Sprintf("the last document in the record comes without the fields of %s that are secret "+
			"(Config.SecretFields, or their tag)", r.cfg.Kind)
	case of == nil || of.ObservedGeneration != int64(rec.DocumentRevision):
	case !r.status.hasText(rec.LastDocument, of.Message):
		return "the document had text that is no valid UTF-8, or the escape of half a character, and the last " +
			"document in the record has U+FFFD in its place"
	case of.Reason != ReasonUnknownMembers && of.Reason != ReasonSeveralWarnings:
	case !r.status.tellsOf(rec.LastDocument, of.Message):
		return "the document had members that the Go type does not know, and the last document in the record comes " +
			"without some of them: they are in arrays, or too large, or an older version wrote it"
	}
	return ""
}

// mayLack implements statusDecoder.
func (c *codec[T]) mayLack(document []byte) bool {
	if !c.holds {
		return false
	}
	obj := c.new()
	if c.unmarshal(document, obj) != nil {
		return true // a secret may be what it needs
	}
	held, err := jsonshape.SecretsOfValue(obj)
	return held != nil || err != nil
}

// tellsOf implements statusDecoder. Of warnings that do not name all members, and of names that look like several
// warnings, it says that they are not there.
func (c *codec[T]) tellsOf(document []byte, warnings string) bool {
	has := c.saidOf(document)
	for _, said := range strings.Split(warnings, "; ") {
		notAll := strings.HasPrefix(said, "and ") && strings.HasSuffix(said, " more") || strings.Contains(said, "…")
		if notAll || strings.Contains(said, ": "+unknownWhy) && !has[said] {
			return false
		}
	}
	return has != nil
}

// hasText implements statusDecoder. The status of a document is not in a last document.
func (c *codec[T]) hasText(document []byte, warnings string) bool {
	has := c.saidOf(document)
	for _, said := range strings.Split(warnings, "; ") {
		path, why, _ := strings.Cut(said, ": ")
		if (why == invalidWhy || why == halfWhy) && path != "status" && !has[said] {
			return false
		}
	}
	return true
}

// saidOf returns the warnings about the members of a document; nil if it is none.
func (c *codec[T]) saidOf(document []byte) map[string]bool {
	found, err := c.members.Look(document)
	if err != nil {
		return nil
	}
	has := map[string]bool{}
	for _, p := range found.Problems {
		has[c.warningOf(p).String()] = true
	}
	return has
}
