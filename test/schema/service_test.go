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
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const serviceFile = "../../docs/service.schema.json"

// serviceSchema is that of a verb's request or answer.
func serviceSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(serviceFile + "#/$defs/" + name)
	must(t, err)
	return schema
}

// asked is a service with a controller of sites, and who asks it.
type asked struct {
	*testing.T
	nc   *nats.Conn
	seen map[string]bool // the definitions that were used
}

// ask sends a request that is as the schema says, and whose answer is. It returns the answer, and the code of an error.
func (a *asked) ask(access, verb, body string) (answer map[string]any, code string) {
	a.Helper()
	if err := serviceSchema(a.T, verb+"-request").Validate(instance(a.T, []byte(body))); err != nil {
		a.Errorf("%s %s: %v", verb, body, err)
	}
	msg, err := a.nc.Request("nagi.sites."+access+"."+verb, []byte(body), 10*time.Second)
	must(a.T, err)
	name := verb + "-answer"
	if code = msg.Header.Get("Nats-Service-Error-Code"); code != "" {
		name = "error"
	}
	a.seen[name] = true
	value := instance(a.T, msg.Data)
	if err := serviceSchema(a.T, name).Validate(value); err != nil {
		a.Errorf("the answer to %s %s is not as the schema says: %v\n%s", verb, body, err, msg.Data)
	}
	if answer = value.(map[string]any); code != "" && code != fmt.Sprint(answer["code"]) {
		a.Errorf("%s %s: code %s, and in the body %v", verb, body, code, answer)
	}
	return answer, code
}

// done is ask for a request that is done.
func (a *asked) done(access, verb, body string) map[string]any {
	a.Helper()
	answer, code := a.ask(access, verb, body)
	if code != "" {
		a.Fatalf("%s %s: %v", verb, body, answer)
	}
	return answer
}

func (a *asked) state(key, want string) {
	a.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		is := a.done("read", "explain", `{"key":"`+key+`"}`)
		if is["state"] == want {
			return
		}
		if time.Since(began) > 20*time.Second {
			a.Fatalf("%s is not %s: %v", key, want, is)
		}
	}
}

// startService runs a controller of sites with its service until the end of the test, and waits until it is reached.
func startService(t *testing.T, js jetstream.JetStream, nc *nats.Conn) (stop func()) {
	t.Helper()
	sites := clientOf[*site](t, js, entity.Config{Kind: "Site", Bucket: "sites"})
	s, err := service.New(service.Config{Conn: nc, ReadRate: 1e6, ActRate: 1e6})
	must(t, err)
	c, err := controller.New("sites", sites, reconcile(sites), s.Controller(), controller.WithWorkers(4),
		controller.WithPlan(), controller.WithGracePeriod(100*time.Millisecond))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- s.Run(ctx) }()
	stop = func() {
		cancel()
		must(t, errors.Join(<-ended, <-ended))
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		answer, err := js.Conn().Request("nagi.sites.read.stats", nil, time.Second)
		if err == nil && answer.Header.Get("Nats-Service-Error-Code") == "" {
			return stop
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the service is not reached")
		}
	}
}

