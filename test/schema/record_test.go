// Package schema tests docs/record.schema.json: that all that a controller writes is as it says.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const file = "../../docs/record.schema.json"

type spec struct {
	Title string `json:"title,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

type status struct {
	Ready bool `json:"ready,omitempty"`
}

type site = entity.Object[spec, status]

// reconcile does what the title says.
func reconcile(sites *entity.Client[*site]) controller.Reconciler {
	return controller.ReconcilerFunc(func(ctx context.Context, req controller.Request) (controller.Result, error) {
		s, err := sites.Lister().Get(req.Key)
		gone := req.Operations.Has(controller.OperationDelete)
		switch {
		case gone && req.Key == "deleting":
			return controller.Result{}, errors.New("a teardown that fails")
		case gone:
			return controller.Result{}, nil
		case err != nil:
			return controller.Result{}, err
		}
		switch s.Spec.Title {
		case "pending":
			<-ctx.Done()
			return controller.Result{}, ctx.Err()
		case "retrying":
			return controller.Result{}, errors.New("not yet")
		case "terminal":
			return controller.Result{}, controller.TerminalError(errors.New("never"))
		}
		s.Status.Ready = true
		return controller.Result{}, controller.SetStatus(ctx, s)
	})
}

// TestWhatAControllerWritesIsAsTheSchemaSays, in each phase.
func TestWhatAControllerWritesIsAsTheSchemaSays(t *testing.T) {
	schema := compiled(t)
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sites, err := entity.NewClient[*site](ctx, js, entity.Config{
		Kind: "Site", Bucket: "sites", Storage: jetstream.MemoryStorage,
	})
	must(t, err)
	defer sites.Close()
	c, err := controller.New("sites", sites, reconcile(sites), controller.WithResyncInterval(0), controller.WithWorkers(4),
		controller.WithGracePeriod(100*time.Millisecond))
	must(t, err)
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(run) }()
	defer func() {
		stop()
		<-ended
	}()
	documents, err := js.KeyValue(ctx, "sites")
	must(t, err)
	put := func(key, document string) {
		t.Helper()
		_, err := documents.PutString(ctx, key, document)
		must(t, err)
	}
	put("synced", `{"spec":{"title":"synced"},"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}}}`)
	put("pending", `{"spec":{"title":"pending"}}`)
	put("retrying", `{"spec":{"title":"retrying"}}`)
	put("terminal", `{"spec":{"title":"terminal"}}`)
	put("invalid", "{\n\"spec\":{\"pages\":\"three\"}}")
	put("syntax", `{"spec":`)
	put("suspended", `{"metadata":{"annotations":{"nagi/suspend":"true"}}}`)
	put("deleting", `{}`)
	for key, ttl := range map[string]string{"expires": "1h", "never": "never"} {
		_, err := js.PublishMsg(ctx, &nats.Msg{
			Subject: "$KV.sites." + key, Data: []byte(`{}`), Header: nats.Header{jetstream.MsgTTLHeader: {ttl}},
		})
		must(t, err)
	}
	wait := func(key string, phase entity.Phase) {
		t.Helper()
		err := entity.WaitFor(ctx, sites, key, func(rec *entity.Record) (bool, error) {
			return rec != nil && rec.Phase() == phase, nil
		})
		must(t, err)
	}
	wait("deleting", entity.PhaseSynced)
	must(t, documents.Delete(ctx, "deleting"))
	records, err := js.KeyValue(ctx, "sites-status")
	must(t, err)
	for key, phase := range map[string]entity.Phase{
		"synced": entity.PhaseSynced, "pending": entity.PhasePending, "retrying": entity.PhaseRetrying,
		"terminal": entity.PhaseTerminal, "invalid": entity.PhaseInvalid, "syntax": entity.PhaseInvalid,
		"suspended": entity.PhaseSuspended, "deleting": entity.PhaseDeleting,
		"expires": entity.PhaseSynced, "never": entity.PhaseSynced,
	} {
		wait(key, phase)
		entry, err := records.Get(ctx, key)
		must(t, err)
		record := instance(t, entry.Value())
		if err := schema.Validate(record); err != nil {
			t.Errorf("%s is not as the schema says: %v\n%s", key, err, entry.Value())
		}
		if got := record.(map[string]any)["phase"]; got != string(phase) {
			t.Errorf("%s is in phase %v, want %s: %s", key, got, phase, entry.Value())
		}
		got := record.(map[string]any)["documentExpires"]
		if expires := key == "expires" || key == "never"; (got != nil) != expires || key == "never" && got != "never" {
			t.Errorf("%s expires: %v", key, got)
		}
	}
}

// TestTheSchemaRefusesWhatIsNoRecord: a schema that takes all would pass the other tests.
func TestTheSchemaRefusesWhatIsNoRecord(t *testing.T) {
	schema := compiled(t)
	if err := schema.Validate(instance(t, []byte(`{"schemaVersion":1}`))); err != nil {
		t.Error(err)
	}
	for _, record := range []string{
		`[]`, `{}`, `{"schemaVersion":2}`, `{"schemaVersion":1,"phase":"Fine"}`, `{"schemaVersion":1,"observedRevision":"7"}`,
		`{"schemaVersion":1,"stream":"KV_sites"}`, `{"schemaVersion":1,"invalid":{"reason":"which revision?"}}`,
		`{"schemaVersion":1,"firstSeen":"today"}`, `{"schemaVersion":1,"documentExpires":"1h"}`, `{"schemaVersion":1,"conditions":[{"type":"Reconciled","status":"True",` +
			`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Retrying","message":""}]}`,
	} {
		if err := schema.Validate(instance(t, []byte(record))); err == nil {
			t.Errorf("%s passes", record)
		}
	}
}

// TestTheSchemaAndTheDocumentationHaveEachMember that a record is written with, and no other.
func TestTheSchemaAndTheDocumentationHaveEachMember(t *testing.T) {
	data, err := os.ReadFile(file)
	must(t, err)
	var schema struct {
		Properties map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"properties"`
	}
	must(t, json.Unmarshal(data, &schema))
	text, err := os.ReadFile("../../docs/record.md")
	must(t, err)
	want := append(membersOf(reflect.TypeFor[entity.Record]()), "phase")
	compare(t, "record", want, keys(schema.Properties))
	invalid := membersOf(reflect.TypeFor[entity.InvalidDocument]())
	compare(t, "invalid", invalid, keys(schema.Properties["invalid"].Properties))
	for _, name := range append(want, invalid...) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/record.md does not explain `%s`", name)
		}
	}
	for _, phase := range []entity.Phase{
		entity.PhasePending, entity.PhaseSynced, entity.PhaseRetrying, entity.PhaseTerminal, entity.PhaseInvalid,
		entity.PhaseSuspended, entity.PhaseDeleting, entity.PhaseUnknown,
	} {
		if !strings.Contains(string(text), fmt.Sprintf("| `%s` |", phase)) || !bytes.Contains(data, []byte(`"`+phase+`"`)) {
			t.Errorf("docs/record.md or the schema does not have the phase %s", phase)
		}
	}
}

func compare(t *testing.T, what string, want, got []string) {
	t.Helper()
	in := func(list []string, name string) bool {
		for _, other := range list {
			if other == name {
				return true
			}
		}
		return false
	}
	for _, name := range want {
		if !in(got, name) {
			t.Errorf("the schema does not have %q of a %s", name, what)
		}
	}
	for _, name := range got {
		if !in(want, name) {
			t.Errorf("the schema has %q, and a %s does not", name, what)
		}
	}
}

func membersOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func keys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	schema, err := compiler.Compile(file)
	must(t, err)
	return schema
}

func instance(t *testing.T, data []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	must(t, err)
	return value
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
