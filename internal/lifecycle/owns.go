package lifecycle

import (
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
)

// StillThere names up to so many of the objects that the runtime would delete with a primary, as the caches show them,
// and says how many there are. It asks no server.
func (t *Teardown) StillThere(key string, most int) (names []string, all int) {
	if t.NoCascade {
		return nil, 0
	}
	for _, s := range t.deletable() {
		claim := t.Owner.Claim().In(s)
		objects, err := s.OwnedBy(key)
		if err != nil {
			continue // the teardown says so itself
		}
		for _, obj := range objects {
			if !claim.Owns(obj, key) {
				continue
			}
			if all++; len(names) < most {
				names = append(names, s.String()+" "+printable.Quote(source.ObjectKey(obj)))
			}
		}
	}
	return names, all
}
