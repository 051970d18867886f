package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

const adoptSubject = "nagi.sites.act.orphans-adopt"

// adoption is the body of a request to have an owner's orphans of the list as it is now adopted.
func (r *restored) adoption(expect int, from, to, more string) string {
	r.Helper()
	return fmt.Sprintf(`{"list":%q,"expect":%d,"owner":%q,"newOwner":%q%s}`, r.list("").List, expect, from, to, more)
}

// ownerOf is the key of the owner that a page names.
func (r *restored) ownerOf(page string) string {
	r.Helper()
	obj, err := r.pages.Get(r.Context(), page)
	r.must(err)
	_, key, _ := entity.OwnerOf(obj)
	return key
}

// adopted asks for it, and fails if it is refused.
func (r *restored) adopted(body string) OrphansAdopted {
	r.Helper()
	return ask[OrphansAdopted](r.world, r.admin, adoptSubject, body)
}

// TestOrphansAreAdoptedByAPrimaryThatExists: they are its own from then on, and go with it.
func TestOrphansAreAdoptedByAPrimaryThatExists(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		recorded := &events{}
		r := newWorld(t).restoredSites(controller.WithEventRecorder(recorded))
		if o := r.list(`{"owner":"shop/young0"}`); o.Adoptable != 1 || !o.Orphans[0].Adoptable {
			t.Fatalf("%+v", o)
		}
		before := r.count("shop/old", controller.OperationManual)
		d := r.adopted(r.adoption(1, "shop/young0", "shop/old", ""))
		if d.Adopted != 1 || d.Skipped != 0 || d.Left != 0 {
			t.Errorf("%+v", d)
		}
		if of := r.ownerOf("shop/young0"); of != "shop/old" {
			t.Errorf("young0 is owned by %s", of)
		}
		page, err := r.pages.Get(t.Context(), "shop/young0")
		r.must(err)
		if revision := page.Annotations[entity.OwnerRevisionAnnotation]; !strings.HasPrefix(revision, "1@") ||
			page.Annotations[entity.OwnerStatusBucketAnnotation] != "sites-status" {
			t.Errorf("its marks are %v", page.Annotations)
		}
		natstest.Eventually(r.world, "the new owner is reconciled", func() bool {
			return r.count("shop/old", controller.OperationManual) > before
		})
		if !recorded.have("Site shop/old OrphansAdoptRequested", "1 object", "shop/young0") ||
			!r.log.have("Done for a request") {
			t.Errorf("no event, or no line: %v", recorded)
		}
		r.has("old", "foreign", "hashed", "young0", "young1")
		r.must(r.controlled.client.Delete(t.Context(), "shop/old"))
		natstest.Eventually(r.world, "it goes with its new owner", func() bool {
			return r.value("pages", "shop.young0")+r.value("pages", "shop.old") == ""
		})
		r.has("foreign", "hashed", "young1")
	})
}

