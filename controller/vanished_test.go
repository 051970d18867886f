package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/restore"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
)

// documentOf is a site as a person writes it, with what the type does not know.
func documentOf(i int) string {
	return fmt.Sprintf(`{"metadata":{"labels":{"team":"t%d"},"annotations":{"note":"n%d"}},`+
		`"spec":{"title":"title %d","pages":%d,"theme":{"dark":true}}}`, i, i, i, i+1)
}

// vanished is massed with such documents, which are all gone; the brake holds their deletes.
func (w *world) vanished() *massed {
	w.t.Helper()
	return w.vanishedAs(documentOf)
}

// vanishedAs is vanished with other documents.
func (w *world) vanishedAs(document func(i int) string) *massed {
	w.t.Helper()
	m := w.massed()
	w.putMany(many, siteName, document)
	m.settled(m.c, m.sites, many)
	m.emptied("sites")
	m.holdsAll()
	return m
}

// holdsAll waits until the brake holds the deletes of all sites.
func (m *massed) holdsAll() {
	m.t.Helper()
	natstest.Eventually(m.t, "the brake holds all", func() bool {
		state := m.c.Stats().Brake
		return state.Engaged && state.Held == many
	})
	natstest.Eventually(m.t, "the engagement is kept", func() bool { // and was shown before
		entry, err := m.kv("sites-status").Get(m.t.Context(), "_nagi.brake")
		var kept BrakeState
		return err == nil && json.Unmarshal(entry.Value(), &kept) == nil && kept.Engagement == m.engagement()
	})
}

func (m *massed) engagement() string { return m.c.Stats().Brake.Engagement }

// listed returns the keys that can be restored, and those that cannot, with why.
func (m *massed) listed() (can []string, cannot map[string]string) {
	m.t.Helper()
	list, err := m.c.ListVanished(m.t.Context())
	must(m.t, err)
	cannot = map[string]string{}
	for _, v := range list {
		if v.NotRestorable != "" {
			cannot[v.Key] = v.NotRestorable
			continue
		}
		can = append(can, v.Key)
		if v.Revision == 0 || v.Since.IsZero() {
			m.t.Errorf("%+v", v)
		}
	}
	return can, cannot
}

// refused checks that nothing is restored, with an error that says all of it.
func (m *massed) refused(engagement string, count int, says ...string) {
	m.t.Helper()
	before := m.count()
	n, err := m.c.RestoreVanished(m.t.Context(), engagement, count)
	if err == nil || n != 0 || m.count() != before {
		m.t.Errorf("%d restored, error %v", n, err)
	}
	for _, text := range says {
		if err == nil || !strings.Contains(err.Error(), text) {
			m.t.Errorf("error %v: want one with %q", err, text)
		}
	}
}

func (m *massed) count() int { m.t.Helper(); return count(m.t, m.sites) }

// isBack waits until the brake went off by itself and all is reconciled, and checks that nothing was deleted.
func (m *massed) isBack() {
	m.t.Helper()
	natstest.Eventually(m.t, "the brake goes off by itself", func() bool { return !m.c.Stats().Brake.Engaged })
	natstest.Eventually(m.t, "all are reconciled as they are", func() bool {
		for i := range many {
			if e := m.c.Explain(siteName(i)); e.State != StateCalm {
				return false
			}
		}
		return true
	})
	if n := count(m.t, m.pages); n != many {
		m.t.Errorf("%d pages are left of %d", n, many)
	}
	if s := m.c.Stats(); s.TornDown != 0 || s.Cascaded != 0 {
		m.t.Errorf("torn down %d, cascaded %d", s.TornDown, s.Cascaded)
	}
	isHealthy(m.t, m.c)
	if n := m.seen.with(siteName(0), OperationDelete); n != 0 {
		m.t.Error("the reconciler was told Delete")
	}
	if list, err := m.c.ListVanished(m.t.Context()); err != nil || len(list) != 0 {
		m.t.Errorf("listed: %v, %v", list, err)
	}
}

