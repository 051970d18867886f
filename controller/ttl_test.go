package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// TestADocumentIsTornDownWhenItsTTLEnds: at the whole second, as NATS counts, by a delete with evidence, so the brake
// holds nothing. A write that says nothing of the TTL does not move its end, one that sets it does, and without one it
// stays. Where the server leaves no marker, the leader is asked at the time, and again after 100 ms.
func TestADocumentIsTornDownWhenItsTTLEnds(t *testing.T) {
	inEachBucket(t, func(t *testing.T, w *world) {
		sites := w.client("Site", "sites", onDisk)
		var mu sync.Mutex
		var deletions []natsinformer.Deletion
		ended := map[string]time.Time{}
		c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if req.Operations.Has(OperationDelete) {
				ended[req.Key] = time.Now()
			}
			return Result{}, nil
		}), WithLeaseTiming(longLease))
		must(t, err)
		_, err = sites.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			deletions = append(deletions, natsinformer.DeleteOf(obj))
		}})
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		ctx := t.Context()
		began := time.Now()
		for _, name := range []string{"ends", "kept", "parts", "renewed", "stays"} {
			ttl := 10 * time.Second
			if name == "parts" {
				ttl = 9900 * time.Millisecond
			}
			must(t, sites.CreateWith(ctx, newSite(name, "one"), entity.WithTTL(ttl)))
		}
		for range 9 {
			time.Sleep(time.Second)
			kept, err := sites.Get(ctx, "kept")
			must(t, err)
			kept.Spec.Pages++
			must(t, sites.Update(ctx, kept))
			must(t, sites.Patch(ctx, "kept", []byte(`{"spec":{"title":"patched"}}`)))
		}
		must(t, sites.PatchWith(ctx, "renewed", []byte(`{}`), entity.WithTTL(20*time.Second)))
		must(t, sites.PatchWith(ctx, "stays", []byte(`{}`), entity.WithoutTTL()))
		time.Sleep(time.Minute)

		mu.Lock()
		defer mu.Unlock()
		for name, want := range map[string]time.Duration{"ends": 10 * time.Second, "kept": 10 * time.Second,
			"parts": 10 * time.Second, "renewed": 29 * time.Second} {
			if took := ended[name].Sub(began); took < want || took > want+100*time.Millisecond {
				t.Errorf("%s ended after %v, want %v", name, took, want)
			}
		}
		s := c.Stats()
		if _, stays := ended["stays"]; stays || s.TornDown != 4 || s.BrakeEngaged != 0 {
			t.Errorf("%v ended, %d are torn down, the brake engaged %d times", ended, s.TornDown, s.BrakeEngaged)
		}
		for _, d := range deletions {
			if d != (natsinformer.Deletion{Reason: natsinformer.ExpiryMarker, Evidenced: true}) {
				t.Errorf("a delete by %+v", d)
			}
		}
	})
}

// TestCreateOrUpdateKeepsAliveWhatItsReconcileWants: a page with a TTL is renewed by half of it, no more often, and
// ends after its controller has.
func TestCreateOrUpdateKeepsAliveWhatItsReconcileWants(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		const ttl = time.Minute
		var loops int
		c, err := New("sites", sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) {
				return Result{}, nil
			}
			_, err := CreateOrUpdateWith(ctx, pages, newPage(req.Key, ""), func(*page) error { return nil }, WithTTL(ttl))
			return Result{RequeueAfter: ttl / 3}, err
		}), Owns(pages))
		must(t, err)
		r := w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		natstest.Eventually(t, "there is a page", func() bool { return count(t, pages) == 1 })
		for range 10 {
			time.Sleep(time.Minute)
			if count(t, pages) != 1 {
				t.Fatal("it has ended")
			}
			if e := c.Explain("home"); e.Looping {
				loops++
			}
		}
		time.Sleep(20 * time.Second)
		// Written first, and renewed when 20 s are left: each 40 s, as every second call finds it.
		if n := w.lastSequence("pages"); n != 16 || loops > 0 {
			t.Errorf("%d writes in 620 s; it was said to wake itself %d times", n, loops)
		}
		r.halt()
		time.Sleep(ttl + time.Second)
		if n := count(t, pages); n != 0 {
			t.Errorf("%d pages outlive the controller", n)
		}
	})
}

