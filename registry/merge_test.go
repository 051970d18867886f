package registry

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

var (
	monday  = time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	tuesday = monday.Add(24 * time.Hour)
)

// said is an entry as one controller says it.
func saidBy(name, version string, change ...func(*Entry)) Entry {
	e := Entry{
		Kind: "Site", Bucket: "sites", StatusBucket: name + "-status", DescribedBy: name,
		Schema: json.RawMessage(`{"title":"` + name + `"}`),
		Controllers: []Controller{{
			Name: name, StatusBucket: name + "-status", Instance: "i", Version: version,
		}},
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

// after publishes one after the other, all on one day, and returns the last value; nil if the last changed nothing.
func after(t *testing.T, day time.Time, value []byte, entries ...Entry) []byte {
	t.Helper()
	var changed []byte
	for _, e := range entries {
		var err error
		if changed, err = merged(e, value, nil, day); err != nil {
			t.Fatalf("%v\n%s", err, value)
		}
		if changed != nil {
			value = changed
		}
	}
	return changed
}

func read(t *testing.T, value []byte) *Entry {
	t.Helper()
	e, err := decode("Site", value)
	if err != nil {
		t.Fatalf("%v\n%s", err, value)
	}
	return e
}

func TestSinceIsKeptUntilTheVersionIsAnother(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		value := after(t, monday, nil, saidBy("a", "v1"))
		if since := read(t, value).Controllers[0].Since; !since.Equal(monday.Truncate(time.Second)) {
			t.Errorf("since %v", since)
		}
		if again := after(t, tuesday, value, saidBy("a", "v1")); again != nil {
			t.Errorf("without a change it is written: %s", again)
		}
		other := func(e *Entry) { e.Controllers[0].Watches = []Resource{{In: InExternal, Kind: "X"}} }
		same := after(t, tuesday, value, saidBy("a", "v1", other))
		if since := read(t, same).Controllers[0].Since; !since.Equal(monday.Truncate(time.Second)) {
			t.Errorf("of the same version since %v", since)
		}
		newer := after(t, tuesday, value, saidBy("a", "v2"))
		if since := read(t, newer).Controllers[0].Since; !since.Equal(tuesday.Truncate(time.Second)) {
			t.Errorf("of another version since %v", since)
		}
	})
}

func TestOneControllerDescribesTheKindUntilItIsGone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		value := after(t, monday, nil, saidBy("b", "v1"), saidBy("a", "v1"))
		e := read(t, value)
		if e.DescribedBy != "b" || e.StatusBucket != "b-status" || string(e.Schema) != `{"title":"b"}` ||
			string(e.Controllers[0].Schema) != `{"title":"a"}` || e.Controllers[1].Schema != nil {
			t.Errorf("the entry is %s", value)
		}
		if again := after(t, tuesday, value, saidBy("b", "v1")); again != nil {
			t.Errorf("the first writes it anew: %s", again)
		}
		if again := after(t, tuesday, value, saidBy("a", "v1")); again != nil {
			t.Errorf("the second writes it anew: %s", again)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil {
			t.Fatal(err)
		}
		kept, err := json.Marshal(e.Controllers[:1])
		if err != nil {
			t.Fatal(err)
		}
		members["controllers"] = kept // somebody takes the first out
		without, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		e = read(t, after(t, tuesday, without, saidBy("a", "v1")))
		if e.DescribedBy != "a" || string(e.Schema) != `{"title":"a"}` || e.Controllers[0].Schema != nil {
			t.Errorf("the entry is %+v", e)
		}
	})
}

