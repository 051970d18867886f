package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// In these tests there are twelve sites all the time, eight that were deleted since the backup ("gone"), and eight that
// are younger. Each has one page.
const (
	steady    = 12
	replaced  = 8
	siteTotal = steady + replaced // at either time
)

// disaster is a world with a backup, and no controller.
type disaster struct {
	*massed
	backup map[string]*natstest.Snapshot // by bucket
	id     string                        // of the installation
	steady [steady]uint64                // the revisions of the pages that stay; 0 if they may be written
}

func newDisaster(t *testing.T, opts ...Option) *disaster {
	t.Helper()
	admin := newWorld(t)
	d := &disaster{massed: admin.away().massed(opts...), backup: map[string]*natstest.Snapshot{}}
	d.make(d.sites, siteTotal)
	d.settled(d.c, d.sites, siteTotal)
	d.id = d.c.Instance()
	d.r.halt()
	for _, bucket := range []string{"sites", "sites-status", "pages"} {
		d.backup[bucket] = admin.snapshotOf(bucket, "old")
	}
	d.massed = admin.away().massed(opts...)
	for i := range replaced {
		must(t, d.sites.Delete(t.Context(), siteName(steady+i)))
		must(t, d.sites.Create(t.Context(), newSite(siteName(siteTotal+i), "young")))
	}
	natstest.Eventually(t, "the world is as it is now", func() bool {
		for i := range replaced {
			if !noRecord(t, d.sites, siteName(steady+i))() || !d.hasPage(siteTotal+i) {
				return false
			}
		}
		return count(t, d.pages) == siteTotal
	})
	natstest.Eventually(t, "the records are written", func() bool { return d.c.Stats().Running == 0 })
	d.r.halt()
	d.world = admin
	for i := range steady {
		entry, err := d.kv("pages").Get(t.Context(), siteName(i))
		must(t, err)
		d.steady[i] = entry.Revision()
	}
	return d
}

func (d *disaster) hasPage(site int) bool {
	_, err := d.kv("pages").Get(d.t.Context(), siteName(site))
	return err == nil
}

// restore brings buckets back to the backup.
func (d *disaster) restore(buckets ...string) {
	for _, bucket := range buckets {
		must(d.t, d.js.DeleteStream(d.t.Context(), "KV_"+bucket))
		must(d.t, d.backup[bucket].Restore(d.t.Context(), d.js.Conn()))
	}
}

// lose deletes buckets. The next clients make them anew.
func (d *disaster) lose(buckets ...string) {
	for _, bucket := range buckets {
		must(d.t, d.js.DeleteStream(d.t.Context(), "KV_"+bucket))
	}
}

// unstamped takes the revisions of their owners off the pages, as if they were behind an API.
func (d *disaster) unstamped() {
	pages := d.client("Page", "pages")
	for i := range siteTotal + replaced {
		if d.hasPage(i) {
			must(d.t, pages.Patch(d.t.Context(), siteName(i),
				[]byte(`{"metadata":{"annotations":{"`+entity.OwnerRevisionAnnotation+`":null}}}`)))
		}
	}
	pages.Close()
}

// start starts a controller.
func (d *disaster) start(opts ...Option) {
	d.t.Helper()
	d.massed = d.away().massed(opts...)
}

// untouched is goesOn where the brake must not engage, and the pages of the steady sites are not even written.
func (d *disaster) untouched(sites ...int) {
	d.t.Helper()
	d.goesOn(sites...)
	if s := d.c.Stats(); s.BrakeEngaged != 0 {
		d.t.Errorf("the brake engaged %d times: %+v", s.BrakeEngaged, d.told.all())
	}
	for i := range steady {
		entry, err := d.kv("pages").Get(d.t.Context(), siteName(i))
		must(d.t, err)
		if was := d.steady[i]; was != 0 && entry.Revision() != was {
			d.t.Errorf("the page of %s was at revision %d, and is at %d", siteName(i), was, entry.Revision())
		}
	}
}

// goesOn waits until each site has its page, the gone ones have none and nothing is held.
func (d *disaster) goesOn(sites ...int) {
	d.t.Helper()
	natstest.Eventually(d.t, "each site has its page, and no other is left", func() bool {
		if count(d.t, d.pages) != len(sites) {
			return false // to read each takes long
		}
		for _, i := range sites {
			if !d.hasPage(i) {
				return false
			}
		}
		return count(d.t, d.pages) == len(sites)
	})
	natstest.Eventually(d.t, "nothing is owed", func() bool {
		s := d.c.Stats()
		return s.Sweeps > 0 && s.Running == 0 && s.Ready == [3]int{} && !s.Brake.Engaged
	})
}

