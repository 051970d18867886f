package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mortal is a process that dies: its wire to the server is cut for good at a moment that the test chooses, and what it
// does afterwards reaches nobody.
type mortal struct {
	*world
	proxy *natstest.Proxy
	dead  atomic.Bool
	r     *running
}

func (w *world) mortal() *mortal {
	w.t.Helper()
	m := &mortal{proxy: natstest.StartProxy(w.t, w.server.URL())}
	_, js := natstest.Connect(w.t, m.proxy.URL())
	m.world = &world{t: w.t, server: w.server, js: js}
	return m
}

func (m *mortal) dies() {
	m.proxy.Refuse()
	m.dead.Store(true)
}

// diesAtMessage makes it die at the nth message that it sends or is sent from now on: as the message would arrive, or
// just after it has.
func (m *mortal) diesAtMessage(n int, arrives bool) {
	m.proxy.Tamper(func(*natstest.Message) natstest.Fate {
		if n--; n > 0 {
			return natstest.Fate{}
		}
		if n == 0 {
			time.AfterFunc(time.Nanosecond, m.dies)
		}
		return natstest.Fate{Lost: n < 0 || !arrives, Cut: true}
	})
}

// live runs a controller until it dies or the test ends.
func (m *mortal) live(c interface{ Run(context.Context) error }) { m.r = m.run(c) }

// bury waits until it is dead, and ends what is left of it. Its controller has to be one WithGracePeriod(0).
func (m *mortal) bury() {
	m.t.Helper()
	natstest.Eventually(m.t, "it is dead", m.dead.Load)
	m.js.Conn().Close()
	m.r.halt()
}

// manyPages gives each site spec.pages pages with its title, and no others.
func manyPages(sites *entity.Client[*site], pages *entity.Client[*page]) ReconcilerFunc {
	write := pagesOf(sites, pages)
	return func(ctx context.Context, req Request) (Result, error) {
		if _, err := write(ctx, req); err != nil {
			return Result{}, err
		}
		s, err := sites.Lister().Get(req.Key)
		if err != nil {
			return Result{}, ignoreNotFound(err)
		}
		owned, err := pages.Lister().OwnedBy("Site", req.Key)
		if err != nil {
			return Result{}, err
		}
		for _, p := range owned {
			if p.Name < pageName(req.Key, s.Spec.Pages) {
				continue
			}
			if err := pages.Delete(ctx, p.Name); err != nil && !apierrors.IsNotFound(err) {
				return Result{}, err
			}
		}
		s.Status.Note = s.Spec.Title
		return Result{}, sites.UpdateStatus(ctx, s)
	}
}

// seeded is the random source of a test, and says how to repeat it.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("NAGI_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("NAGI_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// TestCrashesAtRandomPointsLoseNothing: controllers die one after the other, each at some message between it and the
// server, while sites are created, updated and deleted, by markers and without a trace. In the end the pages are
// exactly as the sites say, and there is no record of a site that is gone.
func TestCrashesAtRandomPointsLoseNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		rng := seeded(t)
		want := map[string]siteSpec{}
		for i := range 40 {
			change(t, w, rng, sites, want, i)
		}
		for range 10 * soak() {
			m := w.mortal()
			m.managesPages()
			m.diesAtMessage(1+rng.IntN(300), rng.IntN(2) == 0)
			for deleted := 0; !m.dead.Load(); time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond) {
				before := len(want)
				if deleted < 8 { // more than that owed at once would be the brake's business
					change(t, w, rng, sites, want, rng.IntN(60))
				}
				if len(want) < before {
					deleted++
				}
			}
			m.bury()
		}
		w.mortal().managesPages()
		diff := "not looked yet"
		defer func() {
			if t.Failed() {
				t.Logf("last difference: %s", diff)
			}
		}()
		natstest.Eventually(t, "pages and records are exactly as the sites say", func() bool {
			diff = worldDiff(t, sites, pages, want)
			return diff == ""
		})
	})
}

// managesPages runs a controller whose sites own as many pages as their spec says, once the lease of the one before is
// over.
func (m *mortal) managesPages() {
	m.t.Helper()
	sites, pages := m.sites(), m.pages()
	c, err := New("crash", sites, manyPages(sites, pages), Owns(pages), WithWorkers(4), WithGracePeriod(0))
	must(m.t, err)
	m.live(c)
	natstest.Eventually(m.t, "it leads", func() bool { return c.Stats().Leading })
}

// change creates, updates or deletes a site, sometimes so that nothing of it is left in the stream.
func change(t *testing.T, w *world, rng *rand.Rand, sites *entity.Client[*site], want map[string]siteSpec, i int) {
	t.Helper()
	ctx := t.Context()
	key := fmt.Sprintf("s%02d", i)
	_, exists := want[key]
	if exists && len(want) > 30 && rng.IntN(3) == 0 {
		if rng.IntN(2) == 0 {
			must(t, sites.Delete(ctx, key))
		} else {
			stream, err := w.js.Stream(ctx, "KV_sites")
			must(t, err)
			must(t, stream.Purge(ctx, jetstream.WithPurgeSubject("$KV.sites."+key)))
		}
		delete(want, key)
		return
	}
	spec := siteSpec{Title: strconv.FormatUint(rng.Uint64(), 36), Pages: rng.IntN(4)}
	s := &site{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: spec}
	if exists {
		current, err := sites.Get(ctx, key)
		must(t, err)
		current.Spec = spec
		must(t, sites.Update(ctx, current))
	} else {
		must(t, sites.Create(ctx, s))
	}
	want[key] = spec
}

// worldDiff says, by live reads, what differs from what the sites say; "" if nothing does.
func worldDiff(
	t *testing.T, sites *entity.Client[*site], pages *entity.Client[*page], want map[string]siteSpec,
) string {
	ctx := t.Context()
	wantPages, havePages := map[string]string{}, map[string]string{}
	for key, spec := range want {
		for i := range spec.Pages {
			wantPages[pageName(key, i)] = spec.Title
		}
	}
	live, err := pages.List(ctx)
	must(t, err)
	for _, p := range live {
		havePages[p.Name] = p.Spec.Title
	}
	if !maps.Equal(wantPages, havePages) {
		return fmt.Sprintf("pages: want %v, have %v", wantPages, havePages)
	}
	for i := range 60 {
		key := fmt.Sprintf("s%02d", i)
		record, err := sites.Record(ctx, key)
		_, exists := want[key]
		switch {
		case apierrors.IsNotFound(err) && !exists:
		case err != nil:
			return fmt.Sprintf("record of %s: %v", key, err)
		case !exists:
			return fmt.Sprintf("record of %s, which is gone: %+v", key, record)
		default:
			s, err := sites.Get(ctx, key)
			must(t, err)
			if strconv.FormatUint(record.ObservedRevision, 10) != s.ResourceVersion || s.Status.Note != s.Spec.Title {
				return fmt.Sprintf("record of %s: %+v, the site is at revision %s with status %+v", key, record,
					s.ResourceVersion, s.Status)
			}
		}
	}
	return ""
}