// hasDocument checks that a document has all that its writer wrote.
func (m *massed) hasDocument(i int) {
	m.t.Helper()
	entry, err := m.kv("sites").Get(m.t.Context(), siteName(i))
	must(m.t, err)
	got := m.raw("sites", siteName(i))
	meta, spec := got["metadata"].(map[string]any), got["spec"].(map[string]any)
	want := fmt.Sprintf("map[team:t%d] map[note:n%d] title %d %d map[dark:true]", i, i, i, i+1)
	has := fmt.Sprintf("%v %v %v %v %v", meta["labels"], meta["annotations"], spec["title"], spec["pages"], spec["theme"])
	if has != want {
		m.t.Errorf("%s is %s:\n%s\nwant\n%s", siteName(i), entry.Value(), has, want)
	}
}

func TestWhatVanishedIsRestoredFromTheRecords(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		can, cannot := m.listed()
		if len(can) != many || len(cannot) != 0 || can[0] != siteName(0) || can[many-1] != siteName(many-1) {
			t.Errorf("listed %v and %v", can, cannot)
		}
		right := fmt.Sprintf("in engagement %s %d documents", m.engagement(), many)
		m.refused(m.engagement(), many-1, right, "19 is not the number")
		m.refused(m.engagement(), many+1, right)
		m.refused("another", many, right, `"another" is not the engagement`)
		m.refused("", many, right)
		n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many)
		if err != nil || n != many {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.isBack()
		for i := range many {
			m.hasDocument(i)
		}
		m.refused(m.engagement(), 0, "the brake is not engaged")
		must(t, m.sites.Delete(t.Context(), siteName(0))) // somebody does
		natstest.Eventually(t, "a delete is a delete again", func() bool { return count(t, m.pages) == many-1 })
	})
}

// TestARestoreLeavesWhatCameMeanwhile before it was listed, and after it was confirmed.
func TestARestoreLeavesWhatCameMeanwhile(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		must(t, m.sites.Create(t.Context(), newSite(siteName(3), "before")))
		natstest.Eventually(t, "it is held no more", func() bool { return m.c.Stats().Brake.Held == many-1 })
		m.refused(m.engagement(), many, fmt.Sprintf("%d documents", many-1))
		m.meddle(func(key string) {
			if key == siteName(5) {
				m.put("sites", siteName(5), `{"spec":{"title":"after"}}`)
			}
		})
		n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many-1)
		if err == nil || n != many-2 || !strings.Contains(err.Error(), `"site-05": it has a document by now`) {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.isBack()
		for key, title := range map[string]string{siteName(3): "before", siteName(5): "after"} {
			if s, err := m.sites.Get(t.Context(), key); err != nil || s.Spec.Title != title {
				t.Errorf("%s is %v, error %v", key, s, err)
			}
		}
	})
}

// meddler is a client of which a test hears before it puts a document back.
type meddler struct {
	*entity.Client[*site]
	before *atomic.Pointer[func(key string)]
}

func (c meddler) EnginePort() entity.EnginePort[*site] {
	return restores{c.Client.EnginePort(), c.PrepareRestore}
}

// restores is the port of a client that restores documents as a test wants.
type restores struct {
	entity.EnginePort[*site]
	prepare restore.Prepare
}

func (p restores) PrepareRestore(ctx context.Context, key string, from *entity.Record, aged uint64) (
	func(context.Context) (uint64, error), error,
) {
	return p.prepare(ctx, key, from, aged)
}

func (c meddler) PrepareRestore(ctx context.Context, key string, from *entity.Record, aged uint64) (
	func(context.Context) (uint64, error), error,
) {
	restore, err := c.Client.PrepareRestore(ctx, key, from, aged)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (uint64, error) {
		(*c.before.Load())(key)
		return restore(ctx)
	}, nil
}

// meddle has f called before each document is put back.
func (m *massed) meddle(f func(key string)) {
	before := &atomic.Pointer[func(string)]{}
	before.Store(&f)
	m.c.client = meddler{m.sites, before}
}

// unsure is a client that does not learn whether one document was put back, before it puts back the others.
type unsure struct {
	*entity.Client[*site]
	of string
}

func (c unsure) EnginePort() entity.EnginePort[*site] {
	return restores{c.Client.EnginePort(), c.PrepareRestore}
}

