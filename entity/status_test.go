package entity_test

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestStatusIsJoinedAndLeavesTheDocumentAlone(t *testing.T) {
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
}

func TestAPlainPutDoesNotWipeTheStatus(t *testing.T) {
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
}

func TestUpdateStatusConflictsOnlyWithAnotherWriterOfStatus(t *testing.T) {
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
}

func TestAnObjectMadeByHandOverwritesTheStatus(t *testing.T) {
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
}

func TestAnUnchangedStatusWritesNothing(t *testing.T) {
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
}

func TestAnEmptyStatusIsNoStatus(t *testing.T) {
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
}

func TestAStatusWithoutARecordMakesNoAnchor(t *testing.T) {
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
}

// TestTheFirstStatusOfAKeyAsksForTheDocumentOnly if the cache says that there is no record.
func TestTheFirstStatusOfAKeyAsksForTheDocumentOnly(t *testing.T) {
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
	before := js.Conn().Stats().OutMsgs
	for _, site := range sites {
		must(t, client.UpdateStatus(t.Context(), site))
	}
	if sent := js.Conn().Stats().OutMsgs - before; sent >= 3*keys { // the caches may ask for something meanwhile
		t.Errorf("%d requests for %d statuses", sent, keys)
	}
	wantError(t, "somebody was first", apierrors.IsConflict, client.UpdateStatus(t.Context(), overtaken))
	record, err := client.Record(t.Context(), "site-0")
	must(t, err)
	must(t, client.Records().Delete(t.Context(), "site-0", record.Revision))
	must(t, others.Delete(t.Context(), "site-0")) // of which the cache may not have heard
	wantError(t, "deleted", apierrors.IsNotFound, client.UpdateStatus(t.Context(), deleted))
}

func TestStatusOfNothingIsNotFound(t *testing.T) {
	client := newClient[*Website](t, newServer(t), websites)
	site := website("a")
	site.Status.Ready = true
	wantError(t, "never there", apierrors.IsNotFound, client.UpdateStatus(t.Context(), site))
	must(t, client.Create(t.Context(), website("a")))
	must(t, client.Delete(t.Context(), "a"))
	wantError(t, "deleted", apierrors.IsNotFound, client.UpdateStatus(t.Context(), site))
}

func TestAStatusOfAnotherShapeLeavesTheEntityReadable(t *testing.T) {
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
}
