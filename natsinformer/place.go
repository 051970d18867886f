package natsinformer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"k8s.io/klog/v2"
)

// place is where in the stream the documents are. In a bucket it is $KV.<bucket>.; in a mirror it is the origin's.
type place struct {
	kvstream.Documents
	found kvstream.Documents // what the stream's configuration says; Documents is what its messages say
	of    time.Time          // the stream's creation
	open  bool               // the stream had no message yet that could prove a guess
}

// usualPlace is where a bucket's documents are while the server has not said otherwise.
func usualPlace(bucket string) place {
	return place{Documents: kvstream.Documents{Prefix: "$KV." + bucket + "."}}
}

// errSubjectsChanged ends a session so that the documents are looked for again.
var errSubjectsChanged = errors.New("the stream keeps the bucket's documents under other subjects now")

// openInterval is how often a stream is asked whether it has its first message while the place is a guess.
const openInterval = time.Second

// prefix is what the subject of each key starts with.
func (src *source) prefix() string { return src.place.Prefix }

func (src *source) filterSubject() string { return src.prefix() + src.cfg.Filter }

func (src *source) keyOf(subject string) (key string, ok bool) {
	return strings.CutPrefix(subject, src.prefix())
}

// locate finds out where the stream keeps the documents. It fails if it keeps none. Only for a session whose consumer
// does not deliver yet.
func (w *worker) locate(ctx context.Context, s *session, info *streamInfo) error {
	found, err := kvstream.FindDocuments(w.cfg.Bucket, info.Config.Stream)
	if err != nil {
		return err
	}
	p := &w.place
	if p.found == found && p.of.Equal(info.Created) && !p.open {
		return nil
	}
	next := place{Documents: found, found: found, of: info.Created}
	if found.Guessed {
		if err := s.confirmPlace(ctx, &next); err != nil {
			return err
		}
	}
	if next.Others != "" {
		klog.FromContext(ctx).Info("The stream also keeps documents of other buckets, which are not read: "+
			"give its source a subject transform to "+next.Prefix+">", "bucket", w.cfg.Bucket, "subjects", next.Others)
	}
	*p = next
	return nil
}

// confirmPlace looks at the messages of a mirror, or of what takes from another stream: its origin may itself be a
// mirror, whose messages are of yet another bucket.
func (s *session) confirmPlace(ctx context.Context, p *place) error {
	for _, filter := range []string{p.Prefix + ">", "$KV.*.>", ">"} {
		m, err := s.message(ctx, messageQuery{NextFor: filter})
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		prefix, ok := kvstream.PrefixOf(m.Subject)
		if !ok {
			return fmt.Errorf("the stream %s keeps no documents of a bucket: %s, and what it has brought has "+
				"the subject %s: mirror a bucket, or watch another one", s.src.cfg.stream(), p.Why, m.Subject)
		}
		p.Prefix = prefix
		return nil
	}
	p.open = true
	return nil
}

// moved reports whether what the stream has said lately may put the documents elsewhere.
func (w *worker) moved(info *streamInfo) bool {
	found, err := kvstream.FindDocuments(w.cfg.Bucket, info.Config.Stream)
	return err != nil || found != w.place.found || w.place.open && info.State.Messages > 0
}
