package causes

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/natsinformer"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func entry(revision uint64, header nats.Header) natsinformer.Entry {
	return natsinformer.Entry{Key: "home", Revision: revision, Header: header}
}

func at(revision uint64) metav1.Object {
	return &metav1.ObjectMeta{Name: "home", ResourceVersion: strconv.FormatUint(revision, 10)}
}

// TestSeenTellsTheTraceOfARevision, of its own bucket, and of no other.
func TestSeenTellsTheTraceOfARevision(t *testing.T) {
	var s Seen
	s.Note("a", entry(7, nats.Header{"traceparent": {parent}, "tracestate": {"x=1"}}))
	want := Cause{Bucket: "a", Key: "home", Revision: 7, TraceParent: parent, TraceState: "x=1"}
	if c := s.Of("a", at(7)); c == nil || *c != want {
		t.Errorf("got %+v", c)
	}
	for _, c := range []*Cause{s.Of("b", at(7)), s.Of("a", at(8)), s.Of("a", at(7+4096)), s.Of("a", nil),
		s.Of("a", &metav1.ObjectMeta{ResourceVersion: "x"}), (*Seen)(nil).Of("a", at(7))} {
		if c != nil {
			t.Errorf("found %+v", *c)
		}
	}
	s.Note("a", entry(7, nil)) // of a stream that was created anew
	if c := s.Of("a", at(7)); c != nil {
		t.Errorf("still has %+v", *c)
	}
}

// TestAnInferredDeleteIsOfNoOtherKeysTrace: its revision is the cursor, which is of a message of another key.
func TestAnInferredDeleteIsOfNoOtherKeysTrace(t *testing.T) {
	for key, of := range map[string]metav1.ObjectMeta{
		"home": {Name: "home"}, "shop.home": {Namespace: "shop", Name: "home"}, "shop.a.b": {Namespace: "shop", Name: "a.b"},
		"a.b": {Name: "a.b"},
	} {
		var s Seen
		s.Note("a", natsinformer.Entry{Key: key, Revision: 7, Header: nats.Header{"traceparent": {parent}}})
		of.ResourceVersion = "7"
		if c := s.Of("a", &of); c == nil || c.Key != key {
			t.Errorf("%s: got %+v", key, c)
		}
		for _, other := range []metav1.ObjectMeta{
			{Name: "other"}, {Namespace: "shop", Name: "other"}, {Namespace: "other", Name: "home"}, {Name: "hom"},
			{Namespace: "shop", Name: "ahome"}, {Namespace: "shop", Name: "homes"}, {Namespace: "shop"}, {},
		} {
			other.ResourceVersion = "7"
			if c := s.Of("a", &other); c != nil {
				t.Errorf("%s: %s/%s is in the trace of %+v", key, other.Namespace, other.Name, c)
			}
		}
	}
}

// TestSeenBoundsWhatItKeeps of headers that anybody may write.
func TestSeenBoundsWhatItKeeps(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var s Seen
	for name, header := range map[string]nats.Header{
		"none": {}, "empty": {"traceparent": {""}}, "long": {"traceparent": {long}},
		"several": {"traceparent": {parent, parent}}, "only the state": {"tracestate": {"x=1"}},
	} {
		s.Note("a", entry(1, header))
		if c := s.Of("a", at(1)); c != nil {
			t.Errorf("%s: kept %+v", name, *c)
		}
	}
	s.Note("a", entry(1, nats.Header{"traceparent": {parent}, "tracestate": {long}}))
	if c := s.Of("a", at(1)); c == nil || c.TraceState != "" {
		t.Errorf("got %+v", c)
	}
}

func cause(revision uint64) *Cause {
	return &Cause{Bucket: "a", Key: "k", Revision: revision, TraceParent: parent}
}

// TestATableKeepsTheNewestCausesOfAKey, and counts the others.
func TestATableKeepsTheNewestCausesOfAKey(t *testing.T) {
	table := NewTable()
	for i := range uint64(20) {
		table.Add("k", cause(i))
		table.Add("k", cause(i)) // the event of an update maps to the key twice
	}
	s := table.Take("k")
	if len(s.Causes) != Most || s.More != 20-Most || s.Causes[0].Revision != 4 || s.Causes[Most-1].Revision != 19 {
		t.Errorf("took %+v", s)
	}
	if s := table.Take("k"); len(s.Causes) > 0 {
		t.Errorf("took %+v a second time", s)
	}
}

