package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var pagesConfig = entity.Config{Kind: "Page", Bucket: "pages", Namespaced: true, Storage: jetstream.MemoryStorage}

// restored is a controller right after a restore of documents and records: younger documents are missing, and of their
// pages nothing but the marks tells whose they were. Others are of owners that nothing can tell of for sure.
type restored struct {
	*world
	*controlled
	pages *entity.Client[*site]
	admin *nats.Conn
	sites entity.Config
	stuck atomic.Bool // reconciles of sites that are gone fail
}

const lost = 5 // sites that are younger than the backup

func (w *world) restoredSites(opts ...controller.Option) *restored {
	w.Helper()
	s := w.service()
	r := &restored{world: w, pages: w.client(pagesConfig), admin: w.js.Conn(), sites: sitesConfig}
	r.controlled = r.makerOfPages(s, opts...)
	stop := w.run(r.controlled)
	w.put("sites", "shop.old", `{}`)
	natstest.Eventually(w, "the old site has its page", func() bool { return w.value("pages", "shop.old") != "" })
	stop()
	instance := w.value("sites-status", "_nagi.instance")
	for i := range lost {
		name := fmt.Sprintf("young%d", i)
		r.page(name, instance, "shop/"+name)
	}
	r.page("foreign", "another-installation", "shop/elsewhere")
	long := "shop/" + strings.Repeat("x", 100)
	page := r.marked("hashed", instance, long)
	delete(page.Annotations, entity.OwnerKeyAnnotation)
	w.must(r.pages.Create(w.Context(), page))

	s = w.service()
	r.controlled = r.makerOfPages(s, opts...)
	r.controlled.halt = w.run(r.controlled)
	w.run(s)
	w.answers("nagi.sites.read.stats")
	natstest.Eventually(w, "the sweep of the start is over", func() bool { return r.Stats().Sweeps > 0 })
	return r
}

func (r *restored) makerOfPages(s *Service, opts ...controller.Option) *controlled {
	r.Helper()
	c := &controlled{reconciles: &reconciles{}, service: s, client: r.world.client(r.sites)}
	noted, makes := c.reconciler(c.client), pageMaker(c.client, r.pages)
	reconciler := controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		if _, err := c.client.Lister().Get(req.Key); err != nil && r.stuck.Load() {
			return controller.Result{}, err
		}
		if _, err := noted.Reconcile(ctx, req); err != nil {
			return controller.Result{}, err
		}
		return makes.Reconcile(ctx, req)
	})
	made, err := controller.New("sites", c.client, reconciler,
		append([]controller.Option{s.Controller(), quickLease, controller.Owns(r.pages)}, opts...)...)
	r.must(err)
	c.Controller = made
	return c
}

func (r *restored) marked(name, instance, key string) *site {
	page := &site{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	entity.SetOwner(page, "Site", key, instance)
	return page
}

func (r *restored) page(name, instance, key string) {
	r.Helper()
	r.must(r.pages.Create(r.Context(), r.marked(name, instance, key)))
}

func (r *restored) has(pages ...string) {
	r.Helper()
	for _, name := range pages {
		if r.value("pages", "shop."+name) == "" {
			r.Errorf("the page %s is gone", name)
		}
	}
}

// order is the body of a request to delete as many of the list as it is now.
func (r *restored) order(expect int, more string) string {
	r.Helper()
	return fmt.Sprintf(`{"list":%q,"expect":%d%s}`, r.list("").List, expect, more)
}

func (r *restored) list(body string) Orphans {
	r.Helper()
	return ask[Orphans](r.world, r.admin, "nagi.sites.read.orphans", body)
}

// TestOrphansAreListedWithTheirOwnersRightAfterARestore, page by page, and none of another installation.
func TestOrphansAreListedWithTheirOwnersRightAfterARestore(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		var owners []string
		for after, more := "", true; more; {
			page := r.list(fmt.Sprintf(`{"limit":2,"after":%q}`, after))
			if page.Count != lost || page.Kept != 1 || page.AsOf.IsZero() || len(page.Orphans) == 0 {
				t.Fatalf("%+v", page)
			}
			for _, o := range page.Orphans {
				owners = append(owners, fmt.Sprint(o.Owner, " ", o.Object, " ", o.Why, " ", o.Deletable))
				if o.Source != "Owns Page (bucket pages)" || o.OwnerKind != "Site" || o.Installation == "" || o.Kind != "Page" {
					t.Errorf("%+v", o)
				}
			}
			after, more = page.Next, page.Next != ""
		}
		want := []string{" shop/hashed hashed false"}
		for i := range lost {
			want = append(want, fmt.Sprintf("shop/young%d shop/young%d neverWas true", i, i))
		}
		if got := strings.Join(owners, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("listed are\n%s", got)
		}
		if page := r.list(`{"owner":"shop/young3"}`); page.Count != 1 || page.Kept != 0 || len(page.Orphans) != 1 {
			t.Errorf("%+v", page)
		}
		if page := r.list(`{"source":"Owns Other"}`); page.Count != 0 || len(page.Orphans) != 0 {
			t.Errorf("%+v", page)
		}
	})
}

