package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// certain are the owners that the list says never were, page by page, and how many others it has.
func (r *restored) certain() (list string, owners []string, others int) {
	r.Helper()
	for after, more := "", true; more; {
		page := r.list(fmt.Sprintf(`{"limit":1000,"after":%q,"source":"Owns Page (bucket pages)"}`, after))
		for _, o := range page.Orphans {
			switch {
			case o.Why == lifecycle.OrphanNeverWas:
				owners = append(owners, o.Owner)
			case o.Why == lifecycle.OrphanUnanswered:
				others++
			}
		}
		list, after, more = page.List, page.Next, page.Next != ""
	}
	return list, owners, others
}

// TestManyOrphansMakeOneList: the first thousand of their owners, in the order of their keys, then within seconds all of
// them. From then on no sweep changes the list, and so a request that names it fits; and another replica lists the same.
func TestManyOrphansMakeOneList(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		r.controlled.halt()
		const many = 1300
		instance := r.value("sites-status", "_nagi.instance")
		for i := range many {
			name := fmt.Sprintf("many%04d", i)
			r.page(name, instance, "shop/"+name)
		}
		begin := func() {
			t.Helper()
			s := r.world.service()
			r.controlled = r.makerOfPages(s, controller.WithResyncInterval(time.Minute))
			r.controlled.halt = r.run(r.controlled)
			r.run(s)
			natstest.Eventually(r.world, "the sweep of the start is over", func() bool { return r.Stats().Sweeps > 0 })
			r.world.answers("nagi.sites.read.stats")
		}
		begin()
		first, owners, others := r.certain()
		if len(owners) != 1000 || owners[0] != "shop/many0000" || owners[999] != "shop/many0999" || others != many+lost-1000 {
			t.Fatalf("%d owners, %q, and %d others", len(owners), owners[:min(3, len(owners))], others)
		}
		time.Sleep(40 * time.Second)
		all, owners, others := r.certain()
		if len(owners) != many+lost || others != 0 || all == first {
			t.Fatalf("%d owners and %d others", len(owners), others)
		}
		sweeps := r.Stats().Sweeps
		if sweeps > 4 {
			t.Errorf("%d sweeps", sweeps)
		}
		time.Sleep(3 * time.Minute)
		if now, _, _ := r.certain(); now != all || r.Stats().Sweeps == sweeps {
			t.Errorf("after %d more sweeps the list is %s, not %s", r.Stats().Sweeps-sweeps, now, all)
		}
		r.controlled.halt()
		begin()
		if now, _, _ := r.certain(); now != first {
			t.Errorf("another replica begins with the list %s, not %s", now, first)
		}
		time.Sleep(40 * time.Second)
		if now, _, _ := r.certain(); now != all {
			t.Errorf("another replica has the list %s, not %s", now, all)
		}
		const subject = "nagi.sites.act.orphans-delete"
		d := ask[OrphansDeleted](r.world, r.admin, subject,
			fmt.Sprintf(`{"list":%q,"expect":%d}`, all, many+lost))
		if d.Deleted == 0 {
			t.Errorf("%+v", d)
		}
		r.has("old", "foreign", "hashed")
	})
}

// TestManyOwnersThatAreHeldAreAskedAboutOnce: each of them is certainly missing, and what is known of it stays so until
// its turn comes again. No sweep follows for it, and the list stays the same.
func TestManyOwnersThatAreHeldAreAskedAboutOnce(t *testing.T) {
	const many = 1100
	for name, test := range map[string]struct {
		engaged bool
		opts    []controller.Option
	}{
		"by the brake":                {engaged: true},
		"by an option to report only": {opts: []controller.Option{controller.WithSweepDryRun()}},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				r := newWorld(t).restoredSites()
				r.controlled.halt()
				if test.engaged {
					r.put("sites-status", "_nagi.brake", `{"engaged":true,"reason":"restored"}`)
				}
				instance := r.value("sites-status", "_nagi.instance")
				for i := range many {
					name := fmt.Sprintf("many%04d", i)
					r.put("sites", "shop."+name, `{}`)
					r.must(r.controlled.client.Delete(t.Context(), "shop/"+name)) // its marker says that it was
					r.page(name, instance, "shop/"+name)
				}
				s := r.world.service()
				r.controlled = r.makerOfPages(s, append(test.opts, controller.WithResyncInterval(10*time.Minute))...)
				r.controlled.halt = r.run(r.controlled)
				r.run(s)
				r.world.answers("nagi.sites.read.stats")
				time.Sleep(time.Minute)
				held := 0
				if test.engaged {
					held = many
				}
				list := r.list("")
				if list.Adoptable != held+lost {
					t.Errorf("%d are adoptable, want %d", list.Adoptable, held+lost)
				}
				time.Sleep(4 * time.Minute)
				if n := r.Stats().Sweeps; n > 3 {
					t.Errorf("%d sweeps", n)
				}
				time.Sleep(10 * time.Minute)
				if now := r.list(""); now.List != list.List || now.Adoptable != list.Adoptable {
					t.Errorf("the list is %s of %d, and was %s of %d", now.List, now.Adoptable, list.List, list.Adoptable)
				}
				if n := r.Stats().Sweeps; n > 4 {
					t.Errorf("%d sweeps", n)
				}
			})
		})
	}
}
