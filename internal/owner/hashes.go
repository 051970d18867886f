package owner

import (
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/entity"
)

// Hashes finds the primaries that exist by the hash that labels have for their keys. It costs nothing before the first
// hash is asked for: an object has one only where its annotations were taken off. The zero value is ready for use.
type Hashes struct {
	mu   sync.Mutex
	keys map[string]string // by hash; nil until the first question
}

// KeyOf returns the key of an owner; "" if there is none, or only the hash of a key that no primary has. all are the
// keys that exist.
func (h *Hashes) KeyOf(named Named, all func() []string) string {
	key, hash := named.Key()
	if hash == "" {
		return key
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = map[string]string{}
		for _, key := range all() {
			h.change(key, true)
		}
	}
	return h.keys[hash]
}

// Note says whether a key exists. It must be called after all, as given to KeyOf, says so.
func (h *Hashes) Note(key string, exists bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys != nil {
		h.change(key, exists)
	}
}

func (h *Hashes) change(key string, exists bool) {
	hash := entity.OwnerLabelValue(key)
	switch {
	case !strings.HasPrefix(hash, HashPrefix):
	case exists:
		h.keys[hash] = key
	default:
		delete(h.keys, hash)
	}
}