// TestOrphansAreDeletedByTheirNumberAndNoOthers.
func TestOrphansAreDeletedByTheirNumberAndNoOthers(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		recorded := &events{}
		r := newWorld(t).restoredSites(controller.WithEventRecorder(recorded))
		const subject = "nagi.sites.act.orphans-delete"
		for _, wrong := range []int{lost - 1, lost + 1, lost + 2} {
			e := refused(r.world, r.admin, subject, r.order(wrong, ""), 409)
			if e.Deletable == nil || *e.Deletable != lost || e.List != r.list("").List {
				t.Errorf("%+v", e)
			}
		}
		for _, body := range []string{
			``, `{}`, r.order(0, ""), r.order(-1, ""), r.order(5, `,"all":true`), `{"list":"x"}`,
		} {
			refused(r.world, r.admin, subject, body, 400)
		}
		if e := refused(r.world, r.admin, subject, `{"expect":5}`, 400); !strings.Contains(e.Description, "read.orphans") {
			t.Errorf("it does not say what to do: %v", e)
		}
		r.has("old", "foreign", "hashed", "young0", "young4")

		if d := ask[OrphansDeleted](r.world, r.admin, subject, r.order(1, `,"owner":"shop/young4"`)); d.Deleted != 1 {
			t.Errorf("%+v", d)
		}
		r.has("old", "foreign", "hashed", "young0", "young3")
		natstest.Eventually(r.world, "it is not listed any more", func() bool { return r.list("").Count == lost-1 })
		if d := ask[OrphansDeleted](r.world, r.admin, subject, r.order(lost-1, "")); d.Deleted != lost-1 || d.List != "" {
			t.Errorf("%+v", d)
		}
		for i := range lost {
			if name := fmt.Sprintf("shop.young%d", i); r.value("pages", name) != "" {
				t.Errorf("%s is still there", name)
			}
		}
		r.has("old", "foreign", "hashed")
		natstest.Eventually(r.world, "a sweep has counted again", func() bool { return r.Stats().NeverWas == 0 })
		if !recorded.have("Controller /sites OrphansDeleteRequested", "4 objects") {
			t.Errorf("no event: %v", recorded)
		}
	})
}

// TestOrphansThatWereNotReadAreNotDeleted: one has come and one has gone, and so their number is the same; or one was
// written again. All pages, whatever they choose, name the same list.
func TestOrphansThatWereNotReadAreNotDeleted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites(controller.WithResyncInterval(time.Minute))
		read := r.list("")
		if one := r.list(`{"owner":"shop/young1","limit":1}`); one.List != read.List || read.List == "" {
			t.Errorf("%+v is another list than %+v", one, read)
		}
		const subject = "nagi.sites.act.orphans-delete"
		order := r.order(lost, "")
		differs := func(count int) {
			t.Helper()
			e := refused(r.world, r.admin, subject, order, 409)
			if e.Deletable == nil || *e.Deletable != count || e.List == read.List || e.List != r.list("").List {
				t.Errorf("%+v", e)
			}
		}
		r.must(r.pages.Delete(t.Context(), "shop/young0"))
		r.page("another", r.value("sites-status", "_nagi.instance"), "shop/another")
		time.Sleep(2 * time.Minute)
		differs(lost)

		read, order = r.list(""), r.order(lost, "")
		page, err := r.pages.Get(t.Context(), "shop/young1")
		r.must(err)
		page.Labels = map[string]string{"changed": "1"}
		r.must(r.pages.Update(t.Context(), page))
		natstest.Eventually(r.world, "it is seen", func() bool { return r.list("").Count == lost-1 })
		differs(lost - 1)
		time.Sleep(2 * time.Minute)
		differs(lost)
		r.has("old", "foreign", "hashed", "another", "young1", "young4")
	})
}