// TestRequestsAndAnswersAreAsTheSchemaSays, of each verb.
func TestRequestsAndAnswersAreAsTheSchemaSays(t *testing.T) {
	srv := natstest.Start(t)
	nc, js := natstest.Connect(t, srv.URL())
	own, _ := natstest.Connect(t, srv.URL())
	stop := startService(t, js, own)
	put := func(key, document string) {
		t.Helper()
		_, err := js.Publish(t.Context(), "$KV.sites."+key, []byte(document))
		must(t, err)
	}
	const gone = 12
	for i := range gone {
		put(fmt.Sprintf("gone%02d", i), `{}`)
	}
	a := &asked{T: t, nc: nc, seen: map[string]bool{}}
	for i := range gone {
		a.state(fmt.Sprintf("gone%02d", i), "calm")
	}
	stop()
	stream, err := js.Stream(t.Context(), "KV_sites")
	must(t, err)
	must(t, stream.Purge(t.Context()))
	own, _ = natstest.Connect(t, srv.URL())
	defer startService(t, js, own)()
	a.state("gone00", "held")

	put("calm", `{}`)
	put("parked", `{"spec":{"title":"terminal"}}`)
	put("retry", `{"spec":{"title":"retrying"}}`)
	put("runs", `{"spec":{"title":"pending"}}`)
	put("invalid", `{"spec":{"pages":"three"}}`)
	for key, state := range map[string]string{
		"calm": "calm", "parked": "parked", "runs": "running", "invalid": "invalid", "none": "unknown",
	} {
		a.state(key, state)
	}
	if about := a.done("read", "about", `{}`); len(about["read"].([]any))+len(about["act"].([]any)) != 19 {
		t.Errorf("%v", about)
	}
	a.done("read", "stats", `{}`)
	a.done("read", "keys", `{}`)
	a.done("read", "list", `{}`)
	a.done("read", "notok", `{"limit":5}`)
	if page := a.done("read", "keys", `{"states":["held"],"limit":2,"after":"gone05"}`); page["next"] != "gone07" {
		t.Errorf("%v", page)
	}
	list := a.done("read", "brake-list", `{"limit":3}`)
	engagement := list["brake"].(map[string]any)["engagement"]
	a.done("act", "reconcile", `{"key":"calm"}`)
	a.done("act", "unpark", `{"key":"parked"}`)
	if plan := a.done("act", "plan", `{"key":"parked"}`); plan["error"] == nil {
		t.Errorf("a plan of what fails: %v", plan)
	}
	a.done("act", "resync", `{}`)
	a.done("act", "suspend", `{"key":"calm"}`)
	a.done("act", "resume", `{"key":"calm"}`)
	for _, of := range []struct{ access, verb, body, code string }{
		{"act", "reconcile", `{"key":"none"}`, "404"}, {"act", "reconcile", `{"key":"a b"}`, "400"},
		{"act", "unpark", `{"key":"calm"}`, "409"}, {"act", "brake-release", `{"engagement":"x","count":1}`, "409"},
	} {
		if answer, code := a.ask(of.access, of.verb, of.body); code != of.code {
			t.Errorf("%s %s: %v", of.verb, of.body, answer)
		}
	}
	a.ask("read", "brake-vanished", `{"limit":5}`)
	a.ask("act", "brake-restore", fmt.Sprintf(`{"engagement":%q,"count":%d}`, engagement, 99))
	a.done("read", "orphans", `{"limit":5}`)
	if answer, code := a.ask("act", "orphans-delete", `{"list":"x","expect":3}`); code != "409" || answer["deletable"] == nil {
		t.Errorf("%v", answer)
	}
	answer, code := a.ask("act", "orphans-adopt", `{"list":"x","expect":3,"owner":"young","newOwner":"calm"}`)
	if code != "409" || answer["adoptable"] == nil {
		t.Errorf("%v", answer)
	}
	a.done("act", "brake-release", fmt.Sprintf(`{"engagement":%q,"count":%d}`, engagement, gone))
	for name := range serviceDefinitions(t) {
		if strings.HasSuffix(name, "-answer") && !a.seen[name] && !strings.HasPrefix(name, "brake-vanished") &&
			!strings.HasPrefix(name, "brake-restore") && name != "orphans-delete-answer" && name != "orphans-adopt-answer" {
			t.Errorf("no answer was a %s", name)
		}
	}
}

// definition is one of the schema.
type definition struct {
	Properties map[string]any `json:"properties"`
	Enum       []any          `json:"enum"`
}

func serviceDefinitions(t *testing.T) map[string]definition {
	t.Helper()
	data, err := os.ReadFile(serviceFile)
	must(t, err)
	var schema struct {
		Definitions map[string]definition `json:"$defs"`
	}
	must(t, json.Unmarshal(data, &schema))
	return schema.Definitions
}

