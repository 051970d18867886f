package entity

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nagi-runtime/nagi/internal/kvstream"
)

// Patch applies an RFC 7386 merge patch to the stored JSON by compare-and-set. If another write came in between, it
// applies the patch to that document. Members that T does not know survive. A patch that changes nothing writes
// nothing. A metadata.resourceVersion in the patch is a precondition, as in Kubernetes: IsConflict if the document is
// at another revision. IsInvalid if the patch has a status (use UpdateStatus) or says another kind, or if its result
// does not decode or names another key. IsNotFound if there is no document.
func (c *Client[T]) Patch(ctx context.Context, key string, mergePatch []byte) error {
	return c.PatchWith(ctx, key, mergePatch)
}

// PatchWith is Patch with options: WithTTL and WithoutTTL set, extend, shorten and remove the document's TTL, of which
// Patch keeps what is left. With WithTTL, or where WithoutTTL removes one, a patch that changes nothing, such as {},
// writes the document again as it is.
func (c *Client[T]) PatchWith(ctx context.Context, key string, mergePatch []byte, opts ...WriteOption) error {
	o, err := c.writeOptions(key, opts)
	if err != nil {
		return err
	}
	natsKey, err := c.keys.toNATS(key)
	if err != nil {
		return err
	}
	required, err := c.checkPatch(key, mergePatch)
	if err != nil {
		return err
	}
	if required != 0 {
		mergePatch = withoutPrecondition(mergePatch)
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	before := c.moment()
	last, err := c.documents.last(ctx, natsKey)
	for err == nil {
		if last.live() == nil {
			return newNotFound(c.cfg.Kind, c.cfg.Bucket, key)
		}
		if required != 0 && last.Revision != required {
			return newConflict(c.cfg.Kind, c.cfg.Bucket, key,
				fmt.Sprintf("it is at revision %d, not %d as the patch demands", last.Revision, required))
		}
		var d draft[T]
		var odd *oddity
		var changed bool
		expires := expiryOf(last.entry(natsKey))
		if d, odd, changed, err = c.patched(key, natsKey, last, mergePatch); err != nil {
			return err
		}
		if !changed && (o.lasts == lastsAsBefore || o.lasts == lastsAsBucket && expires == 0) {
			return nil
		}
		if err = c.keepLifetime(ctx, &d, expires); err != nil {
			return err
		}
		if err = c.setLifetime(ctx, &d, o); err != nil {
			return err
		}
		var revision uint64
		if revision, err = c.documents.put(
			ctx, write{key: natsKey, value: d.data, expected: last.Revision, lasts: d.lasts},
		); err == nil {
			c.noteOddity(natsKey, revision, odd.expiring(d.expires), false)
			setRevision(d.sent, revision)
			showExpiry(d.sent, d.expires)
			c.remember(ctx, key, d.sent, sequence{revision, before})
			return nil
		}
		conflict, ok := errors.AsType[*casError](err)
		if !ok || ctx.Err() != nil {
			break
		}
		last, err = conflict.actual, nil
	}
	return err
}

// checkPatch checks the patch and returns the resourceVersion that it demands, 0 if it demands none.
func (c *Client[T]) checkPatch(key string, patch []byte) (uint64, error) {
	if !stdjson.Valid(patch) {
		return 0, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "patch", "it is no JSON")
	}
	members, isObject, err := objectMembers(patch)
	if err != nil || !isObject {
		return 0, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "patch", "a merge patch of a document is a JSON object")
	}
	if _, found := members["status"]; found {
		return 0, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "status",
			"a patch of the document cannot change the status: use UpdateStatus")
	}
	meta, _, err := objectMembers(members["metadata"])
	if err != nil {
		return 0, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "patch", err.Error())
	}
	if meta["resourceVersion"] == nil || isNull(meta["resourceVersion"]) {
		return 0, nil
	}
	var text string
	err = stdjson.Unmarshal(meta["resourceVersion"], &text)
	required, parseErr := strconv.ParseUint(text, 10, 64)
	if text == "" && err == nil {
		return 0, nil
	}
	if err != nil || parseErr != nil || required == 0 {
		return 0, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "metadata.resourceVersion",
			"a revision is a number above 0, as a string")
	}
	return required, nil
}

// withoutPrecondition takes the resourceVersion out of a patch, so that a document without metadata gets none for it.
func withoutPrecondition(patch []byte) []byte {
	members, _, err := objectMembers(patch)
	meta, _, metaErr := objectMembers(members["metadata"])
	if err != nil || metaErr != nil {
		return patch
	}
	delete(meta, "resourceVersion")
	members["metadata"], err = marshalMembers(meta)
	if len(meta) == 0 {
		delete(members, "metadata")
	}
	if rest, restErr := marshalMembers(members); err == nil && restErr == nil {
		return rest
	}
	return patch
}

// patched applies the patch to a stored document and checks the result as any document. If it changes nothing, the
// draft is the document as it is.
func (c *Client[T]) patched(
	key, natsKey string, last *stored, patch []byte,
) (d draft[T], odd *oddity, changed bool, err error) {
	if kvstream.IsReply(last.Header, last.Value) {
		_, err = c.decodeStored(last.entry(natsKey), false)
		return d, nil, false, err
	}
	result, err := mergePatch(last.Value, patch)
	if err == nil {
		result, err = cleanDocument(result)
	}
	if err != nil {
		return d, nil, false, newInvalid(c.cfg.Kind, c.cfg.Bucket, key, "document",
			fmt.Sprintf("revision %d cannot be patched: %v", last.Revision, err))
	}
	before, err := cleanDocument(last.Value)
	if changed = err != nil || !sameJSON(before, result); !changed {
		result = last.Value
	}
	if d.sent, odd, err = c.codec.read(natsKey, last.Revision, result, true); err != nil {
		return d, nil, false, err
	}
	if err := c.checkFinalizers(key, d.sent.GetFinalizers(), finalizersOf(last.Value)); err != nil {
		return d, nil, false, err
	}
	if err := c.checkPatchedType(key, last.Value, result, d.sent); err != nil {
		return d, nil, false, err
	}
	d.key, d.natsKey, d.data = key, natsKey, result
	return d, odd, changed, c.checkSize(key, result)
}
