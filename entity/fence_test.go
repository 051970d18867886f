package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	slotKey    = entity.ReservedPrefix + ".slot.1"
	intentsKey = entity.ReservedPrefix + ".intents.a"
)

// byRevision fences all keys, but for that of the slot itself, by that key at a revision.
func byRevision(revision uint64) fence.Of {
	return func(key string) (fence.Fence, error) {
		if key == slotKey {
			return fence.Fence{}, nil
		}
		return fence.Fence{Key: slotKey, Revision: revision}, nil
	}
}

// recordWrite is a write of the record of "a", or of a reserved key about it.
type recordWrite func(context.Context, *entity.Records, *entity.Record) error

func putRecord(ctx context.Context, r *entity.Records, rec *entity.Record) error {
	return r.Put(ctx, "a", rec)
}

func putRecordAsync(ctx context.Context, r *entity.Records, rec *entity.Record) error {
	return r.PutAsync("a", rec)(ctx)
}

// TestAFencedWriteLandsOnlyWhileItsSlotIsAtTheEpoch: of a record, as it is put, put without waiting, or deleted, and of a
// reserved key.
func TestAFencedWriteLandsOnlyWhileItsSlotIsAtTheEpoch(t *testing.T) {
	for name, write := range map[string]recordWrite{
		"put": putRecord, "put without waiting": putRecordAsync,
		"delete": func(ctx context.Context, r *entity.Records, rec *entity.Record) error {
			return r.Delete(ctx, "a", rec.Revision)
		},
		"reserved": func(ctx context.Context, r *entity.Records, _ *entity.Record) error {
			_, err := r.PutReserved(ctx, intentsKey, []byte("x"), 0)
			return err
		},
		"reserved, deleted": func(ctx context.Context, r *entity.Records, _ *entity.Record) error {
			return r.DeleteReserved(ctx, intentsKey, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				js := newServer(t)
				records := newClient[*Website](t, js, websites).Records()
				epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
				must(t, err)
				rec := &entity.Record{Controller: "c"}
				must(t, records.Put(t.Context(), "a", rec))
				if name == "reserved, deleted" {
					_, err := records.PutReserved(t.Context(), intentsKey, []byte("x"), 0)
					must(t, err)
				}
				moved := rec.Clone()
				records.FenceBy(byRevision(epoch + 1))
				if err := write(t.Context(), records, moved); !errors.Is(err, fence.ErrMoved) {
					t.Errorf("with an epoch that is no more: %v", err)
				}
				stream, err := js.Stream(t.Context(), "KV_websites-status")
				must(t, err)
				before := stream.CachedInfo().State.LastSeq
				records.FenceBy(byRevision(epoch))
				must(t, write(t.Context(), records, rec))
				info, err := stream.Info(t.Context())
				must(t, err)
				if info.State.LastSeq != before+1 {
					t.Errorf("one write made %d messages", info.State.LastSeq-before)
				}
			})
		})
	}
}

// TestAFencedWriteWhoseAnswerIsLostIsAppliedOnce, and does not fail when its slot moves after it.
func TestAFencedWriteWhoseAnswerIsLostIsAppliedOnce(t *testing.T) {
	for name, put := range map[string]recordWrite{"put": putRecord, "put without waiting": putRecordAsync} {
		for _, moves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, moves %v", name, moves), func(t *testing.T) {
				natstest.Test(t, func(t *testing.T) {
					srv := natstest.Start(t)
					proxy := natstest.StartProxy(t, srv.URL())
					_, js := natstest.Connect(t, proxy.URL())
					_, direct := natstest.Connect(t, srv.URL())
					records := newClient[*Website](t, js, websites).Records()
					epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
					must(t, err)
					records.FenceBy(byRevision(epoch))
					proxy.Tamper(natstest.Nth(1, natstest.AnswersTo("$KV.websites-status.a"), natstest.Fate{Lost: true}))
					if moves {
						kv := keyValue(t, direct, "websites-status")
						time.AfterFunc(100*time.Millisecond, func() {
							_, err := kv.Put(context.Background(), slotKey, []byte("2"))
							must(t, err)
						})
					}
					rec := &entity.Record{Controller: "c"}
					must(t, put(testContext(t), records, rec))
					entry, err := keyValue(t, direct, "websites-status").Get(t.Context(), "a")
					must(t, err)
					if entry.Revision() != rec.Revision || rec.Revision != epoch+1 {
						t.Errorf("the write is said to be at %d, and is at %d, after %d", rec.Revision, entry.Revision(), epoch)
					}
				})
			})
		}
	}
}

