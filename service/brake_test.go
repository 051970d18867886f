package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/util/sets"
)

const many = 12

// braked is a controller whose brake holds the deletes of many sites, which vanished while it did not run.
func (w *world) braked(opts ...controller.Option) *controlled {
	w.Helper()
	s := w.service()
	c := w.controller("sites", s, sitesConfig, opts...)
	stop := w.run(c)
	for i := range many {
		w.put("sites", fmt.Sprintf("shop.s%03d", i), `{}`)
	}
	natstest.Eventually(w, "all are calm", func() bool {
		for i := range many {
			if c.Explain(fmt.Sprintf("shop/s%03d", i)).State != controller.StateCalm {
				return false
			}
		}
		return true
	})
	stop()
	stream, err := w.js.Stream(w.Context(), "KV_sites")
	w.must(err)
	w.must(stream.Purge(w.Context()))
	s = w.service()
	c = w.controller("sites", s, sitesConfig, opts...)
	c.halt = w.run(c)
	w.run(s)
	w.answers("nagi.sites.read.stats")
	natstest.Eventually(w, "the brake holds all", func() bool { return c.Stats().Brake.Held == many })
	return c
}

func TestABrakeIsReleasedByItsNumbers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		c := w.braked(controller.WithEventRecorder(recorded))
		admin := w.js.Conn()
		first := ask[BrakeList](w, admin, "nagi.sites.read.brake-list", `{"limit":7}`)
		rest := ask[BrakeList](w, admin, "nagi.sites.read.brake-list", `{"after":"`+first.Next+`"}`)
		if len(first.Keys) != 7 || len(rest.Keys) != many-7 || rest.Next != "" || first.Keys[0] != "shop/s000" {
			t.Errorf("%+v, then %+v", first, rest)
		}
		now := first.Brake
		if !now.Engaged || now.Count != many || now.Held != many || now.Engagement == "" || now.Reason == "" {
			t.Fatalf("%+v", now)
		}
		for _, body := range []string{
			fmt.Sprintf(`{"engagement":"other","count":%d}`, many),
			fmt.Sprintf(`{"engagement":%q,"count":%d}`, now.Engagement, many-1),
			fmt.Sprintf(`{"engagement":%q,"count":%d}`, now.Engagement, many+1),
		} {
			e := refused(w, admin, "nagi.sites.act.brake-release", body, 409)
			if e.Brake == nil || e.Brake.Engagement != now.Engagement || e.Brake.Count != many {
				t.Errorf("%s: %+v", body, e)
			}
		}
		for _, body := range []string{``, `{}`, fmt.Sprintf(`{"engagement":%q}`, now.Engagement), `{"count":12}`} {
			refused(w, admin, "nagi.sites.act.brake-release", body, 400)
		}
		if s := c.Stats(); s.Brake.Held != many || s.TornDown != 0 {
			t.Fatalf("%+v", s.Brake)
		}
		body := fmt.Sprintf(`{"engagement":%q,"count":%d}`, now.Engagement, many)
		asked := time.Now()
		r := ask[BrakeReleased](w, admin, "nagi.sites.act.brake-release", body)
		if r.Count != many || !r.Released && time.Since(asked) < releasePatience {
			t.Errorf("%+v", r)
		}
		natstest.Eventually(w, "all are torn down", func() bool { return c.Stats().TornDown == many })
		if !recorded.have("Controller /sites BrakeReleaseRequested", fmt.Sprint(many), now.Engagement) {
			t.Errorf("no event: %v", recorded)
		}
		if e := refused(w, admin, "nagi.sites.act.brake-release", body, 409); e.Brake == nil || e.Brake.Engaged {
			t.Errorf("%+v", e)
		}
	})
}

