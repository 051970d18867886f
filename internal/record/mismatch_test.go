package record_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
)

// nobody is that no object carries an id; docs is the identity of the stream of the documents.
func nobody() record.Sightings { return nil }
func docs() string             { return "docs" }

// acknowledgement is what a server publishes to the reply subject that the sender of a message names.
const acknowledgement = `{"stream":"KV_sites","seq":7}`

// sighted are objects of an installation that carry revisions of a stream.
func sighted(id, stream string) func() record.Sightings {
	return func() record.Sightings {
		return record.Sightings{
			id: {Objects: 9, Streams: map[string]int{stream: 9}, Source: "Owns Page", Example: "home"},
		}
	}
}

// TestATermDoesNotBeginWithAnIDThatSomebodyReplaced, while there are objects that tell of it, until it is put back.
func TestATermDoesNotBeginWithAnIDThatSomebodyReplaced(t *testing.T) {
	for what, tt := range map[string]struct {
		seen   func() record.Sightings
		change func(s *store) // before the term
		option string
		leads  bool
	}{
		"our objects carry the one before":   {seen: sighted("ours", "docs")},
		"objects of another stream carry it": {seen: sighted("theirs", "other")},
		"objects of our stream carry it":     {seen: sighted("theirs", "docs"), leads: true},
		"nothing carries either":             {seen: nobody, leads: true},
		"the option says so":                 {seen: sighted("ours", "docs"), option: "theirs", leads: true},
		"nobody led with this bucket": {
			seen: sighted("ours", "docs"), change: func(s *store) { s.remove(record.KeyLedWith) }, leads: true,
		},
		"an answer stands where the one before": {
			seen: sighted("ours", "docs"), change: func(s *store) { s.put(record.KeyLedWith, acknowledgement) }, leads: true,
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s store
				b, board := s.bucket()
				s.put(record.KeyInstance, "ours")
				first := record.NewClaim(b, "sites", "")
				must(t, settle(t, first))
				must(t, first.BeginTerm(quiet(t), nobody, docs))
				s.put(record.KeyInstance, "theirs\n")
				if tt.change != nil {
					tt.change(&s)
				}
				next := record.NewClaim(b, "sites", tt.option)
				if tt.option == "" {
					must(t, settle(t, next))
				} else {
					s.put(record.KeyInstance, "theirs")
				}
				begun := make(chan error, 1)
				go func() { begun <- next.BeginTerm(quiet(t), tt.seen, docs) }()
				time.Sleep(time.Minute)
				if tt.leads {
					must(t, <-begun)
					if held, _ := s.has(record.KeyLedWith); held != "theirs" || next.Instance() != "theirs" {
						t.Errorf("it leads with %q, kept %q", next.Instance(), held)
					}
					return
				}
				problem := board.Degraded()["installation (bucket sites-status)"]
				if len(begun) > 0 || problem == nil {
					t.Fatalf("it began: %d; degraded %v", len(begun), board.Degraded())
				}
				for _, part := range []string{`"ours"`, `"theirs"`, "9 objects", `"home"`, "nats kv put sites-status _nagi.instance ours",
					`WithInstance("theirs")`} {
					if !strings.Contains(problem.Error(), part) {
						t.Errorf("%q does not say %q", problem, part)
					}
				}
				s.put(record.KeyInstance, "ours")
				next.Put(record.KeyInstance)
				must(t, <-begun)
				if next.Instance() != "ours" || len(board.Degraded()) > 0 {
					t.Errorf("it leads with %q, degraded %v", next.Instance(), board.Degraded())
				}
			})
		})
	}
}

// TestAReplacedIDIsNotKeptWhenTheBucketIsLost while somebody has to say which one is right.
func TestAReplacedIDIsNotKeptWhenTheBucketIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, _ := s.bucket()
		s.put(record.KeyInstance, "ours")
		claim := record.NewClaim(b, "sites", "")
		must(t, settle(t, claim))
		must(t, claim.BeginTerm(quiet(t), nobody, docs))
		s.put(record.KeyInstance, "theirs")
		next := record.NewClaim(b, "sites", "")
		must(t, settle(t, next))
		begun := make(chan error, 1)
		go func() { begun <- next.BeginTerm(quiet(t), sighted("ours", "docs"), docs) }()
		time.Sleep(time.Minute + time.Second) // between two looks, which are five seconds apart
		s.remove(record.KeyInstance)
		s.remove(record.KeyLedWith)
		must(t, <-begun)
		if held, _ := s.has(record.KeyInstance); held != "ours" || next.Instance() != "ours" {
			t.Errorf("%q in the bucket, it leads with %q", held, next.Instance())
		}
	})
}

// TestAnAnswerIsNoIDAndNobodysClaim: the leader puts its own back, and a replica that starts treats it as nothing.
func TestAnAnswerIsNoIDAndNobodysClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		b, board := s.bucket()
		leader := record.NewClaim(b, "sites", "")
		must(t, settle(t, leader))
		id := leader.Instance()
		attack := func() {
			s.put(record.KeyInstance, acknowledgement)
			s.put(record.KeyController, acknowledgement)
		}
		right := func(when string) {
			t.Helper()
			held, _ := s.has(record.KeyInstance)
			holder, _ := s.has(record.KeyController)
			if held != id || holder != "sites" || len(board.Degraded()) > 0 {
				t.Errorf("%s: the id is %q, and %q holds the bucket; degraded %v", when, held, holder, board.Degraded())
			}
		}
		stop := keeping(t, leader)
		attack()
		leader.Put(record.KeyInstance)
		synctest.Wait()
		right("while it leads")
		stop()

		attack()
		starts := record.NewClaim(b, "sites", "")
		must(t, starts.Take(quiet(t)))
		if got := starts.Instance(); got != "" {
			t.Errorf("it took %q for an id", got)
		}
		settled := make(chan error, 1)
		go func() { settled <- starts.Settle(quiet(t), sighted(id, "docs")) }()
		time.Sleep(time.Minute)
		if len(settled) > 0 {
			t.Error("it made an id beside objects that carry one")
		}
		must(t, leader.BeginTerm(quiet(t), nobody, docs))
		right("at the next term")
		starts.Put(record.KeyInstance)
		must(t, <-settled)
		if starts.Instance() != id {
			t.Errorf("the other has %q", starts.Instance())
		}

		attack()
		alone := record.NewClaim(b, "sites", "")
		must(t, settle(t, alone))
		if got := alone.Instance(); got != id {
			t.Errorf("it made the id %q", got)
		}
	})
}

// TestABucketThatWasLedTellsItsID, also where its key was overwritten or removed while nobody led: an id that is made
// anew would make all that is behind APIs, where nothing tells of the one before, another installation's.
func TestABucketThatWasLedTellsItsID(t *testing.T) {
	for what, lose := range map[string]func(s *store){
		"an answer": func(s *store) { s.put(record.KeyInstance, acknowledgement) },
		"removed":   func(s *store) { s.remove(record.KeyInstance) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s store
				b, _ := s.bucket()
				claim := record.NewClaim(b, "sites", "")
				must(t, settle(t, claim))
				must(t, claim.BeginTerm(quiet(t), nobody, docs))
				lose(&s)
				next := record.NewClaim(b, "sites", "")
				must(t, settle(t, next))
				held, _ := s.has(record.KeyInstance)
				if next.Instance() != claim.Instance() || held != claim.Instance() {
					t.Errorf("the id is %q, in the bucket %q; it was %q", next.Instance(), held, claim.Instance())
				}
			})
		})
	}
}
