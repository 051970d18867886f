package notify

import "cmp"

// Facts are what was told of several subjects. The zero Facts is ready.
type Facts struct {
	// Most is of how many subjects it remembers what was told; of more nothing is told. 0 means 16.
	Most int

	bySubject map[string]Fact
}

// Tell reports whether it is news that it is so of a subject, and why: the first time, and when the reason is another
// one.
func (f *Facts) Tell(subject, reason string) (news bool) {
	fact, known := f.bySubject[subject]
	if !known && len(f.bySubject) >= cmp.Or(f.Most, 16) {
		return false
	}
	if f.bySubject == nil {
		f.bySubject = map[string]Fact{}
	}
	news = fact.Tell(reason)
	f.bySubject[subject] = fact
	return news
}
