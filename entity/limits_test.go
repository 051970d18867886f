package entity_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestALargeDocumentIsInvalidUnlessItIsWanted: a server may take more than a reader wants to decode.
func TestALargeDocumentIsInvalidUnlessItIsWanted(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t, natstest.WithMaxPayload(8<<20)).URL())
		client := newClient[*Website](t, js, websites)
		start(t, client)
		must(t, client.Create(testContext(t), website("home")))
		large := fmt.Sprintf(`{"spec":{"host":%q}}`, strings.Repeat("h", 2<<20))
		_, err := keyValue(t, js, "websites").Put(testContext(t), "home", []byte(large))
		must(t, err)
		_, err = client.Get(testContext(t), "home")
		wantError(t, "Get", apierrors.IsInvalid, err)
		if !strings.Contains(err.Error(), "MaxDocumentBytes") || len(err.Error()) > 1024 {
			t.Errorf("%v does not say what to do", err)
		}
		wantNow(t, "the cache knows", func() bool {
			_, err := client.Lister().Get("home")
			return apierrors.IsInvalid(err)
		})
		if all, err := client.Lister().List(nil); err != nil || len(all) != 1 || all[0].Spec.Host != "home.example.com" {
			t.Errorf("%v, %v: want the last good version", all, err)
		}
		site := website("other")
		site.Spec.Host = strings.Repeat("h", 2<<20)
		wantError(t, "Create", apierrors.IsRequestEntityTooLargeError, client.Create(testContext(t), site))

		cfg := websites
		cfg.MaxDocumentBytes = 4 << 20
		wants := newClient[*Website](t, js, cfg)
		got, err := wants.Get(testContext(t), "home")
		must(t, err)
		if len(got.Spec.Host) != 2<<20 {
			t.Errorf("%d bytes read", len(got.Spec.Host))
		}
		must(t, wants.Create(testContext(t), site))
	})
}

// worstSize is how large the worst documents are: what they take in memory grows with it.
const worstSize = 256 << 10

// worst are documents that take much more in memory.
func worst() map[string]string {
	repeat := func(before, one, after string) string {
		return before + strings.Repeat(one+",", (worstSize-len(before)-len(after)-len(one))/(len(one)+1)) + one + after
	}
	var members strings.Builder
	for i := 0; members.Len() < worstSize-100; i++ {
		fmt.Fprintf(&members, `"%x":"",`, i)
	}
	return map[string]string{
		"empty objects":  repeat(`{"spec":{"settings":null,"paths":[`, `{}`, `]}}`),
		"empty arrays":   repeat(`{"spec":{"paths":[`, `[]`, `]}}`),
		"empty texts":    repeat(`{"spec":{"paths":[`, `""`, `]}}`),
		"numbers":        repeat(`{"spec":{"paths":[`, `1`, `]}}`),
		"objects of one": repeat(`{"spec":{"paths":[`, `{"a":1}`, `]}}`),
		"managed fields": repeat(`{"metadata":{"managedFields":[`, `{}`, `]}}`),
		"owners":         repeat(`{"metadata":{"ownerReferences":[`, `{}`, `]}}`),
		"many members":   `{"spec":{"settings":{` + members.String() + `"z":""}}}`,
		"labels":         `{"metadata":{"labels":{` + members.String() + `"z":""}}}`,
	}
}

// mostExpansion is how many times the size of a document its decoded form may take, as the package comment says.
const mostExpansion = 64

// mostAllocated is the same with what is garbage when it is decoded.
const mostAllocated = 256

// TestMemoryOfTheWorstDocumentIsBounded measures what stays of a document, for the figure in the package
// comment.
func TestMemoryOfTheWorstDocumentIsBounded(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		typed := newClient[*Website](t, js, websites)
		free := newClient[*unstructured.Unstructured](t, js, entity.Config{Kind: "Thing", Bucket: "things"})
		for what, document := range worst() {
			if !json.Valid([]byte(document)) || len(document) > worstSize {
				t.Fatalf("%s: %d bytes, valid: %v", what, len(document), json.Valid([]byte(document)))
			}
			measure := func(kind string, decode func() (any, error)) {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				obj, err := decode()
				runtime.GC()
				runtime.ReadMemStats(&after)
				kept, allocated := int64(after.HeapAlloc)-int64(before.HeapAlloc), after.TotalAlloc-before.TotalAlloc
				t.Logf("%-20s %-12s keeps %5.1f MiB, allocates %5.1f MiB (%v)", what, kind, float64(kept)/(1<<20),
					float64(allocated)/(1<<20), err != nil)
				if kept > mostExpansion*int64(len(document)) {
					t.Errorf("%s, %s: %d bytes are kept", what, kind, kept)
				}
				if allocated > mostAllocated*uint64(len(document)) {
					t.Errorf("%s, %s: %d bytes are allocated", what, kind, allocated)
				}
				runtime.KeepAlive(obj)
			}
			measure("typed", func() (any, error) { return typed.FromDocument("home", 1, []byte(document)) })
			measure("unstructured", func() (any, error) { return free.FromDocument("home", 1, []byte(document)) })
		}
	})
}

// TestDepthIsBoundedWhateverIsRead: documents, statuses, and records that somebody else wrote.
func TestDepthIsBoundedWhateverIsRead(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*unstructured.Unstructured](t, js, entity.Config{Kind: "Thing", Bucket: "things"})
		deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
		for what, document := range map[string]string{
			"nested": `{"spec":` + deep + `}`, "an array": deep, "null": `null`, "a text": `"a"`, "nothing": ` `,
		} {
			_, err := keyValue(t, js, "things").Put(testContext(t), "home", []byte(document))
			must(t, err)
			_, err = client.Get(testContext(t), "home")
			wantError(t, what, apierrors.IsInvalid, err)
		}
		_, err := keyValue(t, js, "things").Put(testContext(t), "home", []byte(`{}`))
		must(t, err)
		_, err = keyValue(t, js, "things-status").Put(testContext(t), "home", []byte(`{"schemaVersion":1,"status":`+deep+`}`))
		must(t, err)
		_, err = client.Get(testContext(t), "home")
		wantError(t, "a status in a record", apierrors.IsInvalid, err)
		must(t, keyValue(t, js, "things-status").Delete(testContext(t), "home"))
		obj, err := client.Get(testContext(t), "home")
		must(t, err)
		var status any
		must(t, json.Unmarshal([]byte(deep), &status))
		obj.Object["status"] = status
		wantError(t, "a status that is written", apierrors.IsInvalid, client.UpdateStatus(testContext(t), obj))
	})
}