// TestNothingIsAdoptedThatTheRequestDoesNotName, and the answer says what is wrong.
func TestNothingIsAdoptedThatTheRequestDoesNotName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites(controller.WithResyncInterval(time.Minute))
		old := r.adoption(1, "shop/young0", "shop/old", "")
		for _, body := range []string{
			``, `{}`, `{"list":"x","expect":1}`, `{"list":"x","expect":1,"owner":"shop/young0"}`,
			r.adoption(0, "shop/young0", "shop/old", ""), r.adoption(1, "shop/young0", "shop/young0", ""),
			r.adoption(1, "shop/young0", "a b", ""), r.adoption(1, "", "shop/old", ""),
			r.adoption(1, "shop/young0", "shop/old", `,"all":true`),
		} {
			refused(r.world, r.admin, adoptSubject, body, 400)
		}
		for body, says := range map[string]string{
			r.adoption(2, "shop/young0", "shop/old", ""):                      "expects 2",
			r.adoption(1, "shop/young0", "shop/old", `,"source":"Owns Else"`): "0 of it",
			r.adoption(1, "shop/unknown", "shop/old", ""):                     "0 of it",
		} {
			e := refused(r.world, r.admin, adoptSubject, body, 409)
			if e.Adoptable == nil || e.List != r.list("").List || !strings.Contains(e.Description, says) {
				t.Errorf("%s: %+v", body, e)
			}
		}
		refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", "shop/nobody", ""), 404)
		r.put("sites", "away.home", `{}`)
		natstest.Eventually(r.world, "the site in another namespace is there", func() bool {
			return r.Explain("away/home").State == controller.StateCalm
		})
		e := refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", "away/home", ""), 409)
		if !strings.Contains(e.Description, "namespace") {
			t.Errorf("%+v", e)
		}
		r.must(r.pages.Delete(t.Context(), "shop/young1"))
		time.Sleep(2 * time.Minute)
		refused(r.world, r.admin, adoptSubject, old, 409) // of an older list
		for i := range lost {
			name := fmt.Sprintf("shop/young%d", i)
			if i != 1 && r.ownerOf(name) != name {
				t.Errorf("%s is owned by %s", name, r.ownerOf(name))
			}
		}
	})
}

// TestAnAdoptionThatIsAskedForAgainFindsNothingLeft: its answer was lost. So does one that comes after a delete.
func TestAnAdoptionThatIsAskedForAgainFindsNothingLeft(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		body := r.adoption(1, "shop/young0", "shop/old", "")
		deletes := r.order(1, `,"owner":"shop/young0"`)
		r.adopted(body)
		written := r.value("pages", "shop.young0")
		e := refused(r.world, r.admin, adoptSubject, body, 409)
		if e.Adoptable == nil || *e.Adoptable != 0 || e.List == "" {
			t.Errorf("%+v", e)
		}
		refused(r.world, r.admin, "nagi.sites.act.orphans-delete", deletes, 409)
		time.Sleep(time.Minute)
		e = refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", "shop/old", ""), 409)
		if e.Adoptable == nil || *e.Adoptable != 0 || r.value("pages", "shop.young0") != written {
			t.Errorf("%+v, and the page is %s", e, r.value("pages", "shop.young0"))
		}
		if o := r.list(""); o.Count != lost-1 || o.Adoptable != lost-1 {
			t.Errorf("%+v", o)
		}
	})
}

// TestWhatHasItsDocumentBackIsNotAdopted.
func TestWhatHasItsDocumentBackIsNotAdopted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		body := r.adoption(1, "shop/young0", "shop/old", "")
		r.put("sites", "shop.young0", `{}`)
		e := refused(r.world, r.admin, adoptSubject, body, 409)
		if e.Adoptable != nil && *e.Adoptable != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		if of := r.ownerOf("shop/young0"); of != "shop/young0" {
			t.Errorf("it is owned by %s", of)
		}
	})
}

// TestNoPrimaryAdoptsThatIsBeingTornDown.
func TestNoPrimaryAdoptsThatIsBeingTornDown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		r.stuck.Store(true) // its reconciler does not end the delete
		r.must(r.controlled.client.Delete(t.Context(), "shop/old"))
		natstest.Eventually(r.world, "it is being torn down", func() bool {
			return r.value("sites", "shop.old") == "" && r.value("sites-status", "shop.old") != ""
		})
		e := refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", "shop/old", ""), 409)
		if !strings.Contains(e.Description, "torn down") {
			t.Errorf("%+v", e)
		}
		if of := r.ownerOf("shop/young0"); of != "shop/young0" {
			t.Errorf("it is owned by %s", of)
		}
	})
}

