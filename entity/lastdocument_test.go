package entity_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// recorded runs a controller of shops until the key is reconciled, and returns its record.
func recorded(t *testing.T, client *entity.Client[*Shop], key string) *entity.Record {
	t.Helper()
	c, err := controller.New("shops", client, controller.ReconcilerFunc(
		func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil }))
	must(t, err)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- c.Run(ctx) }()
	defer func() { stop(); must(t, <-done) }()
	must(t, entity.WaitFor(testContext(t), client, key, func(record *entity.Record) (bool, error) {
		return record != nil && record.ObservedRevision > 0, nil
	}))
	record, err := client.Record(t.Context(), key)
	must(t, err)
	return record
}

// TestTheLastDocumentHasWhatTheTypeDoesNotKnow: else what is restored from it would have lost it.
func TestTheLastDocumentHasWhatTheTypeDoesNotKnow(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		const document = `{"future":{"a":1.50},"metadata":{"labels":{"l":"v"},"zone":"eu"},` +
			`"spec":{"title":"old","new":[1,2],"owner":{"name":"o","age":7}}}`
		put(t, js, "corner", document)
		record := recorded(t, client, "corner")
		var last, want map[string]any
		must(t, json.Unmarshal(record.LastDocument, &last))
		must(t, json.Unmarshal([]byte(document), &want))
		delete(last, "apiVersion")
		delete(last, "kind")
		meta := last["metadata"].(map[string]any)
		delete(meta, "creationTimestamp")
		delete(meta, "name")
		got, _ := json.Marshal(last)
		wanted, _ := json.Marshal(want)
		if string(got) != string(wanted) {
			t.Errorf("the record has %s\nof        %s", got, wanted)
		}
		if lacks := client.Records().LastDocumentLacks(record); lacks != "" {
			t.Errorf("it is told to lack something: %s", lacks)
		}
	})
}

func TestALastDocumentTellsWhatItLacks(t *testing.T) {
	t.Run("members in arrays", virtually(func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "corner", `{"spec":{"title":"old","new":1,"guests":[{"name":"g","seat":1}]}}`)
		wantLacks(t, client, recorded(t, client, "corner"), "the Go type does not know")
	}))
	t.Run("what an older version did not keep", virtually(func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "corner", `{"spec":{"title":"old","new":1}}`)
		record := recorded(t, client, "corner")
		record.LastDocument = []byte(`{"spec":{"title":"old"}}`)
		wantLacks(t, client, record, "the Go type does not know")
	}))
	for name, document := range map[string]string{
		"half a character": `{"spec":{"title":"\ud800"}}`, "no UTF-8": "{\"spec\":{\"title\":\"\xff\"}}",
		"half a character and more": `{"u":1,"spec":{"title":"\ud800"}}`,
	} {
		t.Run(name, virtually(func(t *testing.T) {
			js := newServer(t)
			client := newClient[*Shop](t, js, shops)
			put(t, js, "corner", document)
			wantLacks(t, client, recorded(t, client, "corner"), "U+FFFD in its place")
		}))
	}
	t.Run("half a character that is kept as it is", virtually(func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "corner", `{"a\ud800":1,"a\ud801":2,"spec":{"title":"t","new":["\udfff"]},"status":{"urls":["\ud800"]}}`)
		record := recorded(t, client, "corner")
		for _, kept := range []string{`"a\ud800":1`, `"a\ud801":2`, `"new":["\udfff"]`} {
			if !strings.Contains(string(record.LastDocument), kept) {
				t.Errorf("the last document %s does not have %s", record.LastDocument, kept)
			}
		}
		if lacks := client.Records().LastDocumentLacks(record); lacks != "" {
			t.Errorf("it lacks %s", lacks)
		}
		shop, err := client.Get(t.Context(), "corner")
		must(t, err)
		shop.Spec.Title = "u"
		must(t, client.Update(t.Context(), shop))
		entry, err := keyValue(t, js, "shops").Get(t.Context(), "corner")
		must(t, err)
		for _, kept := range []string{`"a\ud800":1`, `"a\ud801":2`, `"new":["\udfff"]`} {
			if !strings.Contains(string(entry.Value()), kept) {
				t.Errorf("the document %s does not have %s", entry.Value(), kept)
			}
		}
	}))
	t.Run("too large with it", virtually(func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.LastDocumentLimit = 200
		client := newClient[*Shop](t, js, cfg)
		put(t, js, "corner", `{"spec":{"title":"old","new":"`+strings.Repeat("x", 200)+`"}}`)
		record := recorded(t, client, "corner")
		if len(record.LastDocument) == 0 {
			t.Error("what the type knows is not kept either")
		}
		wantLacks(t, client, record, "the Go type does not know")
	}))
	t.Run("secrets", virtually(func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.SecretFields = []string{"spec.owner.name"}
		client := newClient[*Shop](t, js, cfg)
		put(t, js, "corner", `{"spec":{"title":"old","owner":{"nmae":"wrongly written"}}}`)
		record := recorded(t, client, "corner")
		wantLacks(t, client, record, "secret")
		if strings.Contains(string(record.LastDocument), "wrongly") {
			t.Errorf("the record has what may be a secret: %s", record.LastDocument)
		}
	}))
	t.Run("all of it", virtually(func(t *testing.T) {
		js := newServer(t)
		cfg := shops
		cfg.LastDocumentLimit = 10
		client := newClient[*Shop](t, js, cfg)
		put(t, js, "corner", `{"spec":{"title":"old"}}`)
		wantLacks(t, client, recorded(t, client, "corner"), "LastDocumentLimit")
	}))
}

func wantLacks(t *testing.T, client *entity.Client[*Shop], record *entity.Record, want string) {
	t.Helper()
	if lacks := client.Records().LastDocumentLacks(record); !strings.Contains(lacks, want) {
		t.Errorf("it lacks %q, want something with %q; it has %s", lacks, want, record.LastDocument)
	}
}

func TestADocumentIsCreatedAsItIsAndOverNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		ctx := testContext(t)
		revision, err := client.CreateDocument(ctx, "corner", []byte(shopOfTomorrow))
		must(t, err)
		entry, err := keyValue(t, js, "shops").Get(ctx, "corner")
		must(t, err)
		if string(entry.Value()) != shopOfTomorrow || entry.Revision() != revision {
			t.Errorf("%s at %d, want %s at %d", entry.Value(), entry.Revision(), shopOfTomorrow, revision)
		}
		_, err = client.CreateDocument(ctx, "corner", []byte(`{"spec":{}}`))
		wantError(t, "over a document", apierrors.IsAlreadyExists, err)
		must(t, client.Delete(ctx, "corner"))
		_, err = client.CreateDocument(ctx, "corner", []byte(`{"spec":{}}`))
		must(t, err) // over a marker
		for name, document := range map[string]string{
			"no JSON": `{"spec":`, "another name": `{"metadata":{"name":"other"}}`, "another type": `{"spec":{"title":1}}`,
		} {
			_, err = client.CreateDocument(ctx, "new", []byte(document))
			wantError(t, name, apierrors.IsInvalid, err)
		}
		_, err = client.CreateDocument(ctx, "no/key", []byte(`{"spec":{}}`))
		wantError(t, "no key", apierrors.IsInvalid, err)
	})
}
