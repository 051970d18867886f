package entity_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

type freeSpec struct {
	Title  string         `json:"title,omitempty"`
	Limit  int64          `json:"limit,omitempty"`
	Exact  json.Number    `json:"exact,omitempty"`
	Values map[string]any `json:"values,omitempty"`
}

type freeStatus struct {
	Seen any `json:"seen,omitempty"`
}

type free = entity.Object[freeSpec, freeStatus]

// TestNoWriteRoundsAWholeNumber that an interface holds, of the document or of the status; beyond 2^53 a float64 would.
func TestNoWriteRoundsAWholeNumber(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*free](t, js, websites)
		start(t, client)
		values := []string{`"limit":9007199254740995`, `"exact":1.50`, `"values":{"deep":[{"n":9007199254740993}]}`}
		has := func(document []byte) bool {
			return !slices.ContainsFunc(values, func(v string) bool { return !strings.Contains(string(document), v) })
		}
		document := `{"spec":{` + strings.Join(values, ",") + `}}`
		_, err := keyValue(t, js, "websites").PutString(t.Context(), "a", document)
		must(t, err)
		kept := func(after string) {
			t.Helper()
			entry, err := keyValue(t, js, "websites").Get(t.Context(), "a")
			must(t, err)
			if !has(entry.Value()) {
				t.Errorf("after %s: %s", after, entry.Value())
			}
			must(t, client.Informer().WaitCursor(t.Context(), entry.Revision()))
			cached, err := client.Lister().Get("a")
			must(t, err)
			if n := cached.Spec.Values["deep"].([]any)[0].(map[string]any)["n"]; n != int64(9007199254740993) {
				t.Errorf("after %s the lister has %T %v", after, n, n)
			}
		}
		kept("a put")
		obj, err := client.Get(t.Context(), "a")
		must(t, err)
		obj.Spec.Title = "one"
		must(t, client.Update(t.Context(), obj))
		kept("an update")
		must(t, client.Patch(t.Context(), "a", []byte(`{"spec":{"title":"two"}}`)))
		kept("a patch")

		obj.Status.Seen = map[string]any{"n": int64(9007199254740993)}
		must(t, client.UpdateStatus(t.Context(), obj))
		obj, err = client.Get(t.Context(), "a")
		must(t, err)
		if n := obj.Status.Seen.(map[string]any)["n"]; n != int64(9007199254740993) {
			t.Errorf("the status has %T %v", n, n)
		}
		last, err := client.DocumentOf(obj)
		must(t, err)
		if !has(last) {
			t.Errorf("a record would get %s", last)
		}
	})
}
