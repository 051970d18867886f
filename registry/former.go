package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// leaveFormer takes the controller's part out of the entries of the kinds that its primaries had before, in the group
// of the kind of now, and deletes the entries that have no other part.
func (p *publisher) leaveFormer(ctx context.Context, b *bucket) error {
	for _, kind := range p.engine.FormerKinds() {
		key := Key(kind, p.described.APIVersion)
		now, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		value, changed, err := without(now.value, p.described.Controllers[0])
		switch {
		case err != nil:
			return garbage(key, err)
		case changed && value == nil:
			err = b.remove(ctx, key, now.revision)
		case changed:
			err = b.put(ctx, key, value, now.revision)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// without takes the part of a controller out of an entry; nil if none is left.
func without(value []byte, c Controller) (rest []byte, changed bool, err error) {
	if value == nil {
		return nil, false, nil
	}
	entry := object{}
	if err := json.Unmarshal(value, &entry); err != nil {
		return nil, false, err
	}
	parts, err := partsOf(entry["controllers"])
	if err != nil {
		return nil, false, err
	}
	others := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.is(c) })
	switch {
	case len(others) == len(parts):
		return value, false, nil
	case len(others) == 0:
		return nil, true, nil
	}
	list := make([]object, len(others))
	for i, p := range others {
		list[i] = p.members
	}
	set(entry, map[string]any{"controllers": list})
	rest, err = encoded(entry)
	return rest, true, err
}

// remove deletes a key if it is still at a revision.
func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg := nats.NewMsg(b.puts + subjectPrefix + key)
	msg.Header.Set("KV-Operation", "DEL")
	err := b.denials.Call(ctx, msg.Subject, func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if hasCode(err, codeWrongLastSequence) || hasCode(err, codeBusyOrConflict) {
		err = errChanged
	}
	if err != nil {
		return fmt.Errorf("deleting key %q of bucket %q: %w", key, Bucket, err)
	}
	return nil
}
