package teardown

import (
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/owner"
)

// Stamps calls yield with the owner and the stamp of each secondary of this installation, but for those that were left
// on purpose, until yield returns false. Resources behind APIs carry no stamp.
func (t *Teardown) Stamps(yield func(key string, stamp owner.Stamp) bool) {
	left := t.leftOwners()
	for _, s := range t.swept() {
		for _, obj := range s.All() {
			kind, key, ok := entity.OwnerOf(obj)
			if ok && kind == t.Kind && t.Owner.MayDelete(obj) && !left.use(key) && !yield(key, owner.StampOf(obj)) {
				return
			}
		}
	}
}
