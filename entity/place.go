package entity

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// place is where the stream of a bucket keeps its keys, and whether it takes writes. A mirror keeps them under the
// subjects of its origin.
type place struct {
	prefix string             // of the subjects of the keys: "$KV.<bucket>."
	found  kvstream.Documents // what the stream's configuration says
	open   bool               // the prefix is a guess, and no message has proved it
	// readOnly says why the bucket takes no writes, and where to write; "" if it takes them.
	readOnly string
	brought  brought
}

// brought is whether the messages of a stream come from another one.
type brought int

const (
	notBrought brought = iota
	mirrored           // under the revisions that they have there
	sourced            // under revisions of this stream
)

// readOnlyError says why a bucket takes no writes.
type readOnlyError struct {
	bucket, why string
	brought     brought
}

func (e *readOnlyError) Error() string {
	return fmt.Sprintf("bucket %q can only be read: %s", e.bucket, e.why)
}

// prefix is what the subjects of the keys begin with. A guess is looked at anew.
func (b *bucket) prefix(ctx context.Context) (string, error) {
	if err := b.ensureOpen(ctx); err != nil {
		return "", err
	}
	if p := b.place.Load(); !p.open {
		return p.prefix, nil
	}
	answer, err := ask[infoAnswer](ctx, b, "STREAM.INFO."+b.stream, nil)
	if err != nil {
		return "", fmt.Errorf("reading the state of bucket %q: %w", b.name, err)
	}
	if err := b.locate(ctx, answer.Config); err != nil {
		return "", err
	}
	return b.place.Load().prefix, nil
}

// locate finds out where the stream keeps the keys.
func (b *bucket) locate(ctx context.Context, s jetstream.StreamConfig) error {
	found, err := kvstream.FindDocuments(b.name, kvstream.StreamOf(s))
	if err != nil {
		return fmt.Errorf("bucket %q: %w", b.name, err)
	}
	p := &place{prefix: found.Prefix, found: found}
	if found.Guessed {
		if err := b.prove(ctx, p); err != nil {
			return err
		}
	}
	p.readOnly = whyReadOnly(s, p)
	switch {
	case s.Mirror != nil:
		p.brought = mirrored
	case len(s.Sources) > 0:
		p.brought = sourced
	}
	b.place.Store(p)
	return nil
}

// prove looks at a message of a mirror, or of what has sources: the origin may itself be a mirror, whose messages are
// of yet another bucket.
func (b *bucket) prove(ctx context.Context, p *place) error {
	for _, filter := range []string{p.prefix + ">", subjectsPerBucket + "*.>", ">"} {
		request, err := stdjson.Marshal(map[string]string{"next_by_subj": filter})
		if err != nil {
			return err
		}
		answer, err := ask[messageAnswer](ctx, b, "STREAM.MSG.GET."+b.stream, request)
		if api, ok := errors.AsType[*apiError](err); ok && api.ErrorCode == codeNoMessage {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading what the stream %s keeps for bucket %q: %w", b.stream, b.name, err)
		}
		if answer.Message == nil {
			return fmt.Errorf("reading what the stream %s keeps for bucket %q: the server answered without a message",
				b.stream, b.name)
		}
		prefix, ok := kvstream.PrefixOf(answer.Message.Subject)
		if !ok {
			return fmt.Errorf("bucket %q: the stream %s keeps no documents of a bucket: %s, and what that has brought "+
				"has the subject %s: copy a bucket, or name another one",
				b.name, b.stream, p.found.Why, answer.Message.Subject)
		}
		p.prefix = prefix
		return nil
	}
	p.open = true
	return nil
}

// moved reports whether the stream keeps the keys elsewhere than when it was looked at. Then it looks again: an answer
// that was asked for under the old subjects says nothing about a key.
func (b *bucket) moved(ctx context.Context, s jetstream.StreamConfig) (bool, error) {
	found, err := kvstream.FindDocuments(b.name, kvstream.StreamOf(s))
	if err == nil && found == b.place.Load().found {
		return false, nil
	}
	return true, b.locate(ctx, s)
}

