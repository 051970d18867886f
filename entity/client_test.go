package entity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWhatIsCreatedIsRead(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		site.Labels = map[string]string{"tier": "front"}
		site.Spec.Paths = []string{"/x", "/y"}
		must(t, client.Create(t.Context(), site))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.ResourceVersion != site.ResourceVersion || site.ResourceVersion == "" || got.Generation != site.Generation {
			t.Errorf("resourceVersion %q and generation %d, created as %q and %d",
				got.ResourceVersion, got.Generation, site.ResourceVersion, site.Generation)
		}
		if got.Kind != "Website" || got.Labels["tier"] != "front" || got.Spec.Host != site.Spec.Host ||
			len(got.Spec.Paths) != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAPlainPutByAnotherProgramIsAnEntity(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, entity.Config{
			Kind: "Website", APIVersion: "web/v1", Bucket: "websites", Namespaced: true,
		})
		revision, err := keyValue(t, js, "websites").Put(t.Context(), "shop.www.front", []byte(`{"spec":{"host":"h"}}`))
		must(t, err)
		got, err := client.Get(t.Context(), "shop/www.front")
		must(t, err)
		if got.Namespace != "shop" || got.Name != "www.front" || got.Spec.Host != "h" ||
			got.Kind != "Website" || got.APIVersion != "web/v1" {
			t.Errorf("got %+v", got)
		}
		if got.ResourceVersion != fmt.Sprint(revision) || got.Generation != int64(revision) {
			t.Errorf("resourceVersion %q, generation %d, want %d", got.ResourceVersion, got.Generation, revision)
		}
	})
}

func TestOnlyWhatTheUserMaySayIsWritten(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		now := metav1.Now()
		site := website("a")
		site.Status = WebsiteStatus{Ready: true}
		site.Generation, site.DeletionTimestamp = 7, &now
		site.Annotations = map[string]string{"nagi/status-revision": "3", "mine": "stays"}
		must(t, client.Create(t.Context(), site))
		again, err := client.Get(t.Context(), "a")
		must(t, err)
		must(t, client.Update(t.Context(), again))

		entry, err := keyValue(t, js, "websites").Get(t.Context(), "a")
		must(t, err)
		var document map[string]any
		must(t, json.Unmarshal(entry.Value(), &document))
		meta := document["metadata"].(map[string]any)
		for _, name := range []string{"resourceVersion", "generation", "deletionTimestamp"} {
			if _, found := meta[name]; found {
				t.Errorf("metadata.%s was written: %s", name, entry.Value())
			}
		}
		if _, found := document["status"]; found {
			t.Errorf("status was written: %s", entry.Value())
		}
		annotations := meta["annotations"].(map[string]any)
		if len(annotations) != 1 || annotations["mine"] != "stays" {
			t.Errorf("annotations %v", annotations)
		}
		if !site.Status.Ready || site.Annotations["nagi/status-revision"] != "3" {
			t.Error("the caller's object was changed")
		}
	})
}

func TestWhatADocumentSaysOfItselfCountsForNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		revision, err := keyValue(t, js, "websites").PutString(t.Context(), "a",
			`{"metadata":{"name":"a","resourceVersion":"77","generation":5,"deletionTimestamp":"2026-01-01T00:00:00Z"},`+
				`"status":{"ready":true}}`)
		must(t, err)
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.Status.Ready || got.DeletionTimestamp != nil ||
			got.ResourceVersion != fmt.Sprint(revision) || got.Generation != int64(revision) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestCreateRefusesWhatExists(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		wantError(t, "second create", apierrors.IsAlreadyExists, client.Create(t.Context(), website("a")))
	})
}

func TestCreateWorksOverATombstone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		for name, opts := range map[string][]entity.DeleteOption{"delete": nil, "purge": {entity.Purge()}} {
			must(t, client.Create(t.Context(), website(name)))
			must(t, client.Delete(t.Context(), name, opts...))
			must(t, client.Create(t.Context(), website(name)))
			_, err := client.Get(t.Context(), name)
			must(t, err)
		}
	})
}

func TestUpdateConflictsWithALaterRevision(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		mine := website("a")
		must(t, client.Create(t.Context(), mine))
		theirs, err := client.Get(t.Context(), "a")
		must(t, err)
		theirs.Spec.Replicas = 1
		must(t, client.Update(t.Context(), theirs))
		mine.Spec.Replicas = 2
		wantError(t, "stale update", apierrors.IsConflict, client.Update(t.Context(), mine))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.Spec.Replicas != 1 {
			t.Errorf("the conflicting update was applied: %+v", got.Spec)
		}
	})
}

func TestUpdateOfWhatIsGoneIsNotFound(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		must(t, client.Delete(t.Context(), "a"))
		wantError(t, "update", apierrors.IsNotFound, client.Update(t.Context(), site))
		site.ResourceVersion = ""
		wantError(t, "update without a revision", apierrors.IsInvalid, client.Update(t.Context(), site))
	})
}

