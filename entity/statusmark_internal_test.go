package entity

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAKindCarriesItsRevisionAndItsCopiesDo: nothing else does, however equal.
func TestAKindCarriesItsRevisionAndItsCopiesDo(t *testing.T) {
	for revision := range uint64(5) {
		typed := &allocsSiteForMarks{TypeMeta: metav1.TypeMeta{Kind: "Website", APIVersion: "example/v1"}}
		untyped := &unstructured.Unstructured{Object: map[string]any{"kind": "Website"}}
		markStatusRevision(typed, "Website", revision)
		markStatusRevision(untyped, "Website", revision)
		for what, obj := range map[string]IEntity{
			"typed": typed, "copy": typed.DeepCopyObject().(IEntity),
			"unstructured": untyped, "its copy": untyped.DeepCopyObject().(IEntity),
		} {
			if got, ok := statusRevisionOf(obj); !ok || got != revision {
				t.Errorf("%s: %d, %v; want %d", what, got, ok, revision)
			}
			if kind := kindOf(obj); kind != "Website" {
				t.Errorf("%s is a %q", what, kind)
			}
		}
		data := must(json.Marshal(typed))
		again := &allocsSiteForMarks{}
		if err := json.Unmarshal(data, again); err != nil || strings.Contains(string(data), "annotations") {
			t.Errorf("%s: %v", data, err)
		}
		unmark(typed, "Website")
		for what, obj := range map[string]IEntity{
			"unmarked": typed, "read from JSON": again,
			"made by hand": &allocsSiteForMarks{TypeMeta: metav1.TypeMeta{Kind: strings.Clone("Website")}},
			"no kind":      &allocsSiteForMarks{},
		} {
			if got, ok := statusRevisionOf(obj); ok {
				t.Errorf("%s has the revision %d", what, got)
			}
		}
	}
}

type allocsSiteForMarks = Object[benchmarkSpec, benchmarkSpec]

// TestMarksGoWithTheLastObjectThatHasThem, and are never taken for one another meanwhile.
func TestMarksGoWithTheLastObjectThatHasThem(t *testing.T) {
	m := &statusMarks{marks: map[statusMark]weak.Pointer[byte]{}, marked: map[uintptr]heldMark{}}
	kept := m.kind("Website", mark{revision: 1_000_000})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range uint64(5_000) {
				revision := i + uint64(worker%4)*2_500
				kind := m.kind("Website", mark{revision: revision})
				if got, ok := m.of(kind); !ok || got.revision != revision || kind != "Website" {
					t.Errorf("%q is of %d, %v; want %d", kind, got.revision, ok, revision)
					return
				}
			}
		})
	}
	group.Wait()
	for range 100 {
		runtime.GC()
		m.mu.Lock()
		left := fmt.Sprint(len(m.marks), len(m.marked))
		m.mu.Unlock()
		if left == "1 1" {
			break
		}
		runtime.Gosched()
	}
	m.mu.Lock()
	if len(m.marks) != 1 || len(m.marked) != 1 {
		t.Errorf("%d and %d marks are left, want 1", len(m.marks), len(m.marked))
	}
	m.mu.Unlock()
	if got, ok := m.of(kept); !ok || got.revision != 1_000_000 {
		t.Errorf("%d, %v", got.revision, ok)
	}
}
