package explain

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	put     = operation.Of(operation.Put)
	leading = Lead{Started: true, Synced: true, Leads: true}
	present = source.View{Presence: source.Present, Revision: 5, Object: &metav1.ObjectMeta{Name: "home"}}
	retry   = queue.Delay{Ops: put, Kind: queue.RetryDelay, Since: time.Unix(1, 0), Due: time.Unix(2, 0)}
	anchor  = &entity.Record{Controller: "sites", Stream: "s", ObservedRevision: 5}
	fails   = keytable.State{Failures: 1, Trouble: keytable.Trouble{Error: "no rights"}}
)

// TestOfSeveralThingsTheStateIsTheOneThatDecides. Those that need nothing but a server are tested in package
// controller.
func TestOfSeveralThingsTheStateIsTheOneThatDecides(t *testing.T) {
	parked := keytable.State{Parked: &keytable.Parked{Presence: source.Present, Object: present.Object}}
	resting := keytable.State{Parked: &keytable.Parked{
		Presence: source.Present, Object: present.Object, RestsUntil: time.Now().Add(time.Hour),
	}}
	invalid := source.View{Presence: source.Invalid, Refused: 6, Object: present.Object}
	for name, c := range map[string]struct {
		facts facts
		want  State
	}{
		"Run was not called":      {facts{view: present}, Stopped},
		"the caches come":         {facts{lead: Lead{Started: true}, view: present}, Starting},
		"it runs, and Run ends":   {facts{lead: Lead{Started: true, Stopped: true}, run: running.Run{Key: "a"}, queue: queue.Known{Running: true}}, Running},
		"a lost term, it runs":    {facts{lead: Lead{Started: true, Synced: true}, run: running.Run{Key: "a"}, queue: queue.Known{Running: true}}, Running},
		"its record is written":   {facts{lead: leading, view: present, queue: queue.Known{Running: true}}, Handling},
		"an invalid one is noted": {facts{lead: leading, view: invalid, queue: queue.Known{Running: true}}, Invalid},
		"invalid and due":         {facts{lead: leading, view: invalid, queue: queue.Known{Due: put}}, Invalid},
		"no record can hold it": {facts{lead: leading, view: present, record: &entity.Record{
			Invalid: &entity.InvalidDocument{Revision: 5}}}, Invalid},
		"its record is garbled":   {facts{lead: leading, view: present, unreadable: true}, Unreadable},
		"only its record is left": {facts{lead: leading, unreadable: true}, Unreadable},
		"parked, and a resync":    {facts{lead: leading, view: present, keys: parked, queue: queue.Known{Due: operation.Of(operation.Resync)}}, Parked},
		"parked, and an event":    {facts{lead: leading, view: present, keys: parked, queue: queue.Known{Due: operation.Of(operation.Secondary)}}, Ready},
		"parked, too soon":        {facts{lead: leading, view: present, keys: resting, queue: queue.Known{Due: operation.Of(operation.Secondary)}}, Parked},
		"parked, and by hand":     {facts{lead: leading, view: present, keys: parked, queue: queue.Known{Due: operation.Of(operation.Manual)}}, Ready},
		"parked at another":       {facts{lead: leading, view: source.View{Presence: source.Present, Object: &metav1.ObjectMeta{}}, keys: parked}, Unreconciled},
		"failed, and due":         {facts{lead: leading, view: present, keys: fails, queue: queue.Known{Due: put}}, Ready},
		"failed":                  {facts{lead: leading, view: present, keys: fails, queue: queue.Known{Wait: retry}}, Retry},
		"a teardown failed":       {facts{lead: leading, record: anchor, keys: fails, queue: queue.Known{Wait: retry}}, Retry},
		"a teardown goes on":      {facts{lead: leading, record: anchor, queue: queue.Known{Wait: retry}}, Deleting},
		"the brake decides":       {facts{lead: leading, record: anchor}, Deleting},
		"the brake holds it":      {facts{lead: leading, record: anchor, held: true}, Held},
		"it wakes itself":         {facts{lead: leading, view: present, keys: keytable.State{Looping: true}, queue: queue.Known{Wait: retry}}, Looping},
		"its document comes":      {facts{lead: leading, view: source.View{Presence: source.Arriving}, queue: queue.Known{Wait: retry}}, Arriving},
		"its event comes":         {facts{lead: leading, view: source.View{Presence: source.Arriving}}, Arriving},
		"of another stream":       {facts{lead: leading, view: present, record: &entity.Record{Controller: "sites", Stream: "t", ObservedRevision: 5}}, Unreconciled},
		"without records":         {facts{lead: leading, view: present, unrecorded: true}, Calm},
		"another member's":        {facts{shared: true, lead: Lead{Started: true, Synced: true}, view: present}, Elsewhere},
		"another's, not known":    {facts{shared: true, lead: Lead{Started: true, Synced: true}}, Unknown},
		"a record, no anchor":     {facts{lead: leading, record: &entity.Record{}}, Unknown},
	} {
		if got, _ := c.facts.stateOf("s"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestTopKeepsTheFirstInOrder, and of equals those that came first.
func TestTopKeepsTheFirstInOrder(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	all := []Explanation{
		{Key: "a", Since: at(5)}, {Key: "b"}, {Key: "c", Since: at(3)}, {Key: "d", Since: at(5)}, {Key: "e", Since: at(9)},
	}
	keys := func(es []Explanation) (keys string) {
		for _, e := range es {
			keys += e.Key
		}
		return keys
	}
	var seq iter.Seq[Explanation] = slices.Values(all)
	for n, want := range []string{"", "c", "ca", "cad", "cade", "cadeb", "cadeb"} {
		if got := keys(Top(seq, n, OldestFirst)); got != want {
			t.Errorf("the %d oldest are %q, want %q", n, got, want)
		}
	}
	failing := []Explanation{{Key: "a"}, {Key: "b", Failures: 7}, {Key: "c", Failures: 3}}
	if got := keys(Top(slices.Values(failing), 2, MostFailingFirst)); got != "bc" {
		t.Errorf("the most failing are %q", got)
	}
}

// TestWhoMayAskAboutOneNamespaceIsNotToldOfOthers: why news is missing may name their objects.
func TestWhoMayAskAboutOneNamespaceIsNotToldOfOthers(t *testing.T) {
	e := Explanation{Key: "shop/home", State: Standby, Leader: "bank-host", Missing: []MissingNews{
		{Source: "Owns Page (bucket pages)", Since: time.Unix(1, 0), Why: `"bank/secret" does not decode`},
	}}
	e.Says = e.sentence()
	told := e.ToNamespace()
	if strings.Contains(told.Says+told.Leader+told.Missing[0].Why, "bank") || !strings.Contains(told.Says, "Owns Page") {
		t.Errorf("told %+v", told)
	}
	if e.Missing[0].Why == "" || !strings.Contains(e.Says, "bank/secret") {
		t.Errorf("the explanation itself was changed: %+v", e)
	}
}

// TestAKeyOfAnotherMember: it is told who works at it, also if that goes to another, or if no member does.
func TestAKeyOfAnotherMember(t *testing.T) {
	for _, c := range []struct {
		share Share
		says  string
		told  string // to who may ask about one namespace
	}{
		{Share{Slot: 7, Member: "a"}, "Member a works at it, which has its slot (7). Ask that one.",
			"Another replica works at it."},
		{Share{Slot: 7, Member: "a", Next: "b"}, "Member a works at it, and member b is about to: its slot (7) is handed over.",
			"Another replica works at it."},
		{Share{Slot: 7, Next: "b"}, "No replica works at it now: none has its slot (7) whose lease is there. Member b is to " +
			"take it.", "No replica works at it now: none has its slot (7) whose lease is there."},
	} {
		e := Explanation{Key: "shop/home", State: Elsewhere, Member: c.share.Member, share: c.share}
		if e.Says = e.sentence(); e.Says != c.says {
			t.Errorf("%+v: it says %q", c.share, e.Says)
		}
		if told := e.ToNamespace(); told.Says != c.told || told.Member != "" {
			t.Errorf("%+v: who may ask about one namespace is told %+v", c.share, told)
		}
	}
	for recorded, want := range map[string]bool{"": false, entity.ReasonSynced: false, entity.ReasonTerminal: true} {
		if e := (Explanation{State: Elsewhere, Recorded: recorded}); e.NotOK() != want {
			t.Errorf("with %q in its record: not well: %v", recorded, e.NotOK())
		}
	}
}