// TestAllThatAReleaseIsForIsListed: deletes, missing owners, and what primaries do not want any more.
func TestAllThatAReleaseIsForIsListed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.braked()
		natstest.Eventually(w, "the sweep of the start is over", func() bool { return c.Stats().Sweeps > 0 })
		held := c.served().engine.Explainer().Brake
		const owner, unknown, wanton = "shop/an-owner", "shop/nobody-knows", "shop/unwanted"
		held.Sweep(t.Context(), []brake.Orphans{{
			Source: "Owns Page", Owners: map[string]int{owner: 1, unknown: 1}, Count: 1, Known: 100,
			Unproved: sets.New(unknown), Unknown: sets.New(unknown),
		}})
		held.AdmitPrune(wanton, "")
		held.AdmitPrune("shop/s003", "") // whose delete is held, too
		natstest.Eventually(w, "the brake holds all", func() bool { return c.served().brake().Count == many+3 })

		keys, pruned, brakes := []string{}, []string{}, 0
		for after, more := "", true; more; brakes++ {
			page := ask[BrakeList](w, w.js.Conn(), "nagi.sites.read.brake-list", fmt.Sprintf(`{"limit":4,"after":%q}`, after))
			if page.Brake.Count != many+3 || page.Brake.Swept != 1 || page.Brake.Pruned != 2 {
				t.Errorf("%+v", page.Brake)
			}
			keys, pruned = append(keys, page.Keys...), append(pruned, page.Pruned...)
			after, more = page.Next, page.Next != ""
		}
		want := []string{owner}
		for i := range many {
			want = append(want, fmt.Sprintf("shop/s%03d", i))
		}
		if !slices.Equal(keys, want) || !slices.Equal(pruned, []string{"shop/s003", wanton}) || brakes != 4 {
			t.Errorf("%d pages have the keys %q and the pruned %q", brakes, keys, pruned)
		}
		shown := []string{}
		for e := range c.Keys(controller.StateHeld) {
			shown = append(shown, e.Key)
		}
		if want = slices.Insert(want, 1, unknown); !slices.Equal(shown, want) {
			t.Errorf("held are %q, want %q", shown, want)
		}
	})
}

// TestAReleaseOfAListThatHasChangedIsRefused, though as many are held.
func TestAReleaseOfAListThatHasChangedIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.braked()
		natstest.Eventually(w, "the sweep of the start is over", func() bool { return c.Stats().Sweeps > 0 })
		held, admin := c.served().engine.Explainer().Brake, w.js.Conn()
		await := func() {
			natstest.Eventually(w, "it is held", func() bool { return c.served().brake().Count == many+1 })
		}
		held.AdmitPrune("shop/one", "")
		await()
		read := ask[BrakeList](w, admin, "nagi.sites.read.brake-list", `{"limit":3}`)
		rest := ask[BrakeList](w, admin, "nagi.sites.read.brake-list", `{"after":"`+read.Next+`"}`)
		if read.List == "" || rest.List != read.List {
			t.Fatalf("pages of the lists %q and %q", read.List, rest.List)
		}
		held.ForgetPrune("shop/one")
		held.AdmitPrune("shop/other", "")
		await()
		body := func(list string) string {
			return fmt.Sprintf(`{"engagement":%q,"count":%d,"list":%q}`, read.Brake.Engagement, many+1, list)
		}
		e := refused(w, admin, "nagi.sites.act.brake-release", body(read.List), 409)
		if e.List == "" || e.List == read.List || e.Brake == nil || e.Brake.Count != many+1 {
			t.Errorf("%+v", e)
		}
		refused(w, admin, "nagi.sites.act.brake-restore", body(e.List), 400)
		if s := c.Stats(); s.TornDown != 0 || s.Brake.Held != many || s.Brake.Pruned != 1 {
			t.Fatalf("%+v", s.Brake)
		}
		ask[BrakeReleased](w, admin, "nagi.sites.act.brake-release", body(e.List))
		natstest.Eventually(w, "all are torn down", func() bool { return c.Stats().TornDown == many })
	})
}

// TestAReleaseOfWhatCameBackMeanwhileIsRefused: nothing was released, and the answer does not say so.
func TestAReleaseOfWhatCameBackMeanwhileIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		c := w.braked(controller.WithEventRecorder(recorded))
		read := ask[BrakeList](w, w.js.Conn(), "nagi.sites.read.brake-list", "")
		keys := read.Keys
		for next := read.Next; next != ""; {
			page := ask[BrakeList](w, w.js.Conn(), "nagi.sites.read.brake-list", `{"after":"`+next+`"}`)
			keys, next = append(keys, page.Keys...), page.Next
		}
		// After one request the next is judged a tenth of a second later.
		w.must(c.served().engine.RequestRelease(t.Context(), record.Release{Engagement: read.Brake.Engagement, Count: many - 1}))
		natstest.Eventually(w, "one is ignored", func() bool { return recorded.have("BrakeReleaseIgnored") })
		asked := time.Now()
		go func() {
			time.Sleep(10 * time.Millisecond) // the request is stored by then
			for _, key := range keys {
				w.put("sites", strings.Replace(key, "/", ".", 1), `{}`)
			}
		}()
		e := refused(w, w.js.Conn(), "nagi.sites.act.brake-release",
			fmt.Sprintf(`{"engagement":%q,"count":%d,"list":%q}`, read.Brake.Engagement, many, read.List), 409)
		if took := time.Since(asked); !strings.Contains(e.Description, "holds nothing") || took > 200*time.Millisecond {
			t.Errorf("after %v: %+v", took, e)
		}
		if s := c.Stats(); s.TornDown != 0 || s.Brake.Engaged {
			t.Errorf("%d torn down, %+v", s.TornDown, s.Brake)
		}
	})
}

