package brake

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
)

// ListID names what Held returned, so that a release lets go what its sender has read: another key, and it is another
// ID. It is "" if nothing is held. It is a sum over the keys, so that they need no order.
func ListID(waiting, pruning sets.Set[string]) string {
	if len(waiting)+len(pruning) == 0 {
		return ""
	}
	var sum uint64
	for of, keys := range map[string]sets.Set[string]{"waiting": waiting, "pruning": pruning} {
		for key := range keys {
			h := sha256.Sum256([]byte(of + " " + key))
			sum += binary.BigEndian.Uint64(h[:])
		}
	}
	return fmt.Sprintf("%016x", sum)
}

// isListed reports whether a request is for what is held now; one that names no list is, whatever its count says. It
// needs b.mu.
func (b *Brake) isListed(list string) bool {
	return list == "" || list == ListID(b.held.Union(b.heldOwners), b.prunes.held)
}
