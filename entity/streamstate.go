package entity

import (
	"context"
	"time"
)

// StreamState is what the leader of a bucket's stream says of it.
type StreamState struct {
	Created time.Time
	// LastSeq is the sequence of the last message that the stream has had, as far as the leader has it.
	LastSeq uint64
	// Age is how long ago that was, by the clock of the leader; of a server before 2.10 by our own.
	Age time.Duration
	// Consumers are how many the stream has. Each cache of the bucket that works has one, also of another process.
	Consumers int
	// Lingers is for how long a consumer stays whose process is out of reach.
	Lingers time.Duration
}

// consumerLingers is the inactive threshold for which informers ask.
const consumerLingers = 30 * time.Second

// StreamState asks the leader of the documents' stream.
func (p enginePort[T]) StreamState(ctx context.Context) (StreamState, error) {
	return p.documents.state(ctx)
}

// StreamState asks the leader of the records' stream.
func (r *Records) StreamState(ctx context.Context) (StreamState, error) { return r.bucket.state(ctx) }

func (b *bucket) state(ctx context.Context) (StreamState, error) {
	info, err := b.info(ctx, "")
	if err != nil {
		return StreamState{}, err
	}
	now := info.Time
	if now.IsZero() {
		now = time.Now()
	}
	s := StreamState{
		Created: info.Created, LastSeq: info.LastSeq, Age: now.Sub(info.Created),
		Consumers: info.Consumers, Lingers: consumerLingers,
	}
	if limit := info.Config.ConsumerLimits.InactiveThreshold; limit > 0 {
		s.Lingers = min(s.Lingers, limit)
	}
	return s, nil
}
