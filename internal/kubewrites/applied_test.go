package kubewrites

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/owner"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a ConfigMap as the server has it after an apply of data.
func object(version, value string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"value": value}}}
	u.SetUID("uid")
	u.SetResourceVersion(version)
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "sites", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:value":{}}}`),
	}})
	return u
}

func wants(value string) Wanted {
	return Wanted{
		Key: "settings", Manager: "sites", Version: schema.GroupVersion{Version: "v1"}, Hash: "of " + value,
		Fields: map[string]any{"data": map[string]any{"value": value}},
	}
}

// TestAVersionThatComesBackWithOtherValuesIsNotRight: after a restore of etcd versions are given again.
func TestAVersionThatComesBackWithOtherValuesIsNotRight(t *testing.T) {
	m := NewMemory(none)
	m.Returned(wants("one"), object("7", "one"))
	shown := object("7", "one")
	for range 2 {
		if !m.Right(wants("one"), shown, "", true) {
			t.Fatal("what the server returned is not right")
		}
	}
	if m.Right(wants("one"), object("7", "another"), "", true) {
		t.Error("another value under the same version counts as right")
	}
	if !m.Right(wants("one"), object("8", "one"), "", true) {
		t.Error("the same value under another version counts as wrong")
	}
	if m.Right(wants("two"), shown, "", true) {
		t.Error("what was not applied counts as right")
	}
}

// TestAMemoryThatIsReadOnlyLearnsAndForgetsNothing, and knows what the other one knows.
func TestAMemoryThatIsReadOnlyLearnsAndForgetsNothing(t *testing.T) {
	m := NewMemory(none)
	view := m.ReadOnly()
	us := owner.Owner{Kind: "Site", Key: "home"}
	view.Owned("settings", "uid", us)
	view.Put("settings", State{UID: "uid", Owner: us})
	view.Returned(wants("one"), object("7", "one"))
	view.Confirmed(wants("one"), object("7", "one"))
	if state, ok := m.Of("settings", "uid"); ok {
		t.Errorf("it has learned %+v", state)
	}
	m.Returned(wants("one"), object("7", "one"))
	before, _ := m.Of("settings", "uid")
	if !view.Right(wants("one"), object("8", "one"), "", true) {
		t.Error("it does not know what the other one knows")
	}
	view.Owned("settings", "uid", us)
	view.Forget("settings")
	if after, ok := m.Of("settings", "uid"); !ok || after.Owner != before.Owner || after.Version != before.Version {
		t.Errorf("it has changed %+v to %+v", before, after)
	}
}

// TestWhatTheServerMakesOfAnApplyIsRight, though it is not what was sent.
func TestWhatTheServerMakesOfAnApplyIsRight(t *testing.T) {
	m := NewMemory(none)
	m.Returned(wants("one"), object("7", "ONE"))
	if !m.Right(wants("one"), object("7", "ONE"), "", true) || !m.Right(wants("one"), object("9", "ONE"), "", true) {
		t.Error("what a webhook made of it counts as wrong")
	}
	if m.Right(wants("one"), object("10", "one"), "", true) {
		t.Error("another value counts as right")
	}
	// Who has not applied it compares with what it wants.
	for value, right := range map[string]bool{"one": true, "ONE": false} {
		if got := NewMemory(none).Right(wants("one"), object("7", value), "of one", true); got != right {
			t.Errorf("%q, in a new process: %v, want %v", value, got, right)
		}
	}
	if NewMemory(none).Right(wants("one"), object("7", "one"), "of another", true) {
		t.Error("what was applied with another hash counts as right")
	}
}

// TestWhereTheCacheDoesNotTellOnlyTheSameVersionIsRight: it keeps metadata only, or drops the managedFields.
func TestWhereTheCacheDoesNotTellOnlyTheSameVersionIsRight(t *testing.T) {
	for name, shown := range map[string]func(version string) metav1.Object{
		"metadata only": func(version string) metav1.Object {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				UID: "uid", ResourceVersion: version, ManagedFields: object("7", "one").GetManagedFields(),
			}}
		},
		"no managedFields": func(version string) metav1.Object {
			u := object(version, "one")
			u.SetManagedFields(nil)
			return u
		},
	} {
		m := NewMemory(none)
		m.Returned(wants("one"), object("7", "one"))
		for range 2 {
			if !m.Right(wants("one"), shown("7"), "of one", true) {
				t.Errorf("%s: the version that the server returned counts as wrong", name)
			}
		}
		if m.Right(wants("one"), shown("8"), "of one", true) {
			t.Errorf("%s: another version counts as right, though nobody knows", name)
		}
	}
}

// none is a cache without objects.
func none(string) metav1.Object { return nil }

// TestMemoryIsBoundedByTheCache: what the cache has is kept, however much that is.
func TestMemoryIsBoundedByTheCache(t *testing.T) {
	shown := object("7", "one")
	m := NewMemory(func(key string) metav1.Object {
		if strings.HasPrefix(key, "shown-") {
			return shown
		}
		return nil
	})
	for n := range 2 * most {
		m.Put(fmt.Sprint("shown-", n), State{UID: "uid"})
		m.Put(fmt.Sprint("gone-", n), State{UID: "uid"})
	}
	for n := range 2 * most {
		if _, known := m.Of(fmt.Sprint("shown-", n), "uid"); !known {
			t.Fatalf("number %d is forgotten, though the cache has it", n)
		}
	}
	if n := len(m.byKey); n > 5*most {
		t.Errorf("%d are remembered, of %d that the cache has", n, 2*most)
	}
}

// TestAnApplyThatChangedNothingTeachesWhatTheCacheShows: its Go type may show a value in another way.
func TestAnApplyThatChangedNothingTeachesWhatTheCacheShows(t *testing.T) {
	m := NewMemory(none)
	m.Returned(wants("one"), object("7", "one"))
	if m.Right(wants("one"), object("8", "one, typed"), "", true) {
		t.Error("another value counts as right")
	}
	m.Returned(wants("one"), object("8", "one"))
	m.Confirmed(wants("one"), object("8", "one, typed"))
	if !m.Right(wants("one"), object("9", "one, typed"), "", true) {
		t.Error("what an apply confirmed counts as wrong")
	}
}