func (c unsure) PrepareRestore(ctx context.Context, key string, from *entity.Record, aged uint64) (
	func(context.Context) (uint64, error), error,
) {
	restore, err := c.Client.PrepareRestore(ctx, key, from, aged)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (uint64, error) {
		if key == c.of {
			return 0, fmt.Errorf("write %s: %w", key, entity.ErrOutcomeUnknown)
		}
		time.Sleep(time.Second)
		return restore(ctx)
	}, nil
}

// TestADocumentOfWhichTheOutcomeIsUnknownKeepsNoOthersFromBeingRestored.
func TestADocumentOfWhichTheOutcomeIsUnknownKeepsNoOthersFromBeingRestored(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		m.c.client = unsure{m.sites, siteName(0)}
		n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many)
		if !errors.Is(err, entity.ErrOutcomeUnknown) || n != many-1 || !strings.Contains(err.Error(), "and 1 were not: ") {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.c.client = m.sites
		if can, _ := m.listed(); len(can) != 1 || can[0] != siteName(0) {
			t.Errorf("left are %v", can)
		}
		if n, err := m.c.RestoreVanished(t.Context(), m.engagement(), 1); err != nil || n != 1 {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.isBack()
	})
}

func TestARestoreIntoABucketWithoutRoomFinishesLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		m.limitBytes("sites", 4000)
		n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many)
		if !errors.Is(err, entity.ErrFull) || n == 0 || n == many {
			t.Fatalf("%d restored, error %v", n, err)
		}
		can, _ := m.listed()
		if len(can) != many-n || !m.c.Stats().Brake.Engaged {
			t.Errorf("%d were restored, and %v are left; brake %+v", n, can, m.c.Stats().Brake)
		}
		m.limitBytes("sites", -1)
		m.refused(m.engagement(), many, fmt.Sprintf("%d documents", many-n))
		if again, err := m.c.RestoreVanished(t.Context(), m.engagement(), many-n); err != nil || again != many-n {
			t.Errorf("%d restored, error %v", again, err)
		}
		m.isBack()
	})
}

func TestARestoreThatWasStoppedFinishesLater(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		ctx, stop := context.WithCancel(t.Context())
		var begun atomic.Int64
		m.meddle(func(string) {
			if begun.Add(1) == 5 {
				stop()
			}
		})
		n, err := m.c.RestoreVanished(ctx, m.engagement(), many)
		if !errors.Is(err, context.Canceled) || n == many {
			t.Fatalf("%d restored, error %v", n, err)
		}
		m.meddle(func(string) {})
		natstest.Eventually(t, "the cache shows what was restored", func() bool {
			can, _ := m.listed()
			return len(can) == many-m.count()
		})
		can, _ := m.listed()
		if again, err := m.c.RestoreVanished(t.Context(), m.engagement(), len(can)); err != nil || again != len(can) {
			t.Errorf("%d restored, error %v", again, err)
		}
		m.isBack()
	})
}

// TestARestoreEndsWithTheTermAndGoesOnInTheNext: the process stops in the middle, and another finishes.
func TestARestoreEndsWithTheTermAndGoesOnInTheNext(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		engagement, stopped := m.engagement(), make(chan struct{})
		var once sync.Once
		m.meddle(func(string) {
			once.Do(func() {
				m.r.stop()
				<-m.r.done
				close(stopped)
			})
			<-stopped
		})
		n, err := m.c.RestoreVanished(t.Context(), engagement, many)
		if err == nil || n == 0 || n == many || !strings.Contains(err.Error(), "does not lead any more") {
			t.Fatalf("%d restored, error %v", n, err)
		}
		if _, err := m.c.ListVanished(t.Context()); err == nil {
			t.Error("a controller that has stopped lists")
		}
		m = m.away().massed()
		natstest.Eventually(t, "the brake holds the rest", func() bool {
			state := m.c.Stats().Brake
			return state.Engaged && state.Held == many-n
		})
		if again, err := m.c.RestoreVanished(t.Context(), engagement, many-n); err != nil || again != many-n {
			t.Errorf("%d restored, error %v", again, err)
		}
		m.isBack()
		for i := range many {
			m.hasDocument(i)
		}
	})
}