// TestAReleaseLetsGoNoMoreThanItNames: the brake judges the request, by what it holds then.
func TestAReleaseLetsGoNoMoreThanItNames(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		c := w.braked(controller.WithEventRecorder(recorded))
		now := c.Stats().Brake
		w.must(c.served().engine.RequestRelease(t.Context(), record.Release{Engagement: now.Engagement, Count: many - 1}))
		natstest.Eventually(w, "it is ignored", func() bool { return recorded.have("BrakeReleaseIgnored") })
		if s := c.Stats(); s.Brake.Held != many || s.TornDown != 0 {
			t.Errorf("%+v", s.Brake)
		}
	})
}

func TestAControllerWithoutTeardownHasNoBrake(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		sites := w.client(sitesConfig)
		c, err := controller.New("sites", sites, (&reconciles{}).reconciler(sites), s.Controller(), controller.WithoutTeardown())
		w.must(err)
		w.run(c)
		w.run(s)
		w.answers("nagi.sites.read.stats")
		for _, subject := range []string{"read.brake-list", "read.brake-vanished", "act.brake-release", "act.brake-restore"} {
			e := refused(w, w.js.Conn(), "nagi.sites."+subject, `{"engagement":"x","count":1}`, 501)
			if !strings.Contains(e.Description, "WithoutTeardown") {
				t.Errorf("%+v", e)
			}
		}
		refused(w, w.js.Conn(), "nagi.sites.read.orphans", ``, 501)
		refused(w, w.js.Conn(), "nagi.sites.act.orphans-delete", `{"list":"x","expect":1}`, 501)
		refused(w, w.js.Conn(), "nagi.sites.act.orphans-adopt", `{"list":"x","expect":1,"owner":"a","newOwner":"b"}`, 501)
		if s := ask[Stats](w, w.js.Conn(), "nagi.sites.read.stats", ""); s.Brake != nil {
			t.Errorf("%+v", s)
		}
	})
}

// vanishing restores what is in it.
type vanishing struct {
	mu       sync.Mutex
	all      []Vanished
	asked    int
	err      error
	listings chan struct{} // a listing waits for an element; nil: it does not
}

func (v *vanishing) ListVanished(ctx context.Context) ([]Vanished, error) {
	if v.listings != nil {
		select {
		case <-v.listings:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all, nil
}

func (v *vanishing) RestoreVanished(context.Context, string, int) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	if v.err != nil {
		return 1, v.err
	}
	restored := len(v.all)
	v.all = nil
	return restored, nil
}

func TestVanishedDocumentsAreRestoredByTheirNumber(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		recorded := &events{}
		c := w.braked(controller.WithEventRecorder(recorded))
		admin := w.js.Conn()
		engagement := c.Stats().Brake.Engagement
		body := func(engagement string, count int) string {
			return fmt.Sprintf(`{"engagement":%q,"count":%d}`, engagement, count)
		}
		c.served().restorer = nil
		for _, subject := range []string{"read.brake-vanished", "act.brake-restore"} {
			if subject == "read.brake-vanished" {
				refused(w, admin, "nagi.sites."+subject, ``, 501)
				continue
			}
			refused(w, admin, "nagi.sites."+subject, body(engagement, 1), 501)
		}

		v := &vanishing{}
		for i := range 6 {
			v.all = append(v.all, Vanished{Key: fmt.Sprintf("shop/s%d", i), Revision: uint64(i + 1)})
		}
		v.all[5].NotRestorable = "no document"
		c.served().restorer = restorerOf(v)
		page := ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", `{"limit":4}`)
		rest := ask[BrakeVanished](w, admin, "nagi.sites.read.brake-vanished", `{"after":"`+page.Next+`"}`)
		if page.Count != 5 || page.NotRestorable != 1 || page.Engagement != engagement || len(page.Vanished) != 4 ||
			len(rest.Vanished) != 2 || rest.Next != "" {
			t.Errorf("%+v, then %+v", page, rest)
		}
		refused(w, admin, "nagi.sites.act.brake-restore", `{"count":5}`, 400)
		v.err = errors.New("the server is full")
		if e := refused(w, admin, "nagi.sites.act.brake-restore", body(engagement, 5), 500); !strings.Contains(e.Description,
			"1 of 5") || !strings.Contains(e.Description, "full") {
			t.Errorf("%+v", e)
		}
		v.err = nil
		if r := ask[BrakeRestored](w, admin, "nagi.sites.act.brake-restore", body(engagement, 5)); r.Count != 6 || v.asked != 2 {
			t.Errorf("%+v, asked %d times", r, v.asked)
		}
		if !recorded.have("Controller /sites BrakeRestoreRequested") {
			t.Errorf("no event: %v", recorded)
		}
	})
}