// stops waits for the brake, releases it, and checks that it held all the time.
func (d *disaster) stops(held int) {
	d.t.Helper()
	natstest.Eventually(d.t, "the brake holds all", func() bool {
		state := d.c.Stats().Brake
		return state.Engaged && state.Held+state.Swept == held && d.c.Stats().Sweeps > 0
	})
	natstest.Eventually(d.t, "the rest is reconciled", func() bool {
		s := d.c.Stats()
		return s.Running == 0 && s.Ready == [3]int{}
	})
	if s := d.c.Stats(); s.Cascaded != 0 || s.TornDown != 0 {
		d.t.Errorf("under the brake %d were deleted, %d torn down", s.Cascaded, s.TornDown)
	}
	must(d.t, d.c.ReleaseBrake(d.t.Context()))
}

// reports waits until the sweep reports pages of sites of which nothing tells that they ever were, and does not hold
// them.
func (d *disaster) reports(pages int) {
	d.t.Helper()
	natstest.Eventually(d.t, "the pages are reported", func() bool { return d.c.Stats().NeverWas == pages })
	if s := d.c.Stats(); s.BrakeEngaged != 0 || s.Brake.Swept != 0 || s.Cascaded != 0 {
		d.t.Errorf("the brake engaged %d times, %d were deleted: %+v", s.BrakeEngaged, s.Cascaded, s.Brake)
	}
}

// numbers are those from the first on, before the last.
func numbers(first, last int) (all []int) {
	for i := first; i < last; i++ {
		all = append(all, i)
	}
	return all
}

// TestTheDisasterMatrixOnAServer has one cell of each kind, while no controller runs. The cells of the brake's own
// matrix are many more.
func TestTheDisasterMatrixOnAServer(t *testing.T) {
	now := append(numbers(0, steady), numbers(siteTotal, siteTotal+replaced)...)
	then := numbers(0, siteTotal)
	for name, cell := range map[string]func(d *disaster){
		"documents older": func(d *disaster) {
			d.restore("sites")
			d.start()
			d.stops(replaced)
			d.goesOn(then...)
		},
		"records older": func(d *disaster) {
			d.restore("sites-status")
			d.start()
			d.untouched(now...)
		},
		"pages older": func(d *disaster) {
			d.restore("pages")
			d.start()
			d.untouched(now...)
		},
		"documents newer than the rest": func(d *disaster) {
			d.restore("sites-status", "pages")
			d.start()
			d.untouched(now...)
		},
		"records newer than the rest": func(d *disaster) {
			d.restore("sites", "pages")
			d.start()
			d.stops(replaced)
			d.goesOn(then...)
		},
		"pages newer than the rest": func(d *disaster) {
			d.restore("sites", "sites-status")
			d.start(WithResyncInterval(time.Second))
			d.reportsAStreamThatMayHaveGoneBack()
			d.reports(replaced)
			d.goesOn(append(then, numbers(siteTotal, siteTotal+replaced)...)...)
			must(d.t, d.sites.Create(d.t.Context(), newSite(siteName(siteTotal), "is back")))
			d.reports(replaced - 1)
		},
		"pages newer than the rest, and one site is written often": func(d *disaster) {
			d.restore("sites", "sites-status")
			for range 60 {
				d.put("sites", siteName(0), `{"spec":{"title":"hot"}}`)
			}
			d.start()
			d.reports(replaced)
			d.goesOn(append(then, numbers(siteTotal, siteTotal+replaced)...)...)
		},
		"documents lost": func(d *disaster) {
			d.lose("sites")
			d.start()
			d.stops(siteTotal)
			d.goesOn()
		},
		"records lost": func(d *disaster) {
			d.lose("sites-status")
			d.start(WithInstance(d.id))
			d.untouched(now...)
		},
		"pages lost": func(d *disaster) {
			d.lose("pages")
			d.start()
			d.goesOn(now...)
		},
		"documents and records lost": func(d *disaster) {
			d.lose("sites", "sites-status")
			d.start()
			natstest.Eventually(d.t, "it waits for its id", func() bool {
				return d.c.Stats().Degraded["installation (bucket sites-status)"] != nil
			})
			_, err := d.kv("sites-status").PutString(d.t.Context(), "_nagi.instance", d.id)
			must(d.t, err)
			d.reportsAStreamThatMayHaveGoneBack()
			d.reports(siteTotal)
			d.goesOn(now...)
		},
		"documents refilled by somebody": func(d *disaster) {
			d.lose("sites")
			kv, err := d.js.CreateKeyValue(d.t.Context(), jetstream.KeyValueConfig{Bucket: "sites"})
			must(d.t, err)
			for i := range steady {
				_, err := kv.PutString(d.t.Context(), siteName(i), `{"spec":{"title":"theirs"}}`)
				must(d.t, err)
			}
			d.start()
			d.stops(replaced)
			d.goesOn(numbers(0, steady)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				d := newDisaster(t)
				d.t = t
				cell(d)
			})
		})
	}
}

