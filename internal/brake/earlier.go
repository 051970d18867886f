package brake

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// isEarlier reports whether a term is before the one that this brake follows. If nobody tells of that one for as long
// as a lease lasts, it was of another stream of the status bucket, where terms had other numbers, and who told of it
// had not noticed: then it is forgotten. It needs b.mu.
func (b *Brake) isEarlier(t Told) bool {
	f := &b.follow
	switch {
	case b.running || t.Term >= f.told.Term:
		f.earlier = time.Time{}
		return false
	case f.earlier.IsZero():
		f.earlier = time.Now()
	}
	if time.Since(f.earlier) < b.Lease {
		return true
	}
	f.told, f.earlier, b.allowed = Told{}, time.Time{}, sets.New[string]()
	return false
}
