package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
)

// fakeCache is a cache of records of which the test says what it shows at which time.
type fakeCache struct {
	shows func() (cursor uint64, status natsinformer.Status)
}

func (f fakeCache) Cursor() uint64 {
	cursor, _ := f.shows()
	return cursor
}

func (f fakeCache) Status() natsinformer.Status {
	_, status := f.shows()
	return status
}

func (f fakeCache) WaitCursor(ctx context.Context, sequence uint64) error {
	for f.Cursor() < sequence {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// TestATermBeginsWithTheRecordsOfTheStreamThatHasTheLease: not with those of a stream that was replaced a moment ago,
// which the cache has not noticed yet, even where a backup has the time of creation of that stream. A leader of the
// stream that is behind makes the term begin later, and no more.
//
// No answer may have come before the stream was replaced by one that is younger than the lease.
func TestATermBeginsWithTheRecordsOfTheStreamThatHasTheLease(t *testing.T) {
	const acquired, before, anew, notices, lists = 39, 339, 2, 500 * time.Millisecond, 700 * time.Millisecond
	for name, test := range map[string]struct {
		created time.Duration // of the stream of now, after that of the stream before
		lastSeq func(since time.Duration) uint64
		cursor  uint64        // of the stream before
		shows   time.Duration // when the cache shows the revision of the lease, in the stream before
		from    time.Duration
		lists   bool // the cache, the stream that has come
	}{
		"a backup with the time of creation of the stream before": {
			lastSeq: func(time.Duration) uint64 { return acquired }, cursor: before, from: lists, lists: true,
		},
		"a stream that was made anew": {
			created: time.Hour, lastSeq: func(time.Duration) uint64 { return acquired }, cursor: before, from: lists, lists: true,
		},
		"the same stream": {
			lastSeq: func(time.Duration) uint64 { return before }, cursor: before,
		},
		"the same stream, whose leader is behind": {
			lastSeq: func(since time.Duration) uint64 {
				if since < 100*time.Millisecond {
					return before - 1
				}
				return before
			},
			cursor: before, from: 100 * time.Millisecond,
		},
		"a stream that was made anew, and ends before the revision of the lease": {
			created: time.Hour, lastSeq: func(time.Duration) uint64 { return anew }, cursor: before, from: leaderBehind, lists: true,
		},
		"a backup that ends before the revision of the lease": {
			lastSeq: func(time.Duration) uint64 { return anew }, cursor: before, from: leaderBehind, lists: true,
		},
		"the same stream, whose leader is behind the lease": {
			lastSeq: func(since time.Duration) uint64 {
				if since < leaderBehind-100*time.Millisecond {
					return acquired - 1
				}
				return before
			},
			cursor: acquired - 1, shows: 5 * time.Second, from: 5 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				old, now := began.Add(-2*time.Hour), began.Add(-2*time.Hour+test.created)
				replaced := test.lists
				cache := fakeCache{func() (uint64, natsinformer.Status) {
					switch since := time.Since(began); {
					case replaced && since >= lists:
						return min(acquired, test.lastSeq(since)), natsinformer.Status{StreamCreated: now}
					case replaced && since >= notices:
						return test.cursor, natsinformer.Status{StreamCreated: old, Relisting: true}
					case test.shows != 0 && since >= test.shows:
						return acquired, natsinformer.Status{StreamCreated: old}
					}
					return test.cursor, natsinformer.Status{StreamCreated: old}
				}}
				state := func(context.Context) (entity.StreamState, error) {
					return entity.StreamState{Created: now, LastSeq: test.lastSeq(time.Since(began))}, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := awaitShown(ctx, cache, state, acquired); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.from || took > test.from+2*recordsLook {
					t.Errorf("the term begins after %v, and should after %v", took, test.from)
				}
			})
		})
	}
}
