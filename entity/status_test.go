package entity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

func TestStatusIsJoinedAndLeavesTheDocumentAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		site.Status = WebsiteStatus{Ready: true, URLs: []string{"u"}}
		must(t, client.UpdateStatus(t.Context(), site))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if !got.Status.Ready || len(got.Status.URLs) != 1 || got.ResourceVersion != site.ResourceVersion {
			t.Errorf("got status %+v at revision %s", got.Status, got.ResourceVersion)
		}
	})
}

func TestAPlainPutDoesNotWipeTheStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		_, err := keyValue(t, js, "websites").PutString(t.Context(), "a", `{"spec":{"host":"new"}}`)
		must(t, err)
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if !got.Status.Ready || got.Spec.Host != "new" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestUpdateStatusConflictsOnlyWithAnotherWriterOfStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		ctx := t.Context()
		must(t, client.Create(ctx, website("a")))
		mine, err := client.Get(ctx, "a")
		must(t, err)
		theirs, err := client.Get(ctx, "a")
		must(t, err)

		// Other writes to document and record do not matter.
		must(t, client.Patch(ctx, "a", []byte(`{"spec":{"replicas":1}}`)))
		must(t, client.Records().Put(ctx, "a", &entity.Record{Controller: "c"}))
		mine.Status.Ready = true
		must(t, client.UpdateStatus(ctx, mine))
		mine.Status.URLs = []string{"again, with the same object"}
		must(t, client.UpdateStatus(ctx, mine))

		theirs.Status.URLs = []string{"theirs"}
		wantError(t, "status of a stale object", apierrors.IsConflict, client.UpdateStatus(ctx, theirs))
		rec, err := client.Record(ctx, "a")
		must(t, err)
		if rec.Controller != "c" || rec.StatusRevision != 2 {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestAnObjectMadeByHandOverwritesTheStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		for _, url := range []string{"1", "2"} {
			site := website("a")
			site.Status.URLs = []string{url}
			must(t, client.UpdateStatus(t.Context(), site))
		}
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.Status.URLs[0] != "2" {
			t.Errorf("got %+v", got.Status)
		}
	})
}

func TestAnUnchangedStatusWritesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		site := website("a")
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		before, err := client.Record(t.Context(), "a")
		must(t, err)
		must(t, client.UpdateStatus(t.Context(), site))
		after, err := client.Record(t.Context(), "a")
		must(t, err)
		if before.Revision != after.Revision {
			t.Errorf("revision %d became %d", before.Revision, after.Revision)
		}
	})
}

func TestAnEmptyStatusIsNoStatus(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		site, err := client.Get(t.Context(), "a")
		must(t, err)
		must(t, client.UpdateStatus(t.Context(), site))
		_, err = client.Record(t.Context(), "a")
		wantError(t, "record", apierrors.IsNotFound, err)
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		site.Status.Ready = false
		must(t, client.UpdateStatus(t.Context(), site))
		rec, err := client.Record(t.Context(), "a")
		must(t, err)
		if rec.Status != nil || rec.StatusRevision != 2 {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestAStatusWithoutARecordMakesNoAnchor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		site, err := client.Get(t.Context(), "a")
		must(t, err)
		site.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), site))
		rec, err := client.Record(t.Context(), "a")
		must(t, err)
		if rec.Anchor() {
			t.Error("the record makes a teardown owed, and nobody reconciled")
		}
	})
}