// TestTheSchemaHasEachMemberOfRequestsAndAnswers, and no other.
func TestTheSchemaHasEachMemberOfRequestsAndAnswers(t *testing.T) {
	defs := serviceDefinitions(t)
	for name, of := range map[string]reflect.Type{
		"explanation": reflect.TypeFor[controller.Explanation](), "brake": reflect.TypeFor[service.Brake](),
		"error": reflect.TypeFor[service.Error](), "about-answer": reflect.TypeFor[service.About](),
		"stats-answer": reflect.TypeFor[service.Stats](), "explain-request": reflect.TypeFor[service.KeyRequest](),
		"keys-request": reflect.TypeFor[service.KeysRequest](), "keys-answer": reflect.TypeFor[service.Keys](),
		"list-request": reflect.TypeFor[service.ListRequest](), "list-answer": reflect.TypeFor[service.List](),
		"notok-request": reflect.TypeFor[service.ListRequest](), "notok-answer": reflect.TypeFor[service.List](),
		"listed":                 reflect.TypeFor[service.Listed](),
		"brake-list-request":     reflect.TypeFor[service.BrakeListRequest](),
		"brake-list-answer":      reflect.TypeFor[service.BrakeList](),
		"brake-vanished-request": reflect.TypeFor[service.BrakeListRequest](),
		"brake-vanished-answer":  reflect.TypeFor[service.BrakeVanished](),
		"reconcile-request":      reflect.TypeFor[service.KeyRequest](), "reconcile-answer": reflect.TypeFor[service.Done](),
		"unpark-answer": reflect.TypeFor[service.Done](), "suspend-answer": reflect.TypeFor[service.Done](),
		"suspend-request": reflect.TypeFor[service.SuspendRequest](),
		"resume-answer":   reflect.TypeFor[service.Done](), "resync-answer": reflect.TypeFor[service.Resynced](),
		"brake-release-request": reflect.TypeFor[service.BrakeReleaseRequest](),
		"brake-release-answer":  reflect.TypeFor[service.BrakeReleased](),
		"brake-restore-request": reflect.TypeFor[service.BrakeRequest](),
		"brake-restore-answer":  reflect.TypeFor[service.BrakeRestored](),
		"orphan":                reflect.TypeFor[service.Orphan](),
		"orphans-request":       reflect.TypeFor[service.OrphansRequest](), "orphans-answer": reflect.TypeFor[service.Orphans](),
		"orphans-delete-request": reflect.TypeFor[service.OrphansDeleteRequest](),
		"orphans-delete-answer":  reflect.TypeFor[service.OrphansDeleted](),
		"orphans-adopt-request":  reflect.TypeFor[service.OrphansAdoptRequest](),
		"orphans-adopt-answer":   reflect.TypeFor[service.OrphansAdopted](),
	} {
		compare(t, name, membersOf(of), keys(defs[name].Properties))
	}
	vanished := defs["brake-vanished-answer"].Properties["vanished"].(map[string]any)["items"].(map[string]any)
	compare(t, "vanished document", membersOf(reflect.TypeFor[service.Vanished]()), keys(vanished["properties"].(map[string]any)))
	degraded := defs["stats-answer"].Properties["degraded"].(map[string]any)["items"].(map[string]any)
	compare(t, "problem", membersOf(reflect.TypeFor[service.Problem]()), keys(degraded["properties"].(map[string]any)))
	slow := defs["stats-answer"].Properties["slowest"].(map[string]any)["items"].(map[string]any)
	compare(t, "slow key", membersOf(reflect.TypeFor[service.Slow]()), keys(slow["properties"].(map[string]any)))
	shared := defs["stats-answer"].Properties["shards"].(map[string]any)["properties"].(map[string]any)
	compare(t, "shards", membersOf(reflect.TypeFor[service.Shards]()), keys(shared))
	member := shared["members"].(map[string]any)["items"].(map[string]any)
	compare(t, "member", membersOf(reflect.TypeFor[service.Member]()), keys(member["properties"].(map[string]any)))
	invalid := defs["explanation"].Properties["invalid"].(map[string]any)
	compare(t, "invalid document", membersOf(reflect.TypeFor[entity.InvalidDocument]()),
		keys(invalid["properties"].(map[string]any)))
	var states, want []string
	for _, state := range defs["state"].Enum {
		states = append(states, state.(string))
	}
	for _, state := range explain.States {
		want = append(want, string(state))
	}
	compare(t, "state", want, states)
}

