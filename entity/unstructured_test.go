package entity_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAnUnstructuredEntityTakesWhatJSONTakes: an int, strings, a time. What JSON does not take is told, and nothing is
// written.
func TestAnUnstructuredEntityTakesWhatJSONTakes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, websites)
		start(t, client)
		ctx := t.Context()
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a"},
			"spec": map[string]any{
				"replicas": 5, "paths": []string{"/"}, "settings": map[string]string{"a": "b"},
				"since": time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), "big": int64(9007199254740993),
			},
		}}
		must(t, client.Create(ctx, u))
		u.Object["spec"].(map[string]any)["replicas"] = 6
		must(t, client.Update(ctx, u))
		const want = `{"big":9007199254740993,"paths":["/"],"replicas":6,"settings":{"a":"b"},` +
			`"since":"2026-11-28T00:00:00Z"}`
		for _, when := range []string{"at once", "later"} {
			got, err := client.Lister().Get("a")
			must(t, err)
			if spec, err := json.Marshal(got.Object["spec"]); err != nil || string(spec) != want {
				t.Errorf("%s: %s, want %s, %v", when, spec, want, err)
			}
			time.Sleep(2 * time.Second)
		}
		u.Object["spec"].(map[string]any)["hook"] = func() {}
		if err := client.Update(ctx, u); err == nil || !strings.Contains(err.Error(), "func()") {
			t.Errorf("a function: %v", err)
		}
	})
}