func TestDeleteLeavesAMarkerThatExpires(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.TombstoneTTL = time.Hour
		client := newClient[*Website](t, js, cfg)
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Create(t.Context(), website("b")))
		must(t, client.Delete(t.Context(), "a"))
		must(t, client.Delete(t.Context(), "b", entity.Purge()))
		stream, err := js.Stream(t.Context(), "KV_websites")
		must(t, err)
		for _, want := range []uint64{2, 0} {
			time.Sleep(time.Hour - time.Millisecond)
			info, err := stream.Info(t.Context())
			must(t, err)
			if info.State.Msgs != want {
				t.Errorf("%d markers are there, want %d", info.State.Msgs, want)
			}
		}
	})
}

func TestDeleteOfNothingIsNotFound(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		wantError(t, "never there", apierrors.IsNotFound, client.Delete(t.Context(), "a"))
		must(t, client.Create(t.Context(), website("a")))
		must(t, client.Delete(t.Context(), "a"))
		wantError(t, "deleted", apierrors.IsNotFound, client.Delete(t.Context(), "a"))
		wantError(t, "deleted, purge", apierrors.IsNotFound, client.Delete(t.Context(), "a", entity.Purge()))
		wantError(t, "deleted, if at a revision", apierrors.IsNotFound,
			client.Delete(t.Context(), "a", entity.IfRevision(1)))
		_, err := client.Get(t.Context(), "a")
		wantError(t, "get", apierrors.IsNotFound, err)
	})
}

// Without the check, IfRevision(0) would put a marker where there is no document.
func TestDeleteIfNoRevisionIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		wantError(t, "delete", apierrors.IsInvalid, client.Delete(t.Context(), "a", entity.IfRevision(0)))
		if got, err := client.Confirm(t.Context(), "a"); err != nil || got != (entity.Presence{}) {
			t.Errorf("it left something: %+v, %v", got, err)
		}
	})
}

func TestDeleteIfRevisionSparesALaterRevision(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		seen := uint64(site.Generation)
		must(t, client.Update(t.Context(), site))
		wantError(t, "delete", apierrors.IsConflict, client.Delete(t.Context(), "a", entity.IfRevision(seen)))
		must(t, client.Delete(t.Context(), "a", entity.IfRevision(uint64(site.Generation))))
	})
}

func TestADocumentThatDoesNotDecodeIsInvalidAndExists(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		for _, document := range []string{
			``, `nonsense`, `null`, `[]`, `"x"`,
			`{"spec":{"replicas":"three"}}`, `{"metadata":{"name":"other"}}`,
			`{"metadata":{"namespace":"other"}}`, `{"spec":{}`,
		} {
			_, err := keyValue(t, js, "websites").PutString(t.Context(), "a", document)
			must(t, err)
			_, err = client.Get(t.Context(), "a")
			wantError(t, fmt.Sprintf("get of %q", document), apierrors.IsInvalid, err)
			wantError(t, "create over it", apierrors.IsAlreadyExists, client.Create(t.Context(), website("a")))
		}
	})
}

func TestKeysAndDocumentsBeyondTheLimitsAreRefusedBeforeTheWire(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := websites
		cfg.MaxDocumentBytes, cfg.MaxKeyLength = 1000, 100
		client := newClient[*Website](t, js, cfg)
		large := website("a")
		large.Spec.Host = strings.Repeat("x", 1000)
		before := js.Conn().Stats().OutMsgs
		wantError(t, "large document", apierrors.IsRequestEntityTooLargeError, client.Create(t.Context(), large))
		for _, name := range []string{
			"", "sp ace", "a..b", ".a", "a.", "a*", ">", "ü", "_nagi.x", "a/b", strings.Repeat("k", 101),
		} {
			wantError(t, "create "+name, apierrors.IsInvalid, client.Create(t.Context(), website(name)))
			_, err := client.Get(t.Context(), name)
			wantError(t, "get "+name, apierrors.IsInvalid, err)
			wantError(t, "delete "+name, apierrors.IsInvalid, client.Delete(t.Context(), name))
		}
		if after := js.Conn().Stats().OutMsgs; after != before {
			t.Errorf("%d messages were sent", after-before)
		}
		must(t, client.Create(t.Context(), website(strings.Repeat("k", 100))))
	})
}

func TestDocumentsUpToMaxPayloadAreTaken(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		site := website("a")
		document, err := client.DocumentOf(site)
		must(t, err)
		site.Spec.Host += strings.Repeat("x", client.Config().MaxDocumentBytes-len(document))
		must(t, client.Create(t.Context(), site))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.Spec.Host != site.Spec.Host {
			t.Error("it came back different")
		}
		must(t, client.Delete(t.Context(), "a"))
	})
}

