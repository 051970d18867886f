package source

import (
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/natsinformer"
)

// Stats is how a cache of a source in NATS is doing.
type Stats struct {
	Bucket string
	// Invalid is how many keys exist that do not decode.
	Invalid int
	// Behind is how many messages the server had that were not taken yet, when it last said so. Lag is how old the
	// state is that the cache shows, by the server's clock and ours, and never negative; zero where nothing is known to
	// be missing.
	Behind uint64
	Lag    time.Duration
	// Lists counts full lists. StreamChanges counts those that were made because the bucket's stream turned out to be
	// another one, as after a restore, Doubts those that were made because something did not fit. Resumes counts how
	// often the watch went on from where it was.
	Lists, StreamChanges, Doubts, Resumes uint64
}

// watched are the caches that a source has taken into use.
type watched struct {
	documents, records natsinformer.Informer // no records: nil
	statusBucket       string
}

// Stats adds how the caches are doing, by the name of the source; that of the statuses has " status" behind the kind.
func (s *NATS[T]) Stats(into map[string]Stats) {
	w := s.watched.Load()
	if w == nil {
		return // not started
	}
	into[s.String()] = statsOf(w.documents, s.client.Config().Bucket)
	if w.records != nil {
		name := fmt.Sprintf("%s %s status (bucket %s)", s.Role, s.client.Kind(), w.statusBucket)
		into[name] = statsOf(w.records, w.statusBucket)
	}
}

func statsOf(informer natsinformer.Informer, bucket string) Stats {
	status := informer.Status()
	others := status.Lists - min(status.Lists, status.StreamChanges)
	return Stats{
		Bucket: bucket, Invalid: status.Invalid, Behind: status.Behind, Lag: status.Lag,
		Lists: status.Lists, StreamChanges: status.StreamChanges,
		Doubts: others - min(others, 1), Resumes: status.Resumes,
	}
}

// Stats tells how the caches in NATS are doing, by the name of the source.
func (g Group) Stats() map[string]Stats {
	all := map[string]Stats{}
	for _, s := range g {
		if s, ok := s.(interface{ Stats(into map[string]Stats) }); ok {
			s.Stats(all)
		}
	}
	return all
}
