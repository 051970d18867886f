package record

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nuid"
	"k8s.io/klog/v2"
)

// lookAgain is how often the objects of other installations are looked for again.
const lookAgain = 5 * time.Second

// Settle learns the id of this installation, and makes one for a bucket without. It does not while there are objects
// that carry others: if the bucket was lost, everything that the primaries own would be another installation's with a
// new id. Then it waits, degraded, until the id was put, or ctx ends. others lists the objects by their ids.
func (c *Claim) Settle(ctx context.Context, others func() Sightings) error {
	if c.Instance() != "" {
		return nil
	}
	board, name := c.bucket.board, c.installation()
	defer board.Set(context.WithoutCancel(ctx), name, nil)
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for told := false; ; told = true {
		seen := others() // before the key is read: another replica writes it before its first objects
		if err := c.Take(ctx); err != nil || c.Instance() != "" {
			return err
		}
		if len(seen) == 0 {
			c.made.Store(true)
			return c.keep(ctx, nuid.Next())
		}
		err := c.undecided(seen)
		board.Set(ctx, name, err)
		if !told {
			klog.FromContext(ctx).Error(err, "Nothing is reconciled until the id of this installation is known")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.given:
		case <-look.C: // the objects may be gone
		}
	}
}

// lateSources are the sources with objects of other installations that CameLate was told of.
type lateSources struct {
	mu   sync.Mutex
	errs map[string]error // what is reported of them, by their names
}

// set notes what is reported of a source, nil for nothing, and returns what was.
func (l *lateSources) set(source string, err error) (was error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.errs[source]
	switch {
	case err == nil:
		delete(l.errs, source)
	case l.errs == nil:
		l.errs = map[string]error{source: err}
	default:
		l.errs[source] = err
	}
	return was
}

// err is what is reported of one of them; nil if there are none.
func (l *lateSources) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(l.errs)) {
		return l.errs[source]
	}
	return nil
}

// CameLate is told of the objects in a source that has synced after Settle. If the id was made before, without knowing
// of them, and none of them carries it, the status bucket may have been lost. That is reported, until the next term, or
// until LateGone.
func (c *Claim) CameLate(ctx context.Context, source string, seen Sightings) {
	id := c.Instance()
	if _, ours := seen[id]; ours || len(seen) == 0 || !c.made.Load() {
		return
	}
	other := "ID"
	if ids := seen.ids(); len(ids) == 1 {
		other = printable.Typed(ids[0], "ID")
	}
	c.late.set(source, fmt.Errorf("the id of this installation, %q, was made while a source "+
		"was away, and its objects have owners in another one: %s. They are another installation's to this "+
		"controller, which does not write or delete them. If the status bucket was lost, take the id over: stop all "+
		"replicas, and nats kv put %s %s %s", id, seen, c.bucket.name, KeyInstance, other))
	c.bucket.board.Change(ctx, c.installation(), c.late.err)
}

// LateGone takes back what CameLate has reported of a source, which was taken away. Another one may say the same.
func (c *Claim) LateGone(ctx context.Context, source string) {
	if c.late.set(source, nil) != nil {
		c.bucket.board.Recall(ctx, c.installation(), c.late.err)
	}
}

// installation is the name on the board of what is wrong with the id.
func (c *Claim) installation() string { return "installation (bucket " + c.bucket.name + ")" }

func (c *Claim) undecided(seen Sightings) error {
	id := "ID"
	if ids := seen.ids(); len(ids) == 1 {
		id = printable.Typed(ids[0], "ID")
	}
	return fmt.Errorf("the status bucket %s has no id of this installation, and there are objects whose owners are in "+
		"another one: %s. If the status bucket was lost, take the id over: nats kv put %s %s %s, or WithInstance(%q). "+
		"If the objects are another installation's, put there an id that no other has",
		c.bucket.name, seen, c.bucket.name, KeyInstance, id, id)
}

// Sightings are objects that name an owner of a kind, by the id of the owner's installation.
type Sightings map[string]Sighting

// Sighting is where an id was seen.
type Sighting struct {
	Objects int
	Streams map[string]int // how many carry a revision of which stream
	Source  string         // of one of them
	Example string         // its key
}

// SeenIn looks through the caches of sources. It counts what this runtime wrote, which carries a revision of its owner.
// What only bears another id stops no start. Nor does, where the claim wants proofs, what does not prove the id that it
// bears: else who may write one object could keep a controller from starting.
func SeenIn(sources []source.Owned, claim owner.Claim) Sightings {
	seen := Sightings{}
	for _, s := range sources {
		of := claim.In(s)
		for obj := range s.All() {
			named := owner.NamedBy(obj).Owner()
			stamp := owner.StampOf(obj)
			if named.Kind != claim.Kind || named.Instance == "" || stamp.IsNone() {
				continue
			}
			if of.Instance = named.Instance; of.Proofs != nil && !of.IsProven(obj) {
				continue
			}
			seen.add(named.Instance, stamp.Stream, s, source.ObjectKey(obj))
		}
		for a := range s.Elsewhere() {
			if a.Stream != "" {
				seen.add(a.Instance, a.Stream, s, a.Key)
			}
		}
	}
	return seen
}

func (s Sightings) add(instance, stream string, in source.Owned, object string) {
	sighting := s[instance]
	if sighting.Objects++; sighting.Objects == 1 {
		sighting.Streams = map[string]int{}
		sighting.Source, sighting.Example = in.String(), object
	}
	sighting.Streams[stream]++
	s[instance] = sighting
}

// ids are the ids, those with the most objects first.
func (s Sightings) ids() []string {
	return slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(s[b].Objects, s[a].Objects), cmp.Compare(a, b))
	})
}

// String lists some of the ids, with what carries them.
func (s Sightings) String() string {
	const most = 5
	var parts []string
	for _, id := range s.ids() {
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("and %d more ids", len(s)-most))
			break
		}
		seen := s[id]
		parts = append(parts,
			fmt.Sprintf("%q (%d objects, such as %q of %s)", id, seen.Objects, seen.Example, seen.Source))
	}
	return strings.Join(parts, ", ")
}
