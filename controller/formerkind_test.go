package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// renamed is a program whose primaries were of the kind Site, and are of another one in the next version.
type renamed struct {
	*world
	pages *entity.Client[*page]
	sites *entity.Client[*site]
	c     *Controller[*site]
}

// version runs the program with that kind.
func (r *renamed) version(kind string, opts ...Option) *running {
	r.t.Helper()
	r.sites = r.client(kind, "sites")
	c, err := New("sites", r.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		if _, err := r.sites.Lister().Get(req.Key); err != nil {
			return Result{}, nil
		}
		_, err := CreateOrUpdate(ctx, r.pages, newSite(req.Key+".page", ""), func(p *page) error {
			p.Spec.Title = kind
			return nil
		})
		return Result{}, err
	}), append(opts, Owns(r.pages))...)
	must(r.t, err)
	r.c = c
	return r.run(c)
}

// before is a program that made a page of each of three sites, and was stopped.
func before(t *testing.T) *renamed {
	w := newWorld(t)
	r := &renamed{world: w, pages: w.pages()}
	first := r.version("Site")
	for i := range 3 {
		must(t, r.sites.Create(t.Context(), newSite(fmt.Sprint("s", i), "one")))
	}
	natstest.Eventually(t, "each site has its page", func() bool { return r.owned("Site") == 3 })
	first.halt()
	return r
}

// owned counts the pages that name owners of that kind, live.
func (r *renamed) owned(kind string) (n int) {
	r.t.Helper()
	all, err := r.pages.List(r.t.Context())
	must(r.t, err)
	for _, p := range all {
		if of, _, _ := OwnerOf(p); of == kind {
			n++
		}
	}
	return n
}

// TestARenamedKindIsTold: what the former kind owns is nobody's to the new one, and the operator reads which it was and
// what to do.
func TestARenamedKindIsTold(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := before(t)
		r.version("Website")
		const name = "former kind (bucket sites-status)"
		natstest.Eventually(t, "it is told", func() bool { return r.c.Stats().Degraded[name] != nil })
		told := r.c.Stats().Degraded[name].Error()
		for _, part := range []string{"3 objects", `kind "Site"`, `kind "Website"`, `WithFormerKind("Site")`, "sites-status"} {
			if !strings.Contains(told, part) {
				t.Errorf("%q is missing in: %s", part, told)
			}
		}
		must(t, r.sites.Delete(t.Context(), "s0"))
		time.Sleep(time.Minute)
		if n := r.owned("Site"); n != 3 {
			t.Errorf("%d pages name an owner of the former kind; nothing was to be written", n)
		}
		record, err := r.sites.Record(t.Context(), "s0")
		if err != nil || !strings.Contains(fmt.Sprint(record.Conditions), "the kind that it had before") {
			t.Errorf("the teardown that would not find the page is over, or does not say why it waits: %v, %v", record, err)
		}
	})
}

// TestATeardownWaitsForWhatCouldNotBeTakenOver, and finds it then.
func TestATeardownWaitsForWhatCouldNotBeTakenOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := before(t)
		must(t, r.sites.Delete(t.Context(), "s0"))
		stream, err := r.js.Stream(t.Context(), "KV_pages")
		must(t, err)
		settings := stream.CachedInfo().Config
		full := settings
		full.MaxMsgSize = 10 // no page can be written
		_, err = r.js.UpdateStream(t.Context(), full)
		must(t, err)
		r.version("Website", WithFormerKind("Site"), WithResyncInterval(time.Minute))
		time.Sleep(10 * time.Second)
		told := r.c.Stats().Degraded["former kind (bucket sites-status)"]
		if told == nil || !strings.Contains(told.Error(), "3 objects of the former kinds") {
			t.Errorf("degraded is %v", told)
		}
		if _, err := r.sites.Record(t.Context(), "s0"); err != nil {
			t.Errorf("the teardown is over though the page is not found by its kind: %v", err)
		}
		_, err = r.js.UpdateStream(t.Context(), settings)
		must(t, err)
		natstest.Eventually(t, "the page goes, and the others are taken over", func() bool {
			return r.owned("Website") == 2 && r.owned("Site") == 0
		})
	})
}

// TestARenamedKindTakesItsObjectsOver where the former kind is named: they are reconciled, and go with their owners.
func TestARenamedKindTakesItsObjectsOver(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := before(t)
		must(t, r.sites.Delete(t.Context(), "s0")) // while no replica works
		second := r.version("Website", WithFormerKind("Site"))
		natstest.Eventually(t, "two pages are the new kind's, and the third is gone", func() bool {
			all, err := r.pages.List(t.Context())
			return err == nil && len(all) == 2 && r.owned("Website") == 2
		})
		natstest.Eventually(t, "they are reconciled", func() bool {
			p, err := r.pages.Get(t.Context(), "s1.page")
			return err == nil && p.Spec.Title == "Website"
		})
		must(t, r.sites.Delete(t.Context(), "s1"))
		natstest.Eventually(t, "a page goes with its site", func() bool { return r.owned("Website") == 1 })
		isHealthy(t, r.c)
		second.halt()

		sequence := r.lastSequence("pages")
		r.version("Website", WithFormerKind("Site"))
		natstest.Eventually(t, "it leads", func() bool { return r.c.Stats().Leading })
		time.Sleep(time.Minute)
		if now := r.lastSequence("pages"); now != sequence {
			t.Errorf("%d writes after all was taken over", now-sequence)
		}
	})
}

// TestARenamedKindTakesNothingOfOthers: not what another controller under the same id wrote, nor another installation.
func TestARenamedKindTakesNothingOfOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := before(t)
		must(t, r.pages.Create(t.Context(), foreignPage("foreign", "s1")))
		others := r.ownedPage("others", "s1")
		others.Annotations[entity.OwnerStatusBucketAnnotation] = "another-status"
		must(t, r.pages.Create(t.Context(), others))
		r.version("Website", WithFormerKind("Site"))
		natstest.Eventually(t, "its own pages are the new kind's", func() bool { return r.owned("Website") == 3 })
		time.Sleep(time.Minute)
		if n := r.owned("Site"); n != 2 {
			t.Errorf("%d pages of others name their owners still; want 2", n)
		}
	})
}

// TestARenamedKindProvesAnew what it takes over, as a proof names the kind.
func TestARenamedKindProvesAnew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		secret := []byte("0123456789abcdef")
		r := &renamed{world: w, pages: w.pages()}
		first := r.version("Site", WithOwnerProof(secret))
		must(t, r.sites.Create(t.Context(), newSite("home", "one")))
		natstest.Eventually(t, "the site has its page", func() bool { return r.owned("Site") == 1 })
		first.halt()
		must(t, r.sites.Delete(t.Context(), "home"))
		r.version("Website", WithOwnerProof(secret), WithFormerKind("Site"))
		natstest.Eventually(t, "the page goes with its site", func() bool { return r.owned("Site")+r.owned("Website") == 0 })
	})
}
