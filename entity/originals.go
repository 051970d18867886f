package entity

import (
	"bytes"
	"strconv"
)

// The limits of originals. A controller that keeps up stays far below them; of what goes beyond, the leader is asked.
const (
	originalsMost  = 4096
	originalsBytes = 16 << 20
)

// originals are the documents that the cache has read last, as they were before its transform. The record of a primary
// is made of them, mostly within a moment; the key may have another revision by then.
type originals struct{ lru *lru[original] }

type original struct {
	of    any // what the transform made of it, a pointer
	value []byte
}

func newOriginals() *originals {
	return &originals{newLRU(originalsMost, originalsBytes, func(o original) int { return len(o.value) })}
}

func (o *originals) put(natsKey string, revision uint64, of any, value []byte) {
	o.lru.put(revisionKey(natsKey, revision), original{of, bytes.Clone(value)})
}

// of returns the document that the cache made an object of, which is the one in the store and no copy: another stream
// may have another document at the same revision.
func (o *originals) of(natsKey string, revision uint64, obj any) (value []byte, known bool) {
	kept, ok := o.lru.get(revisionKey(natsKey, revision))
	return kept.value, ok && kept.of == obj
}

func revisionKey(natsKey string, revision uint64) string {
	return strconv.FormatUint(revision, 10) + " " + natsKey
}