// TestCausesComeBackWhileAKeyIsNotAsItShouldBe, before those that came meanwhile, and not for ever.
func TestCausesComeBackWhileAKeyIsNotAsItShouldBe(t *testing.T) {
	table := NewTable()
	table.Add("k", cause(1))
	first := table.Take("k")
	table.Add("k", cause(2))
	table.Settle("k", first, true)
	s := table.Take("k")
	if len(s.Causes) != 2 || s.Causes[0].Revision != 1 || s.Causes[1].Revision != 2 {
		t.Fatalf("took %+v", s)
	}
	tries := 1
	for ; len(s.Causes) > 0; tries++ {
		if tries > 2*mostTries {
			t.Fatal("it never ends")
		}
		table.Settle("k", s, true)
		s = table.Take("k")
	}
	if tries != mostTries+1 {
		t.Errorf("given to %d reconciles", tries-1)
	}
	table.Add("k", cause(3))
	table.Settle("k", table.Take("k"), false)
	if s = table.Take("k"); len(s.Causes) > 0 {
		t.Errorf("a reconcile that is finished leaves %+v", s)
	}
}

// TestATableForgets what did not make a key due, keys that are gone, and all at the end of a term.
func TestATableForgets(t *testing.T) {
	table := NewTable()
	table.Add("k", cause(1))
	table.Add("k", cause(2))
	table.Remove("k", cause(1))
	table.Remove("other", cause(1))
	if s := table.Take("k"); len(s.Causes) != 1 || s.Causes[0].Revision != 2 {
		t.Errorf("took %+v", s)
	}
	table.Add("k", cause(1))
	table.Remove("k", cause(1))
	table.Add("gone", cause(1))
	table.Forget("gone")
	if keys, causes, bytes := table.sizes(); keys+causes+bytes > 0 {
		t.Errorf("has %+v", table)
	}
	table.Add("k", cause(1))
	table.Clear()
	if s := table.Take("k"); len(s.Causes) > 0 {
		t.Errorf("took %+v", s)
	}
}

// sizes is what a table holds of all keys together.
func (t *Table) sizes() (keys, causes, bytes int) {
	of := func(key string, s Set) {
		keys++
		causes += len(s.Causes)
		bytes += len(key)
		for _, c := range s.Causes {
			bytes += len(c.Bucket) + len(c.Key) + len(c.TraceParent) + len(c.TraceState)
		}
	}
	for _, sets := range []map[string]Set{t.now.sets, t.old.sets} {
		for key, s := range sets {
			of(key, s)
		}
	}
	for key := range t.more {
		keys++
		bytes += len(key)
	}
	return keys, causes, bytes
}

// TestATableIsBounded by what all keys have together, and not only by how many they are: the oldest lose their causes
// first, and those are counted.
func TestATableIsBounded(t *testing.T) {
	long := strings.Repeat("x", longestState)
	for name, c := range map[string]Cause{
		"short": *cause(0), "long": {Bucket: "a", Key: strings.Repeat("k", 1000), TraceParent: parent, TraceState: long},
	} {
		table := NewTable()
		const all = 5000
		for i := range all {
			c.Revision = uint64(i)
			for range Most {
				c.Revision += all
				table.Add(fmt.Sprint(i), &c)
			}
			if i%1000 > 0 {
				continue
			}
			if keys, causes, bytes := table.sizes(); keys > mostCauses*3/2 || causes > mostCauses || bytes > mostBytes*3/2 {
				t.Fatalf("%s: %d keys with %d causes in %d bytes", name, keys, causes, bytes)
			}
		}
		if s := table.Take(fmt.Sprint(all - 1)); len(s.Causes) != Most {
			t.Errorf("%s: the newest key has %+v", name, s)
		}
		if s := table.Take("0"); len(s.Causes)+s.More > 0 {
			t.Errorf("%s: the oldest key has %+v", name, s)
		}
	}
}

// TestAKeyThatLostItsCausesHasTheirNumber.
func TestAKeyThatLostItsCausesHasTheirNumber(t *testing.T) {
	table := NewTable()
	for i := range uint64(3) {
		table.Add("k", cause(i))
	}
	for i := range mostCauses {
		table.Add(fmt.Sprint(i), cause(uint64(i)))
	}
	table.Add("k", cause(7))
	if s := table.Take("k"); len(s.Causes) != 1 || s.More != 3 {
		t.Errorf("took %+v", s)
	}
	if s := table.Take("k"); len(s.Causes)+s.More > 0 {
		t.Errorf("took %+v a second time", s)
	}
}

// TestWhatWasTakenStaysAsItIs: an observer may keep it.
func TestWhatWasTakenStaysAsItIs(t *testing.T) {
	table := NewTable()
	table.Add("k", cause(1))
	table.Add("k", cause(2))
	taken := table.Take("k")
	table.Settle("k", taken, true)
	table.Remove("k", cause(1))
	table.Add("k", cause(3))
	if len(taken.Causes) != 2 || taken.Causes[0].Revision != 1 || taken.Causes[1].Revision != 2 {
		t.Errorf("it became %+v", taken)
	}
}

// TestANilTableCostsNothing.
func TestANilTableCostsNothing(t *testing.T) {
	var table *Table
	c := cause(1)
	if n := testing.AllocsPerRun(100, func() {
		table.Add("k", c)
		table.Remove("k", c)
		table.Settle("k", table.Take("k"), true)
		table.Forget("k")
		table.Clear()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
