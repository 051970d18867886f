package dryrun

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func state(document, open string) State {
	return State{Exists: true, JSON: Decoded([]byte(document)), Open: Decoded([]byte(open))}
}

func changesOf(before, after State) []Change {
	p := New()
	p.Wrote("at", Object{System: NATS, Kind: "Page", Key: "a"}, before, after)
	return p.Changes()
}

func TestFieldsThatDifferAreSaidAndSecretsAreHidden(t *testing.T) {
	for name, c := range map[string]struct {
		before, openBefore, after, openAfter string
		want                                 []string
	}{
		"values": {
			before: `{"spec":{"a":1,"gone":true,"big":9007199254740993},"metadata":{"resourceVersion":"1"}}`,
			after:  `{"spec":{"a":2,"new":"x","big":9007199254740993},"metadata":{"resourceVersion":"2"}}`,
			want:   []string{"spec.a: 1 → 2", "spec.gone: true → ", `spec.new:  → "x"`},
		},
		"lists, and names with dots": {
			before: `{"l":[1,{"x":1}],"m":{"a.b/c":1}}`, after: `{"l":[1,{"x":2},3],"m":{"a.b/c":2}}`,
			want: []string{"l[1].x: 1 → 2", "l[2]:  → 3", `m["a.b/c"]: 1 → 2`},
		},
		"another type": {before: `{"a":{"b":1}}`, after: `{"a":[1]}`, want: []string{`a: {"b":1} → [1]`}},
		"a secret": {
			before: `{"s":{"t":"old","u":1}}`, openBefore: `{"s":{"u":1}}`,
			after: `{"s":{"t":"new","u":2}}`, openAfter: `{"s":{"u":2}}`,
			want: []string{"s.t: (secret) → (secret)", "s.u: 1 → 2"},
		},
		"a secret that is new, as a whole object": {
			before: `{}`, after: `{"s":{"t":"new"}}`, openAfter: `{}`, want: []string{"s:  → (secret)"},
		},
		"a list that lacks its secret items": {
			before: `{"l":[1,"old",3]}`, openBefore: `{"l":[1,3]}`, after: `{"l":[1,"new",3]}`, openAfter: `{"l":[1,3]}`,
			want: []string{"l: (secret) → (secret)"},
		},
		"an object with a secret that becomes a text": {
			before: `{"s":{"t":"old","u":1}}`, openBefore: `{"s":{"u":1}}`, after: `{"s":"none"}`,
			want: []string{`s: (secret) → "none"`},
		},
		"a list with a secret that becomes an object": {
			before: `{"l":[{"t":"old"}]}`, openBefore: `{"l":[{}]}`, after: `{"l":{"a":1}}`,
			want: []string{`l: (secret) → {"a":1}`},
		},
		"documents that nothing may be shown of": {
			before: `{"a":"old"}`, openBefore: `null`, after: `{"a":"new"}`, openAfter: `null`,
			want: []string{"a: (secret) → (secret)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.openBefore == "" {
				c.openBefore = c.before
			}
			if c.openAfter == "" {
				c.openAfter = c.after
			}
			var got []string
			for _, change := range changesOf(state(c.before, c.openBefore), state(c.after, c.openAfter)) {
				for _, f := range change.Fields {
					got = append(got, f.Path+": "+f.From+" → "+f.To)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestSeveralWritesOfOneObjectAreOneChange(t *testing.T) {
	is := func(document string) State { return state(document, document) }
	for name, c := range map[string]struct {
		states []State
		want   Action
	}{
		"made and changed":           {[]State{{}, is(`{"a":1}`), is(`{"a":2}`)}, ActionCreate},
		"made and deleted":           {[]State{{}, is(`{"a":1}`), {}}, ""},
		"changed there and back":     {[]State{is(`{"a":1}`), is(`{"a":2}`), is(`{"a":1}`)}, ""},
		"changed and deleted":        {[]State{is(`{"a":1}`), is(`{"a":2}`), {}}, ActionDelete},
		"deleted and made otherwise": {[]State{is(`{"a":1}`), {}, is(`{"a":2}`)}, ActionUpdate},
	} {
		p := New()
		for i := range len(c.states) - 1 {
			p.Wrote("at", Object{Key: "a"}, c.states[i], c.states[i+1])
		}
		var got Action
		if changes := p.Changes(); len(changes) == 1 {
			got = changes[0].Action
		} else if len(changes) > 1 {
			t.Errorf("%s: %d changes", name, len(changes))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if seen, ok := p.Seen("at"); !ok || seen.Exists != c.states[len(c.states)-1].Exists {
			t.Errorf("%s: it is seen as %+v", name, seen)
		}
	}
}

func TestWhatTheReconcilerDeletesTheRuntimeDoesNotDeleteOnceMore(t *testing.T) {
	p := New()
	of := Object{System: NATS, Kind: "Page", Key: "a"}
	p.Wrote("at", of, state(`{}`, `{}`), State{})
	p.Would(of, ActionDelete, nil, "its owner is gone")
	of.Key = "b"
	p.Would(of, ActionDelete, nil, "its owner is gone")
	if changes := p.Changes(); len(changes) != 2 || changes[0].Why != "" || changes[1].Key != "b" {
		t.Errorf("the changes are %+v", changes)
	}
}

// TestOneNameInTwoPlacesIsTwoObjects: what is deleted in one cluster, or bucket, goes in the other one all the same.
func TestOneNameInTwoPlacesIsTwoObjects(t *testing.T) {
	deleted := Object{System: Kubernetes, Kind: "configmaps/v1", Bucket: "one", Key: "a", Cluster: "one"}
	for name, c := range map[string]struct {
		change func(*Object)
		want   int
	}{
		"the same":                 {func(*Object) {}, 1},
		"another cluster":          {func(o *Object) { o.Cluster = "two" }, 2},
		"a cluster that is unsaid": {func(o *Object) { o.Cluster = nil }, 1},
		"another bucket":           {func(o *Object) { o.Bucket = "two" }, 2},
	} {
		p, would := New(), deleted
		c.change(&would)
		p.Wrote("at", deleted, state(`{}`, `{}`), State{})
		p.Would(would, ActionDelete, nil, "it is not wanted any more")
		if changes := p.Changes(); len(changes) != c.want {
			t.Errorf("%s: the changes are %+v", name, changes)
		}
	}
}

func TestAnOutcomeLosesFieldsBeforeItLosesChanges(t *testing.T) {
	o := &Outcome{}
	for range 100 {
		o.Changes = append(o.Changes, Change{Object: Object{Key: "k"}, Action: ActionCreate,
			Fields: []Field{{Path: "a", To: strings.Repeat("x", 100)}}})
	}
	if !o.Fit(15_000) || len(o.Changes) != 100 || o.MoreChanges != 0 ||
		len(o.Changes[0].Fields) != 1 || o.Changes[99].More != 1 || size(o) > 15_000 {
		t.Errorf("%d changes of %d bytes are left, and %d more", len(o.Changes), size(o), o.MoreChanges)
	}
	if !o.Fit(2_000) || len(o.Changes)+o.MoreChanges != 100 || len(o.Changes) == 0 || size(o) > 2_000 {
		t.Errorf("%d changes of %d bytes are left, and %d more", len(o.Changes), size(o), o.MoreChanges)
	}
	o.Notes = make([]string, 1000)
	if !o.Fit(2_000) || len(o.Notes) != notesKept+1 {
		t.Errorf("%d notes are left", len(o.Notes))
	}
}

func TestAContextWithoutAPlanHasNone(t *testing.T) {
	if Of(t.Context()) != nil || Of(context.WithValue(t.Context(), Key{}, (*Plan)(nil))) != nil {
		t.Error("there is a plan")
	}
}