// TestTheServicesDocumentationIsWhatItIs: the permissions that it shows, each verb, each code and each reason.
func TestTheServicesDocumentationIsWhatItIs(t *testing.T) {
	data, err := os.ReadFile("../../docs/service.md")
	must(t, err)
	text := string(data)
	set, err := service.Config{}.Permissions()
	must(t, err)
	if shown := strings.ReplaceAll(strings.TrimSpace(set.NATS()), "\n", "\n  "); !strings.Contains(text, shown) {
		t.Errorf("docs/service.md does not show\n  %s", shown)
	}
	for name, of := range serviceDefinitions(t) {
		if verb, ok := strings.CutSuffix(name, "-answer"); ok && !strings.Contains(text, "`"+verb+"`") {
			t.Errorf("docs/service.md does not explain %s", verb)
		}
		if name == "error" {
			for _, code := range of.Properties["code"].(map[string]any)["enum"].([]any) {
				if !strings.Contains(text, fmt.Sprintf("| %v |", code)) {
					t.Errorf("docs/service.md does not explain the code %v", code)
				}
			}
		}
	}
	for _, reason := range []string{
		service.ReasonReconcile, service.ReasonUnpark, service.ReasonResync, service.ReasonSuspend, service.ReasonResume,
		service.ReasonBrakeRelease, service.ReasonBrakeRestore, service.ReasonOrphansDelete, service.ReasonOrphansAdopt,
	} {
		if !bytes.Contains(data, []byte("`"+reason+"`")) {
			t.Errorf("docs/service.md does not name the reason %s", reason)
		}
	}
}

// TestTheServicesSchemaRefusesWhatIsNoRequest: a schema that takes all would pass the other tests.
func TestTheServicesSchemaRefusesWhatIsNoRequest(t *testing.T) {
	for name, bodies := range map[string][]string{
		"explain-request":        {`{}`, `{"key":7}`, `{"key":""}`, `{"key":"a","namespace":"b"}`, `[]`},
		"keys-request":           {`{"states":"calm"}`, `{"states":["fine"]}`, `{"limit":-1}`, `{"more":1}`},
		"list-request":           {`{"states":["fine"]}`, `{"limit":-1}`, `{"notOK":true}`},
		"brake-release-request":  {`{}`, `{"engagement":"x"}`, `{"count":1}`, `{"engagement":"x","count":-1}`},
		"orphans-request":        {`{"limit":-1}`, `{"namespace":"shop"}`},
		"orphans-delete-request": {`{}`, `{"expect":1}`, `{"list":"x"}`, `{"list":"","expect":1}`, `{"list":"x","expect":0}`},
		"orphans-adopt-request": {
			`{}`, `{"list":"x","expect":1,"owner":"a"}`, `{"list":"x","expect":1,"newOwner":"b"}`,
			`{"list":"","expect":1,"owner":"a","newOwner":"b"}`, `{"list":"x","expect":0,"owner":"a","newOwner":"b"}`,
			`{"list":"x","expect":1,"owner":"a","newOwner":""}`,
		},
		"stats-request":  {`{"more":1}`, `7`},
		"explain-answer": {`{}`, `{"key":"a","state":"fine","says":"","leading":true}`},
		"error":          {`{"code":200,"description":""}`, `{"code":400}`},
	} {
		schema := serviceSchema(t, name)
		for _, body := range bodies {
			if err := schema.Validate(instance(t, []byte(body))); err == nil {
				t.Errorf("%s passes as %s", body, name)
			}
		}
	}
}