// TestNoPrimaryAdoptsThatWasNotReconciledYet: nothing would tell a teardown of it, nor that what it owns is to stay.
func TestNoPrimaryAdoptsThatWasNotReconciledYet(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		r.put("sites", "shop.asleep",
			`{"metadata":{"annotations":{"nagi/suspend":"true","nagi/deletion-policy":"orphan"}}}`)
		r.put("sites", "shop.invalid", `{`)
		time.Sleep(time.Minute)
		before := r.value("pages", "shop.young0")
		for _, to := range []string{"shop/asleep", "shop/invalid"} {
			e := refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", to, ""), 409)
			if !strings.Contains(e.Description, "was not reconciled yet") {
				t.Errorf("%s: %+v", to, e)
			}
		}
		if now := r.value("pages", "shop.young0"); now != before {
			t.Errorf("the page is %s", now)
		}
		r.put("sites", "shop.asleep", `{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}}}`)
		natstest.Eventually(r.world, "it is reconciled", func() bool {
			return r.Explain("shop/asleep").State == controller.StateCalm
		})
		r.adopted(r.adoption(1, "shop/young0", "shop/asleep", ""))
		r.must(r.controlled.client.Delete(t.Context(), "shop/asleep"))
		time.Sleep(time.Minute)
		r.has("young0")
	})
}

// TestAReplicaThatDoesNotLeadAdoptsNoOrphans, not even if it is asked within.
func TestAReplicaThatDoesNotLeadAdoptsNoOrphans(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites()
		standby := r.makerOfPages(r.world.service())
		r.run(standby)
		time.Sleep(10 * time.Second)
		order := lifecycle.AdoptOrder{From: "shop/young0", To: "shop/old", List: r.list("").List, Expect: 1}
		refuses := func(name string, c *controlled) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if done, err := c.served().engine.AdoptOrphans(ctx, order); done.Adopted != 0 || err == nil {
				t.Errorf("%s: %+v, %v", name, done, err)
			}
		}
		refuses("a standby", standby)
		r.controlled.halt() // from here on the other one leads
		refuses("one that has stopped", r.controlled)
		if of := r.ownerOf("shop/young0"); of != "shop/young0" {
			t.Errorf("it is owned by %s", of)
		}
	})
}

// cloud is an API that has one resource of the site shop/young0.
type cloud struct{ asked atomic.Int32 }

func (*cloud) Kind() string { return "Machine" }

func (c *cloud) List(context.Context) ([]external.Resource, error) {
	c.asked.Add(1)
	return []external.Resource{{ID: "m1", OwnerKey: "shop/young0", Version: "1"}}, nil
}

func (*cloud) Delete(context.Context, string) error { return nil }

// TestWhatCannotNameAnotherOwnerIsNotAdopted: the refusal names its source, and what can be done with it. The others
// are adopted by their source.
func TestWhatCannotNameAnotherOwnerIsNotAdopted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites(controller.OwnsExternal(&cloud{}))
		all := r.list(`{"owner":"shop/young0"}`)
		if all.Count != 2 || all.Adoptable != 1 {
			t.Fatalf("%+v", all)
		}
		source := ""
		for _, o := range all.Orphans {
			if !o.Adoptable {
				source = o.Source
			}
		}
		e := refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/young0", "shop/old", ""), 409)
		for _, part := range []string{source, "orphans-delete", `"source"`, "Put the document"} {
			if !strings.Contains(e.Description, part) {
				t.Errorf("%q is missing in: %s", part, e.Description)
			}
		}
		if of := r.ownerOf("shop/young0"); of != "shop/young0" {
			t.Errorf("it is owned by %s", of)
		}
		pages, _ := json.Marshal("Owns Page (bucket pages)")
		if d := r.adopted(r.adoption(1, "shop/young0", "shop/old", `,"source":`+string(pages))); d.Adopted != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// TestKubernetesObjectsAreAdoptedToo, with the rights of the source's deleter. Nothing of the former owner's marks stays.
