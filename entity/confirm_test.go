package entity_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
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
