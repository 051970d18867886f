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
	// Lists counts full lists: the one that filled the cache, also if another user of the client had it filled before,
	// and those since the source began. StreamChanges counts those that were made because the bucket's stream turned
	// out to be another one, as after a restore, Doubts those that were made because something did not fit. Resumes
	// counts how often the watch went on from where it was.
	Lists, StreamChanges, Doubts, Resumes uint64
}

// watched are the caches that a source has taken into use.
type watched struct {
	documents, records watchedCache // no records: the zero value
	statusBucket       string
}

// watchedCache is a cache, and what it had counted when the source took it into use. Another user of the client may
// have started it long before.
type watchedCache struct {
	informer natsinformer.Informer
	before   natsinformer.Status
}

func watch(informer natsinformer.Informer) watchedCache {
	return watchedCache{informer, informer.Status()}
}

// Stats adds how the caches are doing, by the name of the source; that of the statuses has " status" behind the kind.
func (s *NATS[T]) Stats(into map[string]Stats) {
	w := s.watched.Load()
	if w == nil {
		return // not started
	}
	into[s.String()] = w.documents.stats(s.client.Config().Bucket)
	if w.records.informer != nil {
		name := fmt.Sprintf("%s %s status (bucket %s)", s.Role, s.client.Kind(), w.statusBucket)
		into[name] = w.records.stats(w.statusBucket)
	}
}

// Suspect is why a cache of the source may show what its stream does not have any more, and since when; nil while
// nothing says so.
func (s *NATS[T]) Suspect() (since time.Time, why error) {
	w := s.watched.Load()
	if w == nil {
		return time.Time{}, nil // not started
	}
	for _, c := range []watchedCache{w.documents, w.records} {
		if c.informer == nil {
			continue
		}
		if status := c.informer.Status(); status.Suspect != nil {
			return status.SuspectSince, status.Suspect
		}
	}
	return time.Time{}, nil
}

func (c watchedCache) stats(bucket string) Stats {
	now := c.informer.Status()
	streams := now.StreamChanges - c.before.StreamChanges
	doubted := doubts(now) - doubts(c.before)
	return Stats{
		Bucket: bucket, Invalid: now.Invalid, Behind: now.Behind, Lag: now.Lag,
		Lists: min(now.Lists, 1) + streams + doubted, StreamChanges: streams,
		Doubts: doubted, Resumes: now.Resumes - c.before.Resumes,
	}
}

// doubts are the lists beside the first one and those of other streams.
func doubts(status natsinformer.Status) uint64 {
	others := status.Lists - min(status.Lists, status.StreamChanges)
	return others - min(others, 1)
}

// Stats tells how the caches in NATS are doing, by the name of the source.
func (g Group) Stats() map[string]Stats {
	all := map[string]Stats{}
	for _, s := range g {
		if s, ok := s.(Cached); ok {
			s.Stats(all)
		}
	}
	return all
}