// TestWhatHasItsDocumentBackIsNoOrphan: it is not counted any more, and not deleted with the others.
func TestWhatHasItsDocumentBackIsNoOrphan(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		r.put("sites", "shop.young0", `{}`)
		natstest.Eventually(r.world, "it is no orphan", func() bool { return r.list("").Count == lost-1 })
		e := refused(r.world, r.admin, "nagi.sites.act.orphans-delete", r.order(lost, ""), 409)
		if e.Deletable == nil || *e.Deletable != lost-1 {
			t.Errorf("%+v", e)
		}
		r.has("young0", "young1")
		time.Sleep(time.Minute)
		if o := r.list(`{"owner":"shop/young0"}`); len(o.Orphans) != 0 {
			t.Errorf("%+v", o)
		}
		ask[OrphansDeleted](r.world, r.admin, "nagi.sites.act.orphans-delete", r.order(lost-1, ""))
		r.has("young0", "old")
		if r.value("pages", "shop.young1") != "" {
			t.Error("shop/young1 is still there")
		}
	})
}

// TestAReplicaThatDoesNotLeadDeletesNoOrphans, not even if it is asked within.
func TestAReplicaThatDoesNotLeadDeletesNoOrphans(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		standby := r.makerOfPages(r.world.service())
		r.run(standby)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		order := lifecycle.OrphansOrder{List: r.list("").List, Expect: lost}
		if n, err := standby.served().engine.DeleteOrphans(ctx, order); n.Deleted != 0 || err == nil {
			t.Errorf("%+v were deleted: %v", n, err)
		}
		r.controlled.halt()
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if n, err := r.served().engine.DeleteOrphans(ctx, order); n.Deleted != 0 || err == nil {
			t.Errorf("%+v were deleted by one that has stopped: %v", n, err)
		}
		r.has("young0", "young4")
	})
}

// TestOrphansAreOfTheWholeController: there is no subject for those of a namespace, whose names an outsider may choose.
func TestOrphansAreOfTheWholeController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		for _, subject := range []string{"read.orphans", "act.orphans-delete", "act.orphans-adopt"} {
			_, err := r.conn("shop").Request("nagi.sites."+subject+".shop", []byte(r.order(lost, "")), time.Second)
			if err == nil {
				t.Errorf("%s is answered for a namespace", subject)
			}
		}
		r.has("young0", "young4")
	})
}

// TestWhatIsToldAfterARestoreNamesTheListOfWhatToPutBack, as a command to copy. When all is back nothing is told.
func TestWhatIsToldAfterARestoreNamesTheListOfWhatToPutBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		onDisk := sitesConfig
		onDisk.Storage = jetstream.FileStorage
		r := &restored{world: w, pages: w.client(pagesConfig), admin: w.js.Conn(), sites: onDisk}
		r.controlled = r.makerOfPages(w.service())
		stop := w.run(r.controlled)
		put := func(name string) {
			w.put("sites", "shop."+name, `{}`)
			natstest.Eventually(w, name+" has its page", func() bool { return r.Explain("shop/"+name).State == controller.StateCalm })
		}
		put("old")
		var backup []*natstest.Snapshot
		for _, bucket := range []string{"sites-status", "sites"} {
			snapshot, err := natstest.TakeSnapshot(t.Context(), r.admin, "KV_"+bucket)
			w.must(err)
			backup = append(backup, snapshot)
		}
		put("young0")
		put("young1")
		stop()
		for i, bucket := range []string{"sites-status", "sites"} {
			w.must(w.js.DeleteStream(t.Context(), "KV_"+bucket))
			w.must(backup[i].Restore(t.Context(), r.admin))
		}

		s := w.service()
		r.controlled = r.makerOfPages(s, controller.WithResyncInterval(time.Minute))
		w.run(r.controlled)
		w.run(s)
		time.Sleep(2 * time.Minute) // the lease that came back with the records has to run out
		w.answers("nagi.sites.read.stats")
		told := func() string {
			if err := r.Stats().Degraded["restore (bucket sites-status)"]; err != nil {
				return err.Error()
			}
			return ""
		}
		natstest.Eventually(w, "it is told", func() bool { return told() != "" })
		for _, command := range []string{
			"nats req nagi.sites.read.orphans ''", `nats req nagi.sites.act.orphans-delete '{"list":"LIST","expect":COUNT}'`,
		} {
			if !strings.Contains(told(), command) {
				t.Errorf("it does not say %s: %s", command, told())
			}
		}
		list := r.list("")
		if list.Count != 2 || list.Orphans[0].Owner != "shop/young0" || list.Orphans[1].Owner != "shop/young1" {
			t.Errorf("%+v", list)
		}
		put("young0")
		put("young1")
		time.Sleep(3 * time.Minute)
		if list = r.list(""); list.Count+list.Kept > 0 || told() != "" {
			t.Errorf("%+v, told is %s", list, told())
		}
		r.has("old", "young0", "young1")
	})
}