// TestARestoreAfterTheBucketWasMadeAnew: the revisions in the records are of another stream.
func TestARestoreAfterTheBucketWasMadeAnew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.massed()
		w.putMany(many, siteName, documentOf)
		m.settled(m.c, m.sites, many)
		must(t, m.js.DeleteStream(t.Context(), "KV_sites"))
		m.away().client("Site", "sites", onDisk)
		m.holdsAll()
		n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many)
		if err != nil || n != many {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.isBack()
	})
}

func TestOnlyTheReplicaThatLeadsRestores(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanished()
		standby := m.away().massed()
		natstest.Eventually(t, "the other one waits", func() bool {
			return standby.c.Explain(siteName(0)).State == StateStandby && standby.c.Explain(siteName(0)).Leader != ""
		})
		if list, err := standby.c.ListVanished(t.Context()); err == nil || list != nil ||
			!strings.Contains(err.Error(), "does not lead") {
			t.Errorf("listed %v, error %v", list, err)
		}
		standby.refused(m.engagement(), many, "does not lead", "ask ")
		if n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many); err != nil || n != many {
			t.Errorf("%d restored, error %v", n, err)
		}
		m.isBack()
	})
}

func TestNothingIsRestoredWithoutABrake(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", func(cfg *entity.Config) { cfg.StatusBucket = entity.NoStatusBucket })
		c, err := New("sites", sites, (&calls{}).reconciler(nil), WithoutTeardown())
		must(t, err)
		w.run(c)
		if _, err := c.ListVanished(t.Context()); err == nil || !strings.Contains(err.Error(), "WithoutTeardown") {
			t.Error(err)
		}
		if _, err := c.RestoreVanished(t.Context(), "", 0); err == nil || !strings.Contains(err.Error(), "WithoutTeardown") {
			t.Error(err)
		}
	})
}

// TestWhatTheRecordDoesNotHaveIsListedAndNotRestored, and is held until somebody puts it back or lets it go.
func TestWhatTheRecordDoesNotHaveIsListedAndNotRestored(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).vanishedAs(func(i int) string {
			if i == 7 {
				return `{"spec":{"title":"` + strings.Repeat("x", entity.DefaultLastDocumentLimit) + `"}}`
			}
			return documentOf(i)
		})
		can, cannot := m.listed()
		if len(can) != many-1 || len(cannot) != 1 || !strings.Contains(cannot[siteName(7)], "LastDocumentLimit") {
			t.Errorf("listed %v and %v", can, cannot)
		}
		m.refused(m.engagement(), many, fmt.Sprintf("%d documents of Site can be restored, and 1 cannot", many-1))
		if n, err := m.c.RestoreVanished(t.Context(), m.engagement(), many-1); err != nil || n != many-1 {
			t.Errorf("%d restored, error %v", n, err)
		}
		natstest.Eventually(t, "the brake holds the rest", func() bool { return m.c.Stats().Brake.Held == 1 })
		m.refused(m.engagement(), 0, "0 documents of Site can be restored, and 1 cannot")
		m.put("sites", siteName(7), documentOf(7))
		m.isBack()
	})
}

// TestARestoreWithoutTheRightToWriteSaysWhatToGrant, and does not try all of them.
func TestARestoreWithoutTheRightToWriteSaysWhatToGrant(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		server := natstest.Start(t, natstest.WithConfig(denying("$KV.sites.>")))
		connect := func(user string) *world {
			unheard := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
			_, js := natstest.Connect(t, server.URL(), nats.UserInfo(user, "x"), unheard)
			return &world{t: t, server: server, js: js}
		}
		m, admin := connect("user").massed(), connect("admin")
		admin.putMany(many, siteName, documentOf)
		m.settled(m.c, m.sites, many)
		admin.emptied("sites")
		m.holdsAll()
		m.refused(m.engagement(), many, "$KV.sites.", "grant the user", "were not tried any more")
		if can, _ := m.listed(); len(can) != many {
			t.Errorf("%v can be restored", can)
		}
	})
}
