package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// OrphansRequest is the request of "orphans".
type OrphansRequest struct {
	// Owner and Source list those of one owner, by its key, or in one source, as "orphans" names it. The zero value
	// means all.
	Owner  string `json:"owner,omitempty"`
	Source string `json:"source,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
	// Limit is how many a page has at most. The zero value means 100; more than 1000 are not given.
	Limit int `json:"limit,omitempty"`
}

// Orphans is the answer to "orphans": a page of the secondaries that the last sweep found and that stay, although their
// owners do not exist, in the order of their owners.
type Orphans struct {
	// AsOf is when that sweep ended; missing if there was none yet.
	AsOf time.Time `json:"asOf,omitzero"`
	// List is what "orphans-delete" and "orphans-adopt" have to name: it tells what can be deleted or adopted as it is
	// now, whatever the request chose. It is missing if nothing can be.
	List string `json:"list,omitempty"`
	// Count is what "orphans-delete" has to expect: how many of all pages it deletes. Kept is how many it does not.
	Count int `json:"count"`
	Kept  int `json:"kept"`
	// Adoptable is what "orphans-adopt" has to expect of the same owner and source.
	Adoptable int      `json:"adoptable"`
	Orphans   []Orphan `json:"orphans"`
	Next      string   `json:"next,omitempty"`
}

// Orphan is one of them.
type Orphan struct {
	Source string `json:"source"`
	// Kind is what the object says; missing if it says none. Object is its key: "name", or "namespace/name".
	Kind   string `json:"kind,omitempty"`
	Object string `json:"object"`
	// Owner is the key of the owner that is missing; not there if the object has only a hash of it.
	OwnerKind string `json:"ownerKind,omitempty"`
	Owner     string `json:"owner,omitempty"`
	// Installation is that which the object names; not there if it names none. It is never another one.
	Installation string `json:"installation,omitempty"`
	// Why it stays: "neverWas", "unanswered", "unproven", "contradicting", "hashed" or "held".
	Why lifecycle.OrphanReason `json:"why"`
	// Deletable tells whether "orphans-delete" deletes it.
	Deletable bool `json:"deletable"`
	// Adoptable tells whether "orphans-adopt" can give it another owner.
	Adoptable bool `json:"adoptable"`
}

func listOrphans(_ context.Context, r *request) (any, error) {
	if err := r.hasBrake(); err != nil {
		return nil, err
	}
	var of OrphansRequest
	if err := r.decode(&of); err != nil {
		return nil, err
	}
	p, err := r.newPage(of.Limit, 0)
	if err != nil {
		return nil, err
	}
	list, err := r.engine.Orphans(lifecycle.OrphanFilter{Owner: of.Owner, Source: of.Source})
	if err != nil {
		return nil, err
	}
	answer := &Orphans{AsOf: list.At, List: list.ID, Orphans: []Orphan{}}
	last := ""
	for _, o := range list.Orphans {
		if o.Deletable() {
			answer.Count++
		} else {
			answer.Kept++
		}
		if o.Adoptable() {
			answer.Adoptable++
		}
		if answer.Next != "" || o.ID() <= of.After {
			continue
		}
		item := shownOrphan(o)
		if !p.fits(&item) {
			if answer.Next, err = r.next(len(answer.Orphans), func() string { return last }); err != nil {
				return nil, err
			}
			continue
		}
		answer.Orphans, last = append(answer.Orphans, item), o.ID()
	}
	return answer, nil
}

// shownOrphan is an orphan as answers show it: who writes secondaries chooses most of its texts.
func shownOrphan(o lifecycle.Orphan) Orphan {
	return Orphan{
		Source: o.Source, Kind: printable.Text(o.Kind), Object: printable.Text(o.Object),
		OwnerKind: printable.Text(o.OwnerKind), Owner: printable.Text(o.OwnerKey),
		Installation: printable.Text(o.Installation), Why: o.Why, Deletable: o.Deletable(), Adoptable: o.Adoptable(),
	}
}

// OrphanCommands are how an operator has the service list orphans, and delete them: with LIST and COUNT where the id
// and the number of the list belong, with which it is refused.
func (c *served) OrphanCommands(controller string) (list, remove string) {
	subject := c.service.cfg.Prefix + "." + token(controller)
	return fmt.Sprintf("nats req %s.read.orphans ''", subject),
		fmt.Sprintf(`nats req %s.act.orphans-delete '{"list":"LIST","expect":COUNT}'`, subject)
}

// OrphansDeleteRequest is the request of "orphans-delete".
type OrphansDeleteRequest struct {
	// List is that of "orphans", and Expect its Count with the same Owner and Source. Both are needed.
	List   string `json:"list"`
	Expect *int   `json:"expect"`
	Owner  string `json:"owner,omitempty"`
	Source string `json:"source,omitempty"`
}

// OrphansDeleted is the answer to "orphans-delete".
type OrphansDeleted struct {
	// Deleted is how many were deleted. It takes some seconds at most: Left is how many there still are with the same
	// Owner and Source. If there are any, ask again, with Left as Expect.
	Deleted int `json:"deleted"`
	Left    int `json:"left"`
	// List is the List of "orphans" now: what to name in the next request. It is missing if that has none.
	List string `json:"list,omitempty"`
}

func (r *request) orphansToDelete() (of OrphansDeleteRequest, err error) {
	if err := r.hasBrake(); err != nil {
		return of, err
	}
	if err := r.decode(&of); err != nil {
		return of, err
	}
	if of.Expect == nil || *of.Expect < 1 || of.List == "" {
		return of, refuse(codeBadRequest, "list and expect are needed: ask read.orphans, look at what it lists, and "+
			`send its list and its count: {"list":"<list>","expect":<count>}`)
	}
	return of, nil
}

// theOrphans is the turn of those that delete or adopt orphans: they wait for each other, and for nothing else. It is
// no key, nor that of the brake.
const theOrphans = "the orphans"

func orphansTurn(r *request) (string, error) {
	_, err := r.orphansToDelete()
	return theOrphans, err
}

func deleteOrphans(ctx context.Context, r *request) (any, error) {
	of, err := r.orphansToDelete()
	if err != nil {
		return nil, err
	}
	done, err := r.engine.DeleteOrphans(ctx, lifecycle.OrphansOrder{
		Filter: lifecycle.OrphanFilter{Owner: of.Owner, Source: of.Source}, List: of.List, Expect: *of.Expect,
	})
	if done.Deleted > 0 {
		r.did(ctx, "", ReasonOrphansDelete, fmt.Sprintf(
			"%d objects whose owners never were are deleted, of %d", done.Deleted, *of.Expect))
	}
	if differ, ok := errors.AsType[*lifecycle.OrphansDiffer](err); ok {
		e := refuse(codeConflict, "nothing was deleted: the list is %q and %d of it can be, and the request has the "+
			"list %s and expects %d: look at read.orphans, and ask again", differ.List, differ.Count,
			printable.Quote(of.List), *of.Expect)
		e.List, e.Deletable = differ.List, &differ.Count
		return nil, e
	}
	if err == nil {
		return &OrphansDeleted{Deleted: done.Deleted, Left: done.Left, List: done.List}, nil
	}
	says := fmt.Sprintf("%d of %d orphans were deleted: %s", done.Deleted, *of.Expect,
		printable.Message(strings.ReplaceAll(err.Error(), "\n", "; ")))
	switch {
	case errors.Is(err, engine.ErrNotBegun):
		return nil, refuse(codeNotDone, "%v: ask again", engine.ErrNotBegun)
	case errors.Is(err, deletes.ErrDocumentReturned), errors.Is(err, deletes.ErrHeld),
		errors.Is(err, lifecycle.ErrRewritten):
		return nil, refuse(codeConflict, "%s", says)
	}
	return nil, fmt.Errorf("%s", says)
}
