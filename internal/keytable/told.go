package keytable

import "github.com/nagi-runtime/nagi/internal/notify"

// IsNews notes that a key's event says this of an object that the primary wanted and did not get; news is false if its
// last one about the object said the same. All is forgotten when an attempt succeeds, and when the primary changes.
func (k *Table) IsNews(key, object, says string) (news bool) {
	k.Change(key, func(s *State) {
		if s.told == nil {
			s.told = &notify.Facts{}
		}
		news = s.told.Tell(object, says)
	})
	return news
}

// HasTold reports whether an event has told of an object that a key wanted and did not get, and nothing has changed
// since.
func (k *Table) HasTold(key string) bool { return k.Of(key).told != nil }

// Succeeded forgets the failed attempts of a key, as far as they are over, and what its events said of them.
func (s *State) Succeeded(pending bool) {
	s.Unanswered, s.Parked, s.told = nil, nil, nil
	if !pending {
		// What goes on behind an API may fail yet, and the next try then comes later.
		s.Failures, s.Terminals = 0, 0
	}
}

// Recorded forgets the writes of the record that failed, and the statuses it could not take: it says what it should.
func (s *State) Recorded() { s.RecordFailures, s.Refusals = 0, 0 }
