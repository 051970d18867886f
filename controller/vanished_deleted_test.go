package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bare is massed without pages, for tests of documents. It hears of each write of a document before it is sent.
type bare struct {
	*massed
	before atomic.Pointer[func(key string)]
}

// bare starts the controller.
func (w *world) bare(change ...func(*entity.Config)) *bare {
	w.t.Helper()
	m := &bare{massed: &massed{world: w, seen: &calls{}, told: &toldOf[BrakeState]{}}}
	change = append(change, quickCompare, onDisk, func(cfg *entity.Config) {
		cfg.OnWrite = func(_ context.Context, w entity.Write) (nats.Header, func(error)) {
			if before := m.before.Load(); before != nil && w.Bucket == "sites" {
				(*before)(w.Key)
			}
			return nil, nil
		}
	})
	m.sites = w.client("Site", "sites", change...)
	c, err := New("sites", m.sites, m.seen.reconciler(nil), WithLeaseTiming(longLease), WithWorkers(4))
	must(w.t, err)
	m.c, m.r = c, w.run(c)
	natstest.Eventually(w.t, "it leads", func() bool { return c.Stats().Leading })
	return m
}

// emptiedOf is bare with n sites whose documents are all gone; the brake holds their deletes.
func (w *world) emptiedOf(n int) *bare {
	w.t.Helper()
	m := w.bare()
	w.putMany(n, siteName, documentOf)
	m.reconciled(n)
	m.emptied("sites")
	m.holdsExactly(n)
	return m
}

// reconciled waits until n sites are.
func (m *massed) reconciled(n int) {
	m.t.Helper()
	natstest.Eventually(m.t, fmt.Sprintf("%d sites are reconciled", n), func() bool {
		done := 0
		for _, record := range m.sites.Records().All() {
			if record.ObservedRevision > 0 {
				done++
			}
		}
		return done == n
	})
}

// holdsExactly waits until the brake holds the deletes of n sites.
func (m *massed) holdsExactly(n int) {
	m.t.Helper()
	natstest.Eventually(m.t, fmt.Sprintf("the brake holds %d", n), func() bool {
		state := m.c.Stats().Brake
		return state.Engaged && state.Held == n
	})
}

// beforeWrites has f called once for each key that is put back, between the look at the key and its write.
func (m *bare) beforeWrites(f func(key string)) {
	var known sync.Map
	once := func(key string) {
		if _, called := known.LoadOrStore(key, true); !called {
			f(key)
		}
	}
	m.before.Store(&once)
}

// isGone reports whether a key has no document, as who reads the bucket sees it.
func (m *massed) isGone(key string) bool {
	m.t.Helper()
	_, err := m.kv("sites").Get(m.t.Context(), key)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		m.t.Fatal(err)
	}
	return err != nil
}

// TestARestoreBringsNothingBackThatIsDeletedMeanwhile: while hundreds of documents are put back, somebody deletes some
// by the marker that any client puts, without having seen what is there. Whichever of the two comes first, the delete
// is the last word.
func TestARestoreBringsNothingBackThatIsDeletedMeanwhile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const all, deleters = 400, 3
		m := newWorld(t).emptiedOf(all)
		admin, begin := m.away(), make(chan struct{})
		var deleted []string
		var running sync.WaitGroup
		for by := range deleters {
			bucket := admin.kv("sites")
			var own []string
			for i := by; i < all; i += 4 {
				own = append(own, siteName(all-1-i)) // from the other end, so that each comes first for some keys
			}
			deleted = append(deleted, own...)
			running.Go(func() {
				<-begin
				for _, key := range own {
					if err := bucket.Delete(t.Context(), key); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var once sync.Once
		m.beforeWrites(func(string) { once.Do(func() { close(begin) }) }) // what is to be restored is settled by then
		restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), all)
		running.Wait()
		back := 0
		for _, key := range deleted {
			if !m.isGone(key) {
				back++
			}
		}
		if back != 0 {
			t.Errorf("%d of the %d that were deleted meanwhile exist", back, len(deleted))
		}
		if restored < all-len(deleted) {
			t.Errorf("%d were restored of the %d that nobody deleted: %v", restored, all-len(deleted), err)
		}
		if restored < all && (err == nil || !strings.Contains(err.Error(), "deleted it meanwhile")) {
			t.Errorf("%d were restored of %d, and the error does not say why: %v", restored, all, err)
		}
		held := 0
		// Of what was deleted at once the cache may have seen the marker only.
		natstest.Eventually(t, "what was seen to come back and to be deleted is torn down, the rest is held", func() bool {
			s := m.c.Stats()
			held = s.Brake.Held
			return s.TornDown+uint64(held) == uint64(len(deleted)) && held >= all-restored
		})
		if held > 0 {
			must(t, m.c.ReleaseBrake(t.Context()))
		}
		natstest.Eventually(t, "all that was deleted is torn down, and nothing else", func() bool {
			return m.c.Stats().TornDown == uint64(len(deleted)) && len(m.sites.Records().Keys()) == all-len(deleted)
		})
	})
}

