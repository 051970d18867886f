package entity_test

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestConfirmTellsPresenceMarkerAndAbsence(t *testing.T) {
	js := newServer(t)
	client := newClient[*Website](t, js, websites)
	start(t, client)
	check := func(when string, want entity.Presence) {
		t.Helper()
		got, err := client.Confirm(t.Context(), "a")
		must(t, err)
		if got != want {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
	}
	check("never there", entity.Presence{})
	site := website("a")
	must(t, client.Create(t.Context(), site))
	check("created", entity.Presence{Exists: true, Revision: uint64(site.Generation)})
	must(t, client.Delete(t.Context(), "a"))
	check("deleted", entity.Presence{Revision: uint64(site.Generation) + 1})
	_, err := keyValue(t, js, "websites").PutString(t.Context(), "a", "nonsense")
	must(t, err)
	check("invalid", entity.Presence{Exists: true, Revision: uint64(site.Generation) + 2})
}

func TestConfirmRefusesAStreamThatIsBehindTheCache(t *testing.T) {
	js := newServer(t)
	client := newClient[*Website](t, js, websites)
	for i := range 5 {
		must(t, client.Create(t.Context(), website(fmt.Sprintf("k%d", i))))
	}
	start(t, client)
	// The stream that answers is another one with fewer messages, of which the cache may or may not know yet.
	must(t, js.DeleteStream(t.Context(), "KV_websites"))
	newClient[*Website](t, js, websites)
	presence, err := client.Confirm(t.Context(), "k0")
	if err == nil {
		// It is the truth once the cache follows the new stream, and only then.
		if client.Informer().Status().StreamChanges == 0 {
			t.Errorf("confirmed %+v against a cache of another stream", presence)
		}
		return
	}
	wantError(t, "confirm", apierrors.IsServiceUnavailable, err)
}