// TestCreateOrUpdateSetsShortensAndRemovesATTL, and leaves one alone that it is not asked about.
func TestCreateOrUpdateSetsShortensAndRemovesATTL(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		pages := newWorld(t).pages()
		is := func(want OperationResult, left time.Duration, opts ...WriteOption) {
			t.Helper()
			p := named("home")
			got, err := CreateOrUpdateWith(t.Context(), pages, p, titled("one"), opts...)
			must(t, err)
			live, err := pages.Get(t.Context(), "home")
			must(t, err)
			for _, obj := range []*page{p, live} {
				ends, ok := entity.ExpiresAt(obj)
				if is := time.Until(ends).Round(time.Second); got != want || ok != (left > 0) || ok && is != left {
					t.Errorf("%s, and %v are left (%t); want %s and %v", got, is, ok, want, left)
				}
			}
		}
		is(OperationResultCreated, time.Hour, WithTTL(time.Hour))
		time.Sleep(29 * time.Minute)
		is(OperationResultNone, 31*time.Minute)
		is(OperationResultNone, 31*time.Minute, WithTTL(time.Hour))
		is(OperationResultUpdated, 10*time.Minute, WithTTL(10*time.Minute)) // less than a third of what is left
		is(OperationResultNone, 10*time.Minute, WithTTL(10*time.Minute))
		is(OperationResultUpdated, time.Hour, WithTTL(time.Hour))
		time.Sleep(31 * time.Minute)
		is(OperationResultUpdated, time.Hour, WithTTL(time.Hour)) // more than half is over
		is(OperationResultUpdated, 0, WithoutTTL())
		is(OperationResultNone, 0, WithoutTTL())
		is(OperationResultUpdated, time.Minute, WithTTL(time.Minute))
		time.Sleep(2 * time.Minute)
		is(OperationResultCreated, time.Minute, WithTTL(time.Minute))
		time.Sleep(2 * time.Minute)
		is(OperationResultCreated, 0, WithoutTTL())
	})
}

// TestCreateOrUpdateRefusesATTLThatCannotBe, before anything is written.
func TestCreateOrUpdateRefusesATTLThatCannotBe(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "plain"})
		must(t, err)
		plain, pages := w.client("Page", "plain"), w.pages()
		must(t, plain.Create(t.Context(), newPage("there", "")))
		for says, try := range map[string]func() error{
			"over already": func() error {
				_, err := CreateOrUpdateWith(t.Context(), pages, named("new"), titled("one"), WithTTL(0))
				return err
			},
			"nats stream edit KV_plain --allow-msg-ttl": func() error {
				_, err := CreateOrUpdateWith(t.Context(), plain, named("new"), titled("one"), WithTTL(time.Hour))
				if !apierrors.IsInvalid(err) {
					t.Errorf("it is not IsInvalid: %v", err)
				}
				_, err = CreateOrUpdateWith(t.Context(), plain, named("there"), func(*page) error { return nil },
					WithTTL(time.Hour))
				return err
			},
		} {
			if err := try(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want that it says %q", err, says)
			}
		}
		if n, m := w.lastSequence("pages"), w.lastSequence("plain"); n != 0 || m != 1 {
			t.Errorf("%d and %d writes", n, m)
		}
	})
}

// TestAnExplanationTellsWhenADocumentEndsAndThatItHas: by its TTL, whether that was observed or came while nobody
// watched. What was deleted before did not expire.
func TestAnExplanationTellsWhenADocumentEndsAndThatItHas(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.client("Site", "sites", onDisk)
		start := func() (*Controller[*site], *running) {
			c, err := New("sites", sites, ReconcilerFunc(func(_ context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{}, errors.New("not yet")
				}
				return Result{}, nil
			}), WithLeaseTiming(longLease))
			must(t, err)
			return c, w.run(c)
		}
		c, r := start()
		ends := map[string]time.Time{}
		for name, ttl := range map[string]time.Duration{
			"observed": time.Minute, "missed": 2 * time.Minute, "deleted": time.Minute, "stays": 0,
		} {
			if ttl == 0 {
				must(t, sites.Create(t.Context(), newSite(name, "")))
				continue
			}
			obj := newSite(name, "")
			must(t, sites.CreateWith(t.Context(), obj, entity.WithTTL(ttl)))
			ends[name], _ = entity.ExpiresAt(obj)
		}
		says := func(name, text string, state KeyState, expired bool) {
			t.Helper()
			e := explained(t, c, name, state)
			if want := ends[name]; !e.Expires.Equal(want) || e.Expired != expired || want.IsZero() != (text == "") ||
				!strings.Contains(e.Says, text) || text != "" && !strings.Contains(e.Says, at(want)) {
				t.Errorf("%s ends at %v (%t, want %v): %s", name, e.Expires, e.Expired, want, e.Says)
			}
		}
		for name := range ends {
			says(name, "Its document has a TTL, and ends at ", StateCalm, false)
		}
		says("stays", "", StateCalm, false)
		must(t, sites.Delete(t.Context(), "deleted"))
		time.Sleep(61 * time.Second)
		says("observed", "Its document has expired: its TTL ended at ", StateRetry, true)
		ends["deleted"] = time.Time{}
		says("deleted", "", StateRetry, false)
		r.halt()
		time.Sleep(time.Minute)
		c, _ = start()
		says("missed", "Its document has expired: its TTL ended at ", StateRetry, true)
		says("observed", "Its document has expired: its TTL ended at ", StateRetry, true)
	})
}

// at is a time as explanations have it.
func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
