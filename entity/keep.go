package entity

import (
	"context"
	"fmt"
	"slices"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keep adds to a draft what T does not know, or leaves out as zero, of the document that it replaces, and what is left
// of its TTL, and refuses finalizers that it adds. A document without all that pays nothing: the client knows of what
// it has read that there is none. It asks the leader about a revision that it has not read.
func (c *Client[T]) keep(ctx context.Context, d *draft[T], expected uint64) error {
	finalizers := d.sent.GetFinalizers()
	mayExpire := c.documents.markerTTL.Load() > 0 || c.shared.oddities.count.Load() > 0
	if !c.codec.keeps && len(finalizers) == 0 && !mayExpire {
		return nil
	}
	odd, known := c.oddityOf(d.key, d.natsKey, expected)
	if !known {
		var err error
		if odd, err = c.askOddity(ctx, d, expected); err != nil {
			return err
		}
	}
	if odd == nil {
		odd = &oddity{}
	}
	if err := c.checkFinalizers(d.key, finalizers, odd.finalizers); err != nil {
		return err
	}
	if err := c.keepLifetime(ctx, d, odd.expires); err != nil || odd.kept == nil {
		return err
	}
	if odd.refusal != nil {
		return fmt.Errorf("the document cannot be updated, because the members that %v does not know would be kept, "+
			"and Config.Strict refuses them: remove them with a patch, or put another document: %w",
			c.codec.elem, odd.refusal)
	}
	merged, err := jsonshape.MergeKept(d.data, odd.kept)
	if err == nil {
		err = checkDepth(merged)
	}
	if err != nil {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, d.key, "document", fmt.Sprintf(
			"the members that %v does not know cannot be kept: %s", c.codec.elem, c.codec.told(err)))
	}
	d.data = merged
	return c.checkSize(d.key, d.data)
}

// oddityOf returns what is odd about a revision; known is false if the client has not read it.
func (c *Client[T]) oddityOf(key, natsKey string, revision uint64) (odd *oddity, known bool) {
	if odd, known = c.shared.oddities.of(natsKey, revision); known {
		return odd, true
	}
	d := c.runningDocuments()
	if d == nil {
		return nil, false
	}
	if cached, found := d.revisionOf(key); !found || cached != revision {
		return nil, false
	}
	odd, _ = c.shared.oddities.of(natsKey, revision) // it may just have been read
	return odd, odd == nil || !odd.forgotten
}

// askOddity asks the leader. If the document is at another revision, the write will be refused, whatever it keeps.
func (c *Client[T]) askOddity(ctx context.Context, d *draft[T], revision uint64) (*oddity, error) {
	last, err := c.documents.last(ctx, d.natsKey)
	if err != nil {
		return nil, fmt.Errorf("what is written over must be read, to keep its TTL and the members that %v does not "+
			"know: %w", c.codec.elem, err)
	}
	if last.live() == nil || last.Revision != revision || kvstream.IsReply(last.Header, last.Value) {
		return nil, nil
	}
	_, odd, _ := c.codec.read(d.natsKey, revision, last.Value, true) // of what does not decode no member is kept
	return odd.expiring(expiryOf(last.entry(d.natsKey))), nil
}

func (c *Client[T]) checkFinalizers(key string, finalizers, before []string) error {
	for _, finalizer := range finalizers {
		if !slices.Contains(before, finalizer) {
			return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "metadata.finalizers", "Nagi takes none: "+finalizersWhy+
				"; do not add a finalizer, and clean up when the operation is OperationDelete or OperationPurge")
		}
	}
	return nil
}

// checkType refuses a document that says that it is of another kind.
func (c *Client[T]) checkType(key string, sent T) error {
	if w := c.codec.otherType(sent); w != nil {
		return c.refuseType(key, w)
	}
	if c.cfg.Strict == StrictRefuse && len(sent.GetOwnerReferences()) > 0 {
		return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "metadata.ownerReferences", ownerReferencesWhy)
	}
	return nil
}

func (c *Client[T]) refuseType(key string, w *warning) error {
	return newInvalid(c.cfg.Kind, c.cfg.Bucket, key, w.path, w.why+
		": leave it empty, or write with a client of that kind")
}

// checkPatchedType refuses a patch that makes a document say that it is of another kind. One that says so already may
// be patched otherwise.
func (c *Client[T]) checkPatchedType(key string, before, result []byte, sent T) error {
	w := c.codec.otherType(sent)
	if w == nil {
		return nil
	}
	was, is := typeOf(before), typeOf(result)
	if w.path == "kind" && was.Kind == is.Kind || w.path == "apiVersion" && was.APIVersion == is.APIVersion {
		return nil
	}
	return c.refuseType(key, w)
}

// typeOf returns the type of a document as it is stored.
func typeOf(document []byte) (t metav1.TypeMeta) {
	_ = anyJSON.Unmarshal(document, &t) // what does not decode has none
	return t
}

// noteOddity notes what is odd about a revision that was read from the server, or written there. cached says that it is
// the cache that has read it.
func (c *Client[T]) noteOddity(natsKey string, revision uint64, odd *oddity, cached bool) {
	if isPlanned(revision) {
		return
	}
	if odd == nil {
		c.shared.oddities.notePlain(natsKey, revision, cached)
		return
	}
	odd.revision = revision
	c.shared.oddities.note(natsKey, odd, c.isCached)
}

func (c *Client[T]) isCached(natsKey string) bool {
	d := c.runningDocuments()
	return d != nil && d.informer.Exists(natsKey)
}

// DocumentWarnings returns what there is to warn about in a revision of a document that this client has read; nil if
// there is nothing, or Config.Strict is not StrictWarn.
func (c *Client[T]) DocumentWarnings(key string, revision uint64) *DocumentWarnings {
	if c.shared.oddities.count.Load() == 0 {
		return nil
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return nil
	}
	return c.shared.oddities.warningsOf(natsKey, revision)
}

// finalizersOf returns those of a document as it is stored.
func finalizersOf(document []byte) []string {
	var in struct {
		Metadata struct {
			Finalizers []string `json:"finalizers"`
		} `json:"metadata"`
	}
	_ = anyJSON.Unmarshal(document, &in) // what does not decode has none
	return in.Metadata.Finalizers
}