func TestAKeyOutsideOfTheFilterIsRefused(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), entity.Config{
			Kind: "Website", Bucket: "websites", Namespaced: true, Filter: "shop.>",
		})
		outside := website("a")
		outside.Namespace = "bank"
		wantError(t, "outside", apierrors.IsInvalid, client.Create(t.Context(), outside))
		inside := website("a")
		inside.Namespace = "shop"
		must(t, client.Create(t.Context(), inside))
	})
}

func TestUnstructuredEntities(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, entity.Config{
			Kind: "Website", APIVersion: "web/v1", Bucket: "websites",
		})
		_, err := keyValue(t, js, "websites").PutString(t.Context(), "a",
			`{"spec":{"replicas":3,"big":9007199254740993},"status":{"x":1}}`)
		must(t, err)
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.GetKind() != "Website" || got.GetAPIVersion() != "web/v1" ||
			got.GetName() != "a" || got.Object["status"] != nil {
			t.Errorf("got %v", got.Object)
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "big"); n != 9007199254740993 {
			t.Errorf("the number became %d", n)
		}
		must(t, unstructured.SetNestedField(got.Object, int64(4), "spec", "replicas"))
		must(t, unstructured.SetNestedField(got.Object, true, "status", "ready"))
		must(t, client.Update(t.Context(), got))
		must(t, client.UpdateStatus(t.Context(), got))
		again, err := client.Get(t.Context(), "a")
		must(t, err)
		replicas, _, _ := unstructured.NestedInt64(again.Object, "spec", "replicas")
		ready, _, _ := unstructured.NestedBool(again.Object, "status", "ready")
		if replicas != 4 || !ready {
			t.Errorf("got %v", again.Object)
		}
		for _, document := range []string{
			`{"metadata":7}`, `{"metadata":{"name":7}}`, `{"metadata":{"labels":{"a":1}}}`, `{"kind":1}`,
		} {
			_, err = keyValue(t, js, "websites").PutString(t.Context(), "bad", document)
			must(t, err)
			_, err = client.Get(t.Context(), "bad")
			wantError(t, document, apierrors.IsInvalid, err)
		}
	})
}

func TestPatchKeepsWhatTheTypeDoesNotKnow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Website](t, js, websites)
		kv := keyValue(t, js, "websites")
		_, err := kv.PutString(t.Context(), "a",
			`{"future":{"n":1.50,"s":"<&>"},"spec":{"host":"h","more":[1,null],"replicas":1},"status":{"x":1}}`)
		must(t, err)
		must(t, client.Patch(t.Context(), "a",
			[]byte(`{"spec":{"replicas":2,"host":null},"metadata":{"labels":{"l":"v"}}}`)))
		entry, err := kv.Get(t.Context(), "a")
		must(t, err)
		want := `{"future":{"n":1.50,"s":"<&>"},"metadata":{"labels":{"l":"v"}},"spec":{"more":[1,null],"replicas":2}}`
		if string(entry.Value()) != want {
			t.Errorf("got  %s\nwant %s", entry.Value(), want)
		}
	})
}

func TestPatchThatChangesNothingWritesNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		must(t, client.Patch(t.Context(), "a", []byte(`{"spec":{"host":"a.example.com"}}`)))
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if got.ResourceVersion != site.ResourceVersion {
			t.Errorf("revision %s, was %s", got.ResourceVersion, site.ResourceVersion)
		}
	})
}

func TestPatchRefusesWhatWouldNotBeADocument(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		site := website("a")
		must(t, client.Create(t.Context(), site))
		for _, patch := range []string{
			`{"spec":{"replicas":"x"}}`, `{"status":{"ready":true}}`, `{"metadata":{"name":"b"}}`,
			`{"metadata":null,"spec":7}`, `[]`, `nonsense`, `{"metadata":{"resourceVersion":"x"}}`,
		} {
			wantError(t, patch, apierrors.IsInvalid, client.Patch(t.Context(), "a", []byte(patch)))
		}
		wantError(t, "nothing there", apierrors.IsNotFound, client.Patch(t.Context(), "b", []byte(`{}`)))
		wantError(t, "another revision", apierrors.IsConflict,
			client.Patch(t.Context(), "a", []byte(`{"metadata":{"resourceVersion":"99"},"spec":{}}`)))
		must(t, client.Patch(t.Context(), "a",
			fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"name":"a"},"spec":{"replicas":5}}`,
				site.ResourceVersion)))
	})
}

func TestConcurrentPatchesAllApply(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		client := newClient[*Website](t, newServer(t), websites)
		must(t, client.Create(t.Context(), website("a")))
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i := range 16 {
			wg.Go(func() {
				if err := client.Patch(
					t.Context(), "a", fmt.Appendf(nil, `{"spec":{"settings":{"k%d":"v"}}}`, i),
				); err != nil {
					failed.Add(1)
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := client.Get(t.Context(), "a")
		must(t, err)
		if len(got.Spec.Settings) != 16 || failed.Load() > 0 {
			t.Errorf("%d of 16 patches are there", len(got.Spec.Settings))
		}
	})
}
