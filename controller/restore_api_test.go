package controller

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/test/cloudtest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// cloudDisaster is a disaster of sites that own disks behind an API, which carry no revision of their owner: there are
// the same steady, gone and young ones.
type cloudDisaster struct {
	*cloudWorld
	r      *running
	admin  *world
	backup map[string]*natstest.Snapshot // by bucket
	id     string                        // of the installation
}

func newCloudDisaster(t *testing.T) *cloudDisaster {
	t.Helper()
	d := &cloudDisaster{admin: newWorld(t), backup: map[string]*natstest.Snapshot{}}
	d.cloudWorld = &cloudWorld{world: d.admin, cloud: cloudtest.New(t)}
	d.driver = cloudtest.NewDriver(d.cloud.Server.URL)
	t.Cleanup(d.driver.HTTP.CloseIdleConnections)
	d.start()
	for i := range siteTotal {
		must(t, d.sites.Create(t.Context(), sized(siteName(i), 1)))
	}
	d.has(numbers(0, siteTotal)...)
	d.id = d.c.Instance()
	d.r.halt()
	for _, bucket := range []string{"sites", "sites-status"} {
		d.backup[bucket] = d.admin.snapshotOf(bucket, "old")
	}
	d.start()
	for i := range replaced {
		must(t, d.sites.Delete(t.Context(), siteName(steady+i)))
		must(t, d.sites.Create(t.Context(), sized(siteName(siteTotal+i), 1)))
	}
	d.has(append(numbers(0, steady), numbers(siteTotal, siteTotal+replaced)...)...)
	d.r.halt()
	return d
}

// start starts a controller on a connection of its own.
func (d *cloudDisaster) start(opts ...Option) {
	d.t.Helper()
	d.cloudWorld = &cloudWorld{world: d.admin.away(), cloud: d.cloud, driver: d.driver, config: quick}
	d.sites = d.client("Site", "sites", quickCompare, onDisk)
	d.controller(nil, append([]Option{WithLeaseTiming(longLease)}, opts...)...)
	d.r = d.run(d.c)
}

func (d *cloudDisaster) restore(buckets ...string) {
	for _, bucket := range buckets {
		must(d.t, d.admin.js.DeleteStream(d.t.Context(), "KV_"+bucket))
		must(d.t, d.backup[bucket].Restore(d.t.Context(), d.admin.js.Conn()))
	}
}

// has waits until these sites have their disks and are reconciled, no others have any, and nothing is held.
func (d *cloudDisaster) has(sites ...int) {
	d.t.Helper()
	isCalm := func() bool {
		s := d.c.Stats()
		return d.cloud.Count() == len(sites) && s.External["Disk"].Resources == len(sites) &&
			s.Running == 0 && s.Ready == [3]int{} && !s.Brake.Engaged
	}
	natstest.Eventually(d.t, fmt.Sprintf("%d sites have their disks, and no other is left", len(sites)), func() bool {
		if !isCalm() {
			return false // to read all sites takes long
		}
		for _, i := range sites {
			if d.cloud.Of(siteName(i)) != "=1" || !d.reconciled(siteName(i)) {
				return false
			}
		}
		return isCalm()
	})
}

// stops waits for the brake, checks that no disk went and releases it.
func (d *cloudDisaster) stops(held int) {
	d.t.Helper()
	natstest.Eventually(d.t, "the brake holds all", func() bool {
		s := d.c.Stats()
		return s.Brake.Engaged && s.Brake.Held+s.Brake.Swept == held && s.Running == 0 && s.Ready == [3]int{}
	})
	for i := siteTotal; i < siteTotal+replaced; i++ {
		if d.cloud.Of(siteName(i)) != "=1" {
			d.t.Errorf("the disk of %s went under the brake", siteName(i))
		}
	}
	if s := d.c.Stats(); s.Cascaded != 0 || s.TornDown != 0 {
		d.t.Errorf("under the brake %d were deleted, %d torn down", s.Cascaded, s.TornDown)
	}
	must(d.t, d.c.ReleaseBrake(d.t.Context()))
}

// untouched is has where the brake did not engage and no disk of a steady site was made anew.
func (d *cloudDisaster) untouched(sites ...int) {
	d.t.Helper()
	d.has(sites...)
	if n := d.c.Stats().BrakeEngaged; n != 0 {
		d.t.Errorf("the brake engaged %d times", n)
	}
	for i := range steady {
		if n := d.cloud.CreatedFor(siteName(i)); n != 1 {
			d.t.Errorf("the disk of %s was created %d times", siteName(i), n)
		}
	}
}

// TestTheDisasterMatrixBehindAnAPI has one cell of each kind, while no controller runs.
func TestTheDisasterMatrixBehindAnAPI(t *testing.T) {
	now := append(numbers(0, steady), numbers(siteTotal, siteTotal+replaced)...)
	then := numbers(0, siteTotal)
	for name, cell := range map[string]func(d *cloudDisaster){
		"documents older": func(d *cloudDisaster) {
			d.restore("sites")
			d.start()
			d.stops(replaced)
			d.has(then...)
		},
		"records older": func(d *cloudDisaster) {
			d.restore("sites-status")
			d.start()
			d.untouched(now...)
		},
		"disks older": func(d *cloudDisaster) {
			for i := range replaced {
				d.cloud.Remove(siteName(siteTotal + i))
				d.cloud.Add(cloudtest.Disk{Owner: siteName(steady + i), Instance: d.id, Size: 1})
			}
			d.start()
			d.untouched(now...)
		},
		"disks newer than the rest, and a brake put on by hand": func(d *cloudDisaster) {
			d.restore("sites", "sites-status")
			_, err := d.admin.kv("sites-status").PutString(d.t.Context(), "_nagi.brake",
				`{"engaged":true,"reason":"restored from the backup of Monday"}`)
			must(d.t, err)
			d.start()
			natstest.Eventually(d.t, "each site has its disk, and those of the young are reported", func() bool {
				s := d.c.Stats()
				return s.NeverWas == replaced && d.cloud.Count() == siteTotal+replaced && !s.Brake.Engaged &&
					s.Running == 0 && s.Ready == [3]int{}
			})
			if s := d.c.Stats(); s.Cascaded != 0 || s.BrakeEngaged != 0 {
				d.t.Errorf("%d were deleted, the brake engaged %d times", s.Cascaded, s.BrakeEngaged)
			}
		},
		"documents lost": func(d *cloudDisaster) {
			must(d.t, d.admin.js.DeleteStream(d.t.Context(), "KV_sites"))
			d.start()
			d.stops(siteTotal)
			d.has()
		},
		"records lost": func(d *cloudDisaster) {
			must(d.t, d.admin.js.DeleteStream(d.t.Context(), "KV_sites-status"))
			d.start(WithInstance(d.id))
			d.untouched(now...)
		},
		"disks lost": func(d *cloudDisaster) {
			for _, i := range now {
				d.cloud.Remove(siteName(i))
			}
			d.start()
			d.has(now...)
		},
		"the API is away": func(d *cloudDisaster) {
			d.cloud.GoAway(true)
			d.start()
			natstest.Eventually(d.t, "it is told", func() bool { return d.c.Stats().External["Disk"].Away })
			d.cloud.ComeBack()
			d.untouched(now...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				cell(newCloudDisaster(t))
			})
		})
	}
}