// TestTheFirstStatusOfAKeyAsksForTheDocumentOnly if the cache says that there is no record.
func TestTheFirstStatusOfAKeyAsksForTheDocumentOnly(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client, others := newClient[*Website](t, js, websites), newClient[*Website](t, js, websites)
		start(t, client)
		const keys = 20
		var sites []*Website
		for i := range keys {
			key := fmt.Sprint("site-", i)
			must(t, client.Create(t.Context(), website(key)))
			site, err := client.Lister().Get(key)
			must(t, err)
			site.Status.Ready = true
			sites = append(sites, site)
		}
		deleted, overtaken := sites[0].DeepCopyObject().(*Website), sites[1].DeepCopyObject().(*Website)
		reads := asked(t, js, ">")
		for _, site := range sites {
			must(t, client.UpdateStatus(t.Context(), site))
		}
		if got := reads(); got != keys {
			t.Errorf("%d reads for %d statuses", got, keys)
		}
		wantError(t, "somebody was first", apierrors.IsConflict, client.UpdateStatus(t.Context(), overtaken))
		record, err := client.Record(t.Context(), "site-0")
		must(t, err)
		must(t, client.Records().Delete(t.Context(), "site-0", record.Revision))
		must(t, others.Delete(t.Context(), "site-0")) // of which the cache may not have heard
		wantError(t, "deleted", apierrors.IsNotFound, client.UpdateStatus(t.Context(), deleted))
	})
}

func TestStatusOfNothingIsNotFound(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		site.Status.Ready = true
		wantError(t, "never there", apierrors.IsNotFound, client.UpdateStatus(t.Context(), site))
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Delete(t.Context(), "a"))
		wantError(t, "deleted", apierrors.IsNotFound, client.UpdateStatus(t.Context(), site))
	})
}

func TestAStatusOfAnotherShapeLeavesTheEntityReadable(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		must(t, client.Create(t.Context(), website("a")))
		_, err := keyValue(t, js, "websites-status").PutString(t.Context(), "a",
			`{"schemaVersion":1,"status":{"ready":"of an older version"}}`)
		must(t, err)
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		got.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), got))
	})
}

// TestObjectsShowNothingOfTheRuntime, wherever they are read, and a status is still written over nobody else's.
func TestObjectsShowNothingOfTheRuntime(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		untyped := newClient[*unstructured.Unstructured](t, js, websites)
		start(t, client)
		first := website("a")
		must(t, client.Create(t.Context(), first))
		first.Status.Ready = true
		must(t, client.UpdateStatus(t.Context(), first))
		must(t, client.Informer().WaitKey(t.Context(), "a", uint64(first.Generation)))
		heard := make(chan *Website, 10)
		_, err := client.Records().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(record any) {
			document, _, _ := client.Informer().GetStore().GetByKey("a")
			heard <- client.EnginePort().WithStatusOf(document.(*Website), record)
		}})
		must(t, err)
		live, err := client.Get(t.Context(), "a")
		must(t, err)
		cached, err := client.Lister().Get("a")
		must(t, err)
		list, err := client.List(t.Context())
		must(t, err)
		cachedList, err := client.Lister().List(nil)
		must(t, err)
		raw, err := untyped.Get(t.Context(), "a")
		must(t, err)
		read := map[string]entity.IEntity{
			"Get": live, "Lister.Get": cached, "List": list[0], "Lister.List": cachedList[0], "unstructured": raw,
			"a handler": <-heard, "written": first, "a copy": cached.DeepCopyObject().(*Website),
			"a copy of unstructured": raw.DeepCopy(),
		}
		for what, obj := range read {
			data, err := json.Marshal(obj)
			must(t, err)
			if obj.GetAnnotations() != nil || strings.Contains(string(data), "nagi") {
				t.Errorf("%s shows %s", what, data)
			}
		}
		other := website("a")
		other.Status.URLs = []string{"theirs"}
		must(t, client.UpdateStatus(t.Context(), other))
		for what, obj := range read {
			if site, ok := obj.(*Website); ok {
				site.Status.URLs = []string{"mine"}
				err = client.UpdateStatus(t.Context(), site)
			} else {
				u := obj.(*unstructured.Unstructured)
				must(t, unstructured.SetNestedStringSlice(u.Object, []string{"mine"}, "status", "urls"))
				err = untyped.UpdateStatus(t.Context(), u)
			}
			wantError(t, what, apierrors.IsConflict, err)
		}
	})
}
