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
	return &metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(revision, 10)}
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
	if len(table.now)+len(table.old) > 0 {
		t.Errorf("has %v and %v", table.now, table.old)
	}
	table.Add("k", cause(1))
	table.Clear()
	if s := table.Take("k"); len(s.Causes) > 0 {
		t.Errorf("took %+v", s)
	}
}

// TestATableIsBounded: of many keys that wait the oldest lose their causes.
func TestATableIsBounded(t *testing.T) {
	table := NewTable()
	const keys = 5 * mostKeys
	for i := range keys {
		table.Add(fmt.Sprint(i), cause(uint64(i)))
		if kept := len(table.now) + len(table.old); kept > 2*mostKeys {
			t.Fatalf("%d keys", kept)
		}
	}
	if s := table.Take(fmt.Sprint(keys - 1)); len(s.Causes) != 1 {
		t.Errorf("the newest key has %+v", s)
	}
	if s := table.Take("0"); len(s.Causes) > 0 {
		t.Errorf("the oldest key has %+v", s)
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
