// Package dryrun collects what a reconcile would change, under a context in which nothing is written.
//
// The rule: what writes asks [Of] just before it would send. If there is a plan, it notes there what the object would
// be, and answers as the server would. So all that comes before a write (checks, reads, comparisons) is what it is
// otherwise, and a plan that is wrong is wrong by what only the server knows.
package dryrun

import (
	"context"
	"fmt"
	"sync"
)

// Key is the key under which a context has its Plan.
type Key struct{}

// Of returns the plan of a context; nil if what is written under it is to be written.
func Of(ctx context.Context) *Plan {
	plan, _ := ctx.Value(Key{}).(*Plan)
	return plan
}

// System is where objects are.
type System string

// The systems.
const (
	NATS       System = "NATS"
	Kubernetes System = "Kubernetes"
	External   System = "external"
)

// Object names what is changed.
type Object struct {
	System System `json:"system"`
	Kind   string `json:"kind"`             // or the resource
	Bucket string `json:"bucket,omitempty"` // in NATS
	Key    string `json:"key"`
	Status bool   `json:"status,omitempty"` // it is the status of the object, which is apart from it
	// Cluster tells Kubernetes clusters apart within the process; nil if it is not known.
	Cluster any `json:"-"`
}

// isOf reports whether both are in one place: in two clusters, or buckets, objects may have one name.
func (o Object) isOf(other Object) bool {
	apart := o.Cluster != nil && other.Cluster != nil && o.Cluster != other.Cluster
	return o.System == other.System && o.Kind == other.Kind && o.Bucket == other.Bucket && o.Key == other.Key && !apart
}

// Action is what happens to an object.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionUpdate Action = "update"
	ActionDelete Action = "delete"
)

// Change is what would happen to one object, all writes of it taken together.
type Change struct {
	Object
	Action Action `json:"action"`
	// Fields are what differs, at most FieldsShown; More is how many there are beside them.
	Fields []Field `json:"fields,omitempty"`
	More   int     `json:"more,omitempty"`
	// Why is the reason where it is not the reconciler's own write.
	Why string `json:"why,omitempty"`
}

// State is an object, before or after a change.
type State struct {
	Exists bool
	// JSON is it as a decoded JSON value; nil where only its existence is known.
	JSON any
	// Open is JSON without what must not be shown; the same where all may be shown. A list that lacks an item there is
	// not shown at all.
	Open any
	// Raw is what the one who notes it wants to find again; see Plan.Seen.
	Raw any
}

// Plan is what one reconcile would change. All methods may be called concurrently.
type Plan struct {
	mu      sync.Mutex
	writes  []*written
	at      map[any]*written
	notes   []string
	numbers uint64
}

type written struct {
	Object
	before, after State
	fields        []Field // given by who noted it
	why           string
}

// New returns an empty plan.
func New() *Plan { return &Plan{at: map[any]*written{}} }

// Number returns another number each time, for revisions that no server has given.
func (p *Plan) Number() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.numbers++
	return p.numbers
}

// Seen returns what an object would be by now; ok is false if nothing was noted of it. at tells objects apart.
func (p *Plan) Seen(at any) (state State, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.at[at]
	if w == nil {
		return State{}, false
	}
	return w.after, true
}

// Wrote notes a write of an object: what there was before it, and what there would be after it. Of several writes of
// one object the first before counts, and the last after.
func (p *Plan) Wrote(at any, of Object, before, after State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.at[at]; w != nil {
		w.after = after
		return
	}
	p.add(at, &written{Object: of, before: before, after: after})
}

// Would notes a change of which the fields are known and the object is not, or which the runtime makes, for the reason
// why.
func (p *Plan) Would(of Object, action Action, fields []Field, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if action == ActionDelete && p.deletes(of) {
		return
	}
	w := &written{Object: of, fields: fields, why: why}
	w.before.Exists, w.after.Exists = action != ActionCreate, action != ActionDelete
	p.add(w, w)
}

// deletes reports whether the reconciler itself would have deleted it by then.
func (p *Plan) deletes(of Object) bool {
	for _, w := range p.writes {
		if w.isOf(of) && !w.Status && !w.after.Exists {
			return true
		}
	}
	return false
}

func (p *Plan) add(at any, w *written) {
	p.at[at] = w
	p.writes = append(p.writes, w)
}

// Note notes something that is not a change.
func (p *Plan) Note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// Notes returns what was noted, in its order.
func (p *Plan) Notes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.notes...)
}

// Changes returns what would change, in the order of the first writes. What was written and is as before is no change.
func (p *Plan) Changes() (changes []Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.writes {
		if c, changed := w.change(); changed {
			changes = append(changes, c)
		}
	}
	return changes
}

func (w *written) change() (c Change, changed bool) {
	c = Change{Object: w.Object, Why: w.why}
	switch {
	case w.before.Exists && w.after.Exists:
		c.Action = ActionUpdate
	case w.after.Exists:
		c.Action = ActionCreate
	case w.before.Exists:
		c.Action = ActionDelete
	default:
		return c, false
	}
	fields := w.fields
	if fields == nil && c.Action != ActionDelete {
		fields = between(w.before, w.after)
		if c.Action == ActionUpdate && len(fields) == 0 {
			return c, false
		}
	}
	c.Fields = fields[:min(len(fields), FieldsShown)]
	c.More = len(fields) - len(c.Fields)
	return c, true
}