// TestWithProofsTheBrakeHoldsWhatIsYoungerThanTheBackup: nobody can make them up, so their revisions are evidence.
func TestWithProofsTheBrakeHoldsWhatIsYoungerThanTheBackup(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		proofs := WithOwnerProof(proofSecret('a'))
		d := newDisaster(t, proofs)
		d.restore("sites", "sites-status")
		d.start(proofs)
		d.stops(replaced)
		d.goesOn(numbers(0, siteTotal)...)
	})
}

// TestWhatWasDeletedBeforeTheBackupAndMadeAgainIsHeld: the restored stream has the marker of the delete, and no
// document.
func TestWhatWasDeletedBeforeTheBackupAndMadeAgainIsHeld(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		admin := newWorld(t)
		m := admin.away().filled()
		must(t, m.sites.Delete(t.Context(), siteName(1)))
		natstest.Eventually(t, "it is torn down", noRecord(t, m.sites, siteName(1)))
		m.r.halt()
		backup := []*natstest.Snapshot{admin.snapshotOf("sites", "old"), admin.snapshotOf("sites-status", "old")}
		m = admin.away().massed()
		must(t, m.sites.Create(t.Context(), newSite(siteName(1), "again")))
		natstest.Eventually(t, "it has its page", func() bool { return count(t, m.pages) == many })
		m.r.halt()
		for i, bucket := range []string{"sites", "sites-status"} {
			must(t, admin.js.DeleteStream(t.Context(), "KV_"+bucket))
			must(t, backup[i].Restore(t.Context(), admin.js.Conn()))
		}
		m = admin.away().massed()
		natstest.Eventually(t, "the brake holds it", func() bool {
			state := m.c.Stats().Brake
			return state.Engaged && state.Swept == 1 && m.c.Stats().Sweeps > 0
		})
		if n := count(t, m.pages); n != many {
			t.Errorf("%d pages are left of %d", n, many)
		}
		key := siteName(1)
		holdsIt := func(is string) {
			t.Helper()
			for _, states := range [][]KeyState{{StateHeld}, {StateHeld, StateParked}} {
				var held []string
				for e := range m.c.Keys(states...) {
					held = append(held, e.Key)
				}
				if !slices.Equal(held, []string{key}) {
					t.Errorf("%s: in the states %v are %q, want %s", is, states, held, key)
				}
			}
			if e := m.c.Explain(key); e.State != StateHeld {
				t.Errorf("%s: %+v", is, e)
			}
		}
		holdsIt("without a record")
		_, err := m.kv("sites-status").PutString(t.Context(), key,
			fmt.Sprintf(`{"schemaVersion":%d}`, entity.RecordSchemaVersion))
		must(t, err)
		natstest.Eventually(t, "its record is of no controller", func() bool {
			_, is := m.sites.Records().Cached(key)
			return is
		})
		holdsIt("with a record that owes nothing")
		must(t, m.c.ReleaseBrake(t.Context()))
		natstest.Eventually(t, "it goes", func() bool { return count(t, m.pages) == many-1 })
	})
}

// TestWhatNobodyCanTellAfterARestoreStays: the pages of the young carry no revisions, so nothing tells that the
// documents were restored, nor that the young were not deleted. They are reported, whether a brake was put on by hand
// or not. That goes off, as nothing is missing.
func TestWhatNobodyCanTellAfterARestoreStays(t *testing.T) {
	for name, byHand := range map[string]bool{"a brake put on": true, "no brake put on": false} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				d := newDisaster(t)
				d.unstamped()
				d.restore("sites", "sites-status")
				if byHand {
					_, err := d.kv("sites-status").PutString(t.Context(), "_nagi.brake",
						`{"engaged":true,"reason":"restored from the backup of Monday"}`)
					must(t, err)
				}
				d.start()
				d.reports(replaced)
				d.goesOn(numbers(0, siteTotal+replaced)...)
			})
		})
	}
}