// whyReadOnly says why a bucket takes no writes, and where to write instead.
func whyReadOnly(s jetstream.StreamConfig, p *place) string {
	switch {
	case s.Sealed:
		return "it is sealed and takes no writes for ever: copy it to another bucket"
	case s.Mirror != nil:
		origin := *s.Mirror
		if prefix, ok := strings.CutPrefix(p.prefix, subjectsPerBucket); ok && origin.External == nil &&
			prefix != bucketOf(s.Name)+"." { // the origin may itself be a mirror
			origin.Name = "KV_" + strings.TrimSuffix(prefix, ".")
		}
		return fmt.Sprintf("it is a mirror of %s: write to %s", s.Mirror.Name, whereIs(&origin))
	case len(s.Sources) > 0:
		why := p.found.Why
		if !p.found.ReadOnly {
			why = "it has sources, which write over compare-and-set, and revisions of its own"
		}
		var where []string
		for _, source := range s.Sources {
			where = append(where, whereIs(source))
		}
		return fmt.Sprintf("%s: write to %s", why, strings.Join(where, ", or to "))
	case p.found.ReadOnly:
		return p.found.Why + ": write to what brings them"
	}
	return ""
}

func bucketOf(stream string) string { return strings.TrimPrefix(stream, "KV_") }

// whereIs names the origin of a mirror or source, and how to reach it.
func whereIs(s *jetstream.StreamSource) string {
	name := fmt.Sprintf("bucket %q", bucketOf(s.Name))
	if bucketOf(s.Name) == s.Name {
		name = fmt.Sprintf("the stream %s", s.Name)
	}
	if s.External == nil || s.External.APIPrefix == "" {
		return name
	}
	prefix := strings.TrimSuffix(s.External.APIPrefix, ".")
	if domain, ok := strings.CutPrefix(prefix, "$JS."); ok && strings.HasSuffix(domain, ".API") {
		return fmt.Sprintf("%s in the JetStream domain %q (jetstream.NewWithDomain)",
			name, strings.TrimSuffix(domain, ".API"))
	}
	return fmt.Sprintf("%s behind the API prefix %q (jetstream.NewWithAPIPrefix)", name, prefix)
}

// ReadOnly returns why the bucket of documents takes no writes, and where to write instead; nil if it takes them. A
// mirror takes none, nor does a bucket that has sources, nor one that is sealed: Get, List, Lister and Informer work,
// and Create, Update, Patch, Delete and CreateOrUpdate of a change return an error for which errors.Is finds ErrRefused
// and apierrors.IsMethodNotSupported holds. It is what the stream was when it was last looked at.
func (c *Client[T]) ReadOnly() error { return c.documents.readOnly() }

// ReadOnly returns why the status bucket takes no writes, and where to write instead; nil if it takes them.
func (r *Records) ReadOnly() error { return r.bucket.readOnly() }

func (b *bucket) readOnly() error {
	if p := b.place.Load(); p.readOnly != "" {
		return &readOnlyError{b.name, p.readOnly, p.brought}
	}
	return nil
}

// takesWrites returns the error of a write to a bucket that can only be read, or that is not open yet.
func (b *bucket) takesWrites(ctx context.Context, natsKey string) error {
	if err := b.ensureOpen(ctx); err != nil {
		return err
	}
	err := b.readOnly()
	if err == nil {
		return nil
	}
	return &readOnlyRefused{statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "", natsKey,
		"writing key %q: %v", natsKey, err)}
}

// readOnlyRefused is an apierrors.APIStatus, and an ErrRefused.
type readOnlyRefused struct{ *apierrors.StatusError }

func (e *readOnlyRefused) Unwrap() error        { return e.StatusError }
func (e *readOnlyRefused) Is(target error) bool { return target == ErrRefused }