func TestKubernetesObjectsAreAdoptedToo(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: "1"}}
		cluster := fake.NewSimpleDynamicClient(scheme.Scheme, obj)
		maps := corev1.SchemeGroupVersion.WithResource("configmaps")
		factory := dynamicinformer.NewDynamicSharedInformerFactory(cluster, 0)
		informer := factory.ForResource(maps).Informer()
		stop := make(chan struct{})
		factory.Start(stop)
		t.Cleanup(func() { close(stop); factory.Shutdown() })
		live := func() *unstructured.Unstructured {
			got, err := cluster.Resource(maps).Namespace("shop").Get(t.Context(), "settings", metav1.GetOptions{})
			w.must(err)
			return got
		}
		r := w.restoredSites(
			controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(cluster, maps))),
			controller.WithResyncInterval(time.Minute))
		now := live()
		entity.SetOwner(now, "Site", "shop/young0", r.value("sites-status", "_nagi.instance"))
		annotations := now.GetAnnotations()
		annotations[entity.OwnerRevisionAnnotation], annotations[entity.OwnerProofAnnotation] = "99@elsewhere", "old"
		now.SetAnnotations(annotations)
		_, err := cluster.Resource(maps).Namespace("shop").Update(t.Context(), now, metav1.UpdateOptions{})
		w.must(err)
		time.Sleep(2 * time.Minute)
		if all := r.list(`{"owner":"shop/young0"}`); all.Adoptable != 2 {
			t.Fatalf("%+v", all)
		}
		if d := r.adopted(r.adoption(2, "shop/young0", "shop/old", "")); d.Adopted != 2 || d.Left != 0 {
			t.Errorf("%+v", d)
		}
		marks := live().GetAnnotations()
		if _, proof := marks[entity.OwnerProofAnnotation]; proof || marks[entity.OwnerKeyAnnotation] != "shop/old" ||
			!strings.HasPrefix(marks[entity.OwnerRevisionAnnotation], "1@") ||
			!entity.IsOwnedBy(live(), "Site", "shop/old") {
			t.Errorf("%v, %v", marks, live().GetLabels())
		}
		time.Sleep(2 * time.Minute)
		if all := r.list(`{"owner":"shop/young0"}`); all.Adoptable+all.Count+all.Kept != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// TestWhatBecameOfAnAdoptionIsLookedAtSoon, and not at the end of the interval: the answer of a write was lost, which is
// told, or somebody else wrote at that moment.
func TestWhatBecameOfAnAdoptionIsLookedAtSoon(t *testing.T) {
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for name, test := range map[string]struct {
		does, reconciles bool
		fails            error
		code             int
	}{
		"it is not answered": {true, true, context.DeadlineExceeded, 500},
		"somebody else writes": {
			false, false, apierrors.NewConflict(maps.GroupResource(), "settings", errors.New("it was written")), 409},
	} {
		t.Run(name, func(t *testing.T) {
			natstest.Test(t, func(t *testing.T) {
				w, recorded := newWorld(t), &events{}
				cluster := fake.NewSimpleDynamicClient(scheme.Scheme,
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: "1"}})
				factory := dynamicinformer.NewDynamicSharedInformerFactory(cluster, 0)
				informer := factory.ForResource(maps).Informer()
				stop := make(chan struct{})
				factory.Start(stop)
				t.Cleanup(func() { close(stop); factory.Shutdown() })
				r := w.restoredSites(
					controller.OwnsKube(informer, controller.WithDeleter(kube.Deleter(cluster, maps))),
					controller.WithResyncInterval(10*time.Minute), controller.WithEventRecorder(recorded))
				now, err := cluster.Resource(maps).Namespace("shop").Get(t.Context(), "settings", metav1.GetOptions{})
				w.must(err)
				entity.SetOwner(now, "Site", "shop/lost", r.value("sites-status", "_nagi.instance"))
				_, err = cluster.Resource(maps).Namespace("shop").Update(t.Context(), now, metav1.UpdateOptions{})
				w.must(err)
				time.Sleep(21 * time.Minute)
				cluster.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if test.does {
						_, _, err := clienttesting.ObjectReaction(cluster.Tracker())(a)
						w.must(err)
					}
					return true, nil, test.fails
				})
				sweeps, before := r.Stats().Sweeps, r.count("shop/old", controller.OperationManual)
				e := refused(r.world, r.admin, adoptSubject, r.adoption(1, "shop/lost", "shop/old", ""), test.code)
				if strings.Contains(e.Description, "1 more may have been") != test.does {
					t.Errorf("%+v", e)
				}
				time.Sleep(time.Second)
				if r.Stats().Sweeps == sweeps || recorded.have("Site shop/old OrphansAdoptRequested", "1 more") != test.does ||
					(r.count("shop/old", controller.OperationManual) > before) != test.reconciles {
					t.Errorf("%d sweeps, %v", r.Stats().Sweeps-sweeps, recorded)
				}
				if all := r.list(`{"owner":"shop/lost"}`); all.Adoptable == 0 != test.does {
					t.Errorf("%+v", all)
				}
			})
		})
	}
}