// TestAFencedWriteThatArrivesLateIsRefused: the slot has moved while it was under way.
func TestAFencedWriteThatArrivesLateIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		proxy := natstest.StartProxy(t, srv.URL())
		_, js := natstest.Connect(t, proxy.URL())
		_, direct := natstest.Connect(t, srv.URL())
		records := newClient[*Website](t, js, websites).Records()
		epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
		must(t, err)
		records.FenceBy(byRevision(epoch))
		proxy.Tamper(natstest.Nth(1, natstest.To("$KV.websites-status.a"), natstest.Fate{Late: time.Second}))
		kv := keyValue(t, direct, "websites-status")
		time.AfterFunc(500*time.Millisecond, func() {
			_, err := kv.Put(context.Background(), slotKey, []byte("2"))
			must(t, err)
		})
		err = records.Put(testContext(t), "a", &entity.Record{Controller: "c"})
		if !errors.Is(err, fence.ErrMoved) {
			t.Errorf("got %v", err)
		}
		if _, err := kv.Get(t.Context(), "a"); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("the key holds something: %v", err)
		}
	})
}

// TestAKeyThatMustNotBeWrittenHereIsNotSent.
func TestAKeyThatMustNotBeWrittenHereIsNotSent(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		records := newClient[*Website](t, newServer(t), websites).Records()
		records.FenceBy(func(string) (fence.Fence, error) { return fence.Fence{}, fence.ErrMoved })
		if err := records.Put(t.Context(), "a", &entity.Record{}); !errors.Is(err, fence.ErrMoved) {
			t.Errorf("put: %v", err)
		}
		if err := records.Delete(t.Context(), "a", 1); !errors.Is(err, fence.ErrMoved) {
			t.Errorf("delete: %v", err)
		}
		records.FenceBy(nil)
		must(t, records.Put(t.Context(), "a", &entity.Record{}))
	})
}

// TestManyWritesBehindOneFenceLandInAReplicatedStream, which has one of them under way at a time and refuses the others.
// It needs a cluster, which runs in real time.
func TestManyWritesBehindOneFenceLandInAReplicatedStream(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	_, js := natstest.Connect(t, cluster.URLs())
	cfg := websites
	cfg.Replicas = 3
	records := newClient[*Website](t, js, cfg).Records()
	epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
	must(t, err)
	records.FenceBy(byRevision(epoch))
	var writes sync.WaitGroup
	for i := range 50 {
		writes.Go(func() {
			key := fmt.Sprintf("k%d", i)
			rec := &entity.Record{Controller: "c"}
			for range 3 {
				if err := records.Put(t.Context(), key, rec); err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
			}
		})
	}
	writes.Wait()
}

// TestAFencedWriteIsAConflictWhereTheCacheShowsMore than its caller knows: somebody wrote to the record by hand.
func TestAFencedWriteIsAConflictWhereTheCacheShowsMore(t *testing.T) {
	for name, value := range map[string]string{"a record": `{"controller":"x"}`, "no record": `{`} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				js := newServer(t)
				client := newClient[*Website](t, js, websites)
				start(t, client)
				records := client.Records()
				epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
				must(t, err)
				records.FenceBy(byRevision(epoch))
				rec := &entity.Record{Controller: "c"}
				must(t, records.Put(t.Context(), "a", rec))
				for _, key := range []string{"a", "b"} {
					_, err := keyValue(t, js, "websites-status").Put(t.Context(), key, []byte(value))
					must(t, err)
				}
				time.Sleep(100 * time.Millisecond)
				wantError(t, "put over it", apierrors.IsConflict, records.Put(t.Context(), "a", rec.Clone()))
				wantError(t, "delete of it", apierrors.IsConflict, records.Delete(t.Context(), "a", rec.Revision))
				wantError(t, "create over it", apierrors.IsConflict, records.Put(t.Context(), "b", &entity.Record{}))
				must(t, records.Put(t.Context(), "c", &entity.Record{}))
			})
		})
	}
}

// TestAFencedWriteIsNoConflictWhereTheStreamWentBack and the cache does not know that yet: whoever has read the record
// from the leader would read and write it again and again.
func TestAFencedWriteIsNoConflictWhereTheStreamWentBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		start(t, client)
		records := client.Records()
		for range 5 {
			_, err := keyValue(t, js, "websites-status").Put(t.Context(), "other", []byte(`{}`))
			must(t, err)
		}
		epoch, err := records.PutReserved(t.Context(), slotKey, []byte("1"), 0)
		must(t, err)
		records.FenceBy(byRevision(epoch))
		must(t, records.Put(t.Context(), "a", &entity.Record{Controller: "c"}))
		stream, err := js.Stream(t.Context(), "KV_websites-status")
		must(t, err)
		must(t, js.DeleteStream(t.Context(), "KV_websites-status"))
		_, err = js.CreateStream(t.Context(), stream.CachedInfo().Config)
		must(t, err)
		revision, err := keyValue(t, js, "websites-status").Put(t.Context(), "a", []byte(`{"controller":"c"}`))
		must(t, err)
		must(t, records.Put(t.Context(), "a", &entity.Record{Controller: "c", Revision: revision}))
	})
}

// TestAKeyForATimeIsRefusedByABucketThatKeepsNone, with what to do: where replicas share keys, leases would last for ever.
func TestAKeyForATimeIsRefusedByABucketThatKeepsNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites-status"})
		must(t, err)
		records := newClient[*Website](t, js, websites).Records()
		_, err = records.PutReservedFor(t.Context(), slotKey, []byte("1"), 0, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "--allow-msg-ttl") {
			t.Errorf("got %v", err)
		}
	})
}
