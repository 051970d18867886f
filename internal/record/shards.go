package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/shards"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// KeyShards says into how many slots the keys are divided that several replicas share, and ShardsPrefix begins the keys
// of members and slots. Who uses the bucket without shards has neither.
const (
	KeyShards    = entity.ReservedPrefix + ".shards"
	ShardsPrefix = KeyShards + "."
)

// shardsOf is what KeyShards holds.
type shardsOf struct {
	Slots int `json:"slots"`
}

// PlainOf returns a primary's key as SlotOf takes it, of its record's key as in NATS or of a reserved key about it; ok
// is false for a reserved key that is about none.
func PlainOf(natsKey string) (plain string, ok bool) {
	for _, prefix := range []string{LeftPrefix, IntentsPrefix} {
		if rest, about := strings.CutPrefix(natsKey, prefix); about {
			return rest, true
		}
	}
	if strings.HasPrefix(natsKey, entity.ReservedPrefix) {
		return "", false
	}
	return Plain(natsKey), true
}

// Plain returns a primary's key as it is in the reserved keys about it.
func Plain(primary string) string { return about("", primary) }

// ShardRecords are the reserved keys of a status bucket whose keys several replicas share.
type ShardRecords interface {
	Store
	PutReservedFor(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	ReservedNames(ctx context.Context, prefix string) ([]string, error)
}

// ShardStore keeps members and slots in reserved keys. It implements shards.Store.
type ShardStore struct{ Records ShardRecords }

var _ shards.Store = ShardStore{}

// Put implements shards.Store.
func (s ShardStore) Put(
	ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration,
) (uint64, error) {
	return s.Records.PutReservedFor(ctx, ShardsPrefix+key, value, revision, ttl)
}

// Delete implements shards.Store.
func (s ShardStore) Delete(ctx context.Context, key string, revision uint64) error {
	err := s.Records.DeleteReserved(ctx, ShardsPrefix+key, revision)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Load implements shards.Store.
func (s ShardStore) Load(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	value, revision, err = s.Records.GetReserved(ctx, ShardsPrefix+key)
	if apierrors.IsNotFound(err) {
		return nil, 0, nil
	}
	return value, revision, err
}

// ErrSlots is wrapped by the error of a bucket whose keys are divided otherwise.
var ErrSlots = errors.New("the keys are divided into another number of slots")

// FixSlots writes into how many slots the keys are divided, or fails if it is another number. It reports whether the
// bucket did not say that before.
func (s ShardStore) FixSlots(ctx context.Context, slots int) (made bool, err error) {
	value, revision, err := s.Records.GetReserved(ctx, KeyShards)
	if apierrors.IsNotFound(err) {
		value, err = json.Marshal(shardsOf{Slots: slots})
		if err == nil {
			_, err = s.Records.PutReserved(ctx, KeyShards, value, revision)
		}
		if !apierrors.IsConflict(err) {
			return err == nil, err
		}
		value, _, err = s.Records.GetReserved(ctx, KeyShards)
	}
	if err != nil {
		return false, err
	}
	var fixed shardsOf
	if json.Unmarshal(value, &fixed) != nil || fixed.Slots <= 0 {
		return false, fmt.Errorf("%s: %w: it holds %s, which says no number: stop all replicas, and delete the key",
			KeyShards, ErrSlots, Quoted(value))
	}
	if fixed.Slots != slots {
		return false, fmt.Errorf("%s: %w: into %d, and this replica wants %d: give all replicas WithShards(%d), or "+
			"stop them all and delete the key", KeyShards, ErrSlots, fixed.Slots, slots, fixed.Slots)
	}
	return false, nil
}

// Members returns the ids of the members whose lease is there, as the leader of the stream has them.
func (s ShardStore) Members(ctx context.Context) (ids []string, err error) {
	if _, _, err := s.Records.GetReserved(ctx, KeyShards); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil // there never were any
		}
		return nil, err
	}
	names, err := s.Records.ReservedNames(ctx, ShardsPrefix+shards.MemberPrefix)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		key := strings.TrimPrefix(name, ShardsPrefix)
		_, revision, err := s.Load(ctx, key)
		if err != nil {
			return nil, err
		}
		if revision != 0 {
			ids = append(ids, strings.TrimPrefix(key, shards.MemberPrefix))
		}
	}
	return ids, nil
}