// TestWhatTheBrakeHoldsIsAdopted: an owner that was for certain, and is missing. The brake holds it no longer then.
func TestWhatTheBrakeHoldsIsAdopted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		r := newWorld(t).restoredSites(controller.WithResyncInterval(time.Minute))
		r.controlled.halt()
		r.put("sites-status", "_nagi.brake", `{"engaged":true,"reason":"restored"}`)
		r.put("sites", "shop.young0", `{}`)
		r.must(r.controlled.client.Delete(t.Context(), "shop/young0")) // its marker says that it was
		s := r.world.service()
		r.controlled = r.makerOfPages(s, controller.WithResyncInterval(time.Minute))
		r.run(r.controlled)
		r.run(s)
		time.Sleep(2 * time.Minute)
		all := r.list(`{"owner":"shop/young0"}`)
		if all.Count != 0 || all.Adoptable != 1 || all.Orphans[0].Why != lifecycle.OrphanHeld || all.List == "" {
			t.Fatalf("%+v", all)
		}
		if now := r.Stats().Brake; !now.Engaged || now.Swept != 1 {
			t.Errorf("%+v", now)
		}
		if d := r.adopted(r.adoption(1, "shop/young0", "shop/old", "")); d.Adopted != 1 {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Minute)
		if now := r.Stats().Brake; now.Swept != 0 {
			t.Errorf("%+v", now)
		}
		if of := r.ownerOf("shop/young0"); of != "shop/old" {
			t.Errorf("it is owned by %s", of)
		}
	})
}

// TestWhatIsAdoptedIsProvenAnew where proofs are wanted: without one it would never go with its new owner.
func TestWhatIsAdoptedIsProvenAnew(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		proofs := controller.WithOwnerProof([]byte("0123456789abcdef0123456789abcdef"))
		r := newWorld(t).restoredSites(proofs)
		r.put("sites", "shop.made", `{}`)
		natstest.Eventually(r.world, "it has its page", func() bool { return r.value("pages", "shop.made") != "" })
		r.controlled.halt()
		r.put("sites-status", "_nagi.brake", `{"engaged":true,"reason":"restored"}`)
		for _, bucket := range []string{"sites", "sites-status"} { // the backup has neither
			stream, err := r.js.Stream(t.Context(), "KV_"+bucket)
			r.must(err)
			r.must(stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+bucket+".shop.made")))
		}
		s := r.world.service()
		r.controlled = r.makerOfPages(s, proofs)
		r.run(r.controlled)
		r.run(s)
		time.Sleep(2 * time.Minute)
		if all := r.list(`{"owner":"shop/made"}`); all.Adoptable != 1 || all.Orphans[0].Why != lifecycle.OrphanHeld {
			t.Fatalf("%+v", all)
		}
		if d := r.adopted(r.adoption(1, "shop/made", "shop/old", "")); d.Adopted != 1 {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Minute)
		r.must(r.controlled.client.Delete(t.Context(), "shop/old"))
		natstest.Eventually(r.world, "it goes with its new owner", func() bool { return r.value("pages", "shop.made") == "" })
	})
}