// TestARenamedControllerTakesThePlaceOfItsFormerName: a status bucket is that of one controller, so who leads with it
// is the only one. Replicas of old and new binaries lead one after the other, and each says what it is.
func TestARenamedControllerTakesThePlaceOfItsFormerName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		keeps := func(name, version string) Entry {
			return saidBy(name, version, func(e *Entry) { e.StatusBucket, e.Controllers[0].StatusBucket = "kept", "kept" })
		}
		value := after(t, monday, nil, keeps("old", "v1"), saidBy("other", "v1"))
		contact := bytes.Replace(value, []byte(`"name":"old"`), []byte(`"name":"old","contact":"me"`), 1)
		renamed := after(t, tuesday, contact, keeps("new", "v2"))
		e := read(t, renamed)
		if e.DescribedBy != "new" || string(e.Schema) != `{"title":"new"}` || len(e.Controllers) != 2 ||
			e.Controllers[0].Name != "new" || e.Controllers[0].Schema != nil || !bytes.Contains(renamed, []byte(`"contact":"me"`)) ||
			!e.Controllers[0].Since.Equal(tuesday.Truncate(time.Second)) {
			t.Errorf("the entry is %s", renamed)
		}
		if again := after(t, tuesday, renamed, keeps("new", "v2"), saidBy("other", "v1")); again != nil {
			t.Errorf("it is written again: %s", again)
		}
		back := read(t, after(t, tuesday, renamed, keeps("old", "v1"))) // a replica of the old binary leads once more
		if back.DescribedBy != "old" || len(back.Controllers) != 2 || string(back.Schema) != `{"title":"old"}` {
			t.Errorf("the entry is %+v", back)
		}
		// An earlier version left both names.
		both := bytes.Replace(value, []byte(`"controllers":[`),
			[]byte(`"controllers":[{"name":"new","statusBucket":"kept","since":"2026-11-23T01:02:03Z"},`), 1)
		mended := read(t, after(t, tuesday, both, keeps("new", "v2")))
		if mended.DescribedBy != "new" || len(mended.Controllers) != 2 || mended.Controllers[1].Name != "other" {
			t.Errorf("the entry is %+v", mended)
		}
		// It may move the documents with its new name, too, as nobody else looks after them.
		alone := after(t, monday, nil, keeps("old", "v1"))
		moved := keeps("new", "v2")
		moved.Bucket = "moved"
		if e := read(t, after(t, tuesday, alone, moved)); e.Bucket != "moved" || len(e.Controllers) != 1 {
			t.Errorf("the entry is %+v", e)
		}
		// Without a status bucket nothing tells that two names are one.
		bare := func(name string) Entry {
			return saidBy(name, "v1", func(e *Entry) { e.StatusBucket, e.Controllers[0].StatusBucket = "", "" })
		}
		if e := read(t, after(t, monday, nil, bare("a"), bare("b"))); len(e.Controllers) != 2 || e.DescribedBy != "a" {
			t.Errorf("the entry is %+v", e)
		}
	})
}

func TestAControllerAloneMayMoveItsDocuments(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		moved := func(e *Entry) { e.Bucket, e.Namespaced = "moved", true }
		value := after(t, monday, nil, saidBy("a", "v1"))
		if e := read(t, after(t, monday, value, saidBy("a", "v1", moved))); e.Bucket != "moved" || !e.Namespaced {
			t.Errorf("the entry is %+v", e)
		}
		both := after(t, monday, value, saidBy("b", "v1"))
		for _, change := range []func(*Entry){moved, func(e *Entry) { e.Namespaced = true }} {
			if _, err := merged(saidBy("a", "v1", change), both, nil, monday); err == nil {
				t.Error("beside another controller it moves the documents of both")
			}
		}
	})
}

func FuzzMergedNeverPanicsAndKeepsOthersParts(f *testing.F) {
	for _, value := range []string{
		``, `{}`, `null`, `[]`, `{"schemaVersion":1,"kind":"Site","bucket":"b","controllers":null}`,
		`{"schemaVersion":1,"kind":"Site","bucket":"sites","controllers":[{"name":"x","y":1.0}],"describedBy":"x"}`,
		`{"schemaVersion":1,"kind":"Site","bucket":"sites","controllers":[null]}`,
		`{"schemaVersion":1,"kind":"Site","bucket":"sites","schema":null,"controllers":[{"name":"a"},{"name":"a"}]}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		changed, err := merged(saidBy("a", "v1"), value, nil, monday)
		if err != nil || changed == nil {
			return
		}
		before := &Entry{}
		if len(value) > 0 && json.Unmarshal(value, before) != nil {
			t.Fatalf("it was written over: %q", value)
		}
		after := read(t, changed)
		isSelf := func(c Controller) bool { return c.StatusBucket == "a-status" }
		others := slices.DeleteFunc(slices.Clone(before.Controllers), isSelf)
		kept := slices.DeleteFunc(slices.Clone(after.Controllers), isSelf)
		if len(kept) != len(others) || len(after.Controllers) != len(kept)+1 {
			t.Errorf("%s became %s", value, changed)
		}
		if again, err := merged(saidBy("a", "v1"), changed, nil, tuesday); err != nil || again != nil {
			t.Errorf("%s is written again: %s, %v", changed, again, err)
		}
	})
}

// TestARegistryThatDoesNotAnswerHoldsUpNothing, neither reconciles nor the end.
func TestARegistryThatDoesNotAnswerHoldsUpNothing(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		proxy := natstest.StartProxy(t, w.srv.URL())
		_, silent := natstest.Connect(t, proxy.URL())
		proxy.Blackhole()
		sites := client[*site](w, w.js, sitesConfig)
		c := run(w, "sites", sites, Publish(Options{JetStream: silent, Interval: soon}))
		w.must(sites.Create(t.Context(), &site{ObjectMeta: named("home")}))
		w.must(entity.WaitReconciled(t.Context(), sites, "home", 1))
		began := time.Now()
		c.stop()
		if took := time.Since(began); took > requestTimeout*4/5 { // a request has just begun, and would take all of it
			t.Errorf("the end takes %v", took)
		}
		if degraded := c.Stats().Degraded; len(degraded) > 0 {
			t.Errorf("degraded: %v", degraded)
		}
	})
}
