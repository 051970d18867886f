package documents

import (
	"context"
	"time"
)

// Write is one that the bucket still has of a document.
type Write struct {
	Revision uint64
	At       time.Time
	Gone     bool   // it was a delete
	Value    []byte // of a write that was none
}

// mostWrites is how many of a key are looked at: as many as a KV bucket keeps at most.
const mostWrites = 64

// Writes are the writes of a document that its bucket still has, the oldest first, and how many it keeps of each key.
// key is client-go's.
func (r *Reader) Writes(ctx context.Context, key string) (all []Write, keeps int, err error) {
	cfg := r.kind.Config()
	if err := cfg.CheckKey(key); err != nil {
		return nil, 0, err
	}
	s, err := r.documents.state(ctx)
	if err != nil {
		return nil, 0, err
	}
	request := struct {
		Seq  uint64 `json:"seq"`
		Next string `json:"next_by_subj"`
	}{1, s.prefix + r.natsKey(key)}
	for len(all) < mostWrites {
		m, err := r.documents.get(ctx, s.prefix, request)
		if err != nil {
			return nil, 0, err
		}
		if m == nil {
			break
		}
		all = append(all, Write{m.seq, m.at, m.gone, m.value})
		request.Seq = m.seq + 1
	}
	return all, s.history, nil
}
