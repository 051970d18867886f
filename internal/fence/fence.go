// Package fence is about writes that a server takes only as long as another key is at a revision: what says who may
// write. So nobody writes who was late, however long its message was under way.
package fence

import "errors"

// Fence is a key of the same bucket, as in NATS, and the revision at which it must be. The zero value is none.
type Fence struct {
	Key      string
	Revision uint64
}

// Of returns the fence of a key, as in NATS; zero if it needs none. The error says that it must not be written here.
type Of func(key string) (Fence, error)

// ErrMoved says that the fence of a write is at another revision: another writer has the key now. Where an answer was
// lost before that, the write may have been applied.
var ErrMoved = errors.New("another writer has the key now")