// TestWhatIsDeletedMeanwhileStaysGoneAndIsTold, by each way to delete: before it is listed, after, and in the moment
// between the restore's look at the key and its write.
func TestWhatIsDeletedMeanwhileStaysGoneAndIsTold(t *testing.T) {
	const n, early, late, between = 12, 3, 5, 7
	for name, remove := range map[string]func(m *massed, key string) error{
		"a delete": func(m *massed, key string) error { return m.kv("sites").Delete(m.t.Context(), key) },
		"a purge":  func(m *massed, key string) error { return m.purge(m.t.Context(), "sites", key) },
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				m := newWorld(t).emptiedOf(n)
				must(t, remove(m.massed, siteName(early)))
				can, cannot := m.listed()
				if len(can) != n-1 || !strings.Contains(cannot[siteName(early)], "deleted it") {
					t.Errorf("listed %v and %v", can, cannot)
				}
				m.refused(m.engagement(), n, fmt.Sprintf("%d documents of Site can be restored, and 1 cannot", n-1))
				m.meddle(func(key string) {
					if key == siteName(late) {
						must(t, remove(m.massed, key))
					}
				})
				m.beforeWrites(func(key string) {
					if key == siteName(between) {
						must(t, remove(m.massed, key))
					}
				})
				restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n-1)
				if restored != n-3 || err == nil {
					t.Errorf("%d restored, error %v", restored, err)
				}
				for _, i := range []int{late, between} {
					if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q: somebody deleted it", siteName(i))) {
						t.Errorf("%s is not told of: %v", siteName(i), err)
					}
				}
				for i := range n {
					if gone := i == early || i == late || i == between; m.isGone(siteName(i)) != gone {
						t.Errorf("%s is gone: %v, want %v", siteName(i), !gone, gone)
					}
				}
				m.holdsExactly(3)
				m.refused(m.engagement(), 0, "0 documents of Site can be restored, and 3 cannot")
				must(t, m.c.ReleaseBrake(t.Context()))
				natstest.Eventually(t, "what was deleted is torn down", func() bool {
					return m.c.Stats().TornDown == 3
				})
				for _, i := range []int{early, late, between} {
					if _, err := m.sites.Record(t.Context(), siteName(i)); !apierrors.IsNotFound(err) {
						t.Errorf("the record of %s: %v", siteName(i), err)
					}
				}
			})
		})
	}
}

// TestARestoreLeavesWhatCameInTheLastMoment between its look at the key and its write.
func TestARestoreLeavesWhatCameInTheLastMoment(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		const n, came = 12, 4
		m := newWorld(t).emptiedOf(n)
		m.beforeWrites(func(key string) {
			if key == siteName(came) {
				m.put("sites", key, `{"spec":{"title":"theirs"}}`)
			}
		})
		restored, err := m.c.RestoreVanished(t.Context(), m.engagement(), n)
		if restored != n-1 || err == nil || !strings.Contains(err.Error(), "it has a document by now") {
			t.Errorf("%d restored, error %v", restored, err)
		}
		if s, err := m.sites.Get(t.Context(), siteName(came)); err != nil || s.Spec.Title != "theirs" {
			t.Errorf("it is %v, error %v", s, err)
		}
		natstest.Eventually(t, "the brake goes off by itself", func() bool { return !m.c.Stats().Brake.Engaged })
	})
}
