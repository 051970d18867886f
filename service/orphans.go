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
	// Count is what "orphans-delete" has to expect: how many of all pages it deletes. Kept is how many it does not.
	Count   int      `json:"count"`
	Kept    int      `json:"kept"`
	Orphans []Orphan `json:"orphans"`
	Next    string   `json:"next,omitempty"`
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
	all, at, err := r.engine.Orphans(lifecycle.OrphanFilter{Owner: of.Owner, Source: of.Source})
	if err != nil {
		return nil, err
	}
	answer := &Orphans{AsOf: at, Orphans: []Orphan{}}
	last := ""
	for _, o := range all {
		if o.Deletable() {
			answer.Count++
		} else {
			answer.Kept++
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
		Installation: printable.Text(o.Installation), Why: o.Why, Deletable: o.Deletable(),
	}
}

// OrphanCommands are how an operator has the service list orphans, and delete them.
func (c *served) OrphanCommands(controller string) (list, remove string) {
	subject := c.service.cfg.Prefix + "." + token(controller)
	return fmt.Sprintf("nats req %s.read.orphans ''", subject),
		fmt.Sprintf(`nats req %s.act.orphans-delete '{"expect":<count>}'`, subject)
}

// OrphansDeleteRequest is the request of "orphans-delete".
type OrphansDeleteRequest struct {
	// Expect is the Count of "orphans" with the same Owner and Source. It is needed.
	Expect *int   `json:"expect"`
	Owner  string `json:"owner,omitempty"`
	Source string `json:"source,omitempty"`
}

// OrphansDeleted is the answer to "orphans-delete".
type OrphansDeleted struct {
	// Count is how many were deleted.
	Count int `json:"count"`
}

func (r *request) orphansToDelete() (of OrphansDeleteRequest, err error) {
	if err := r.hasBrake(); err != nil {
		return of, err
	}
	if err := r.decode(&of); err != nil {
		return of, err
	}
	if of.Expect == nil || *of.Expect < 1 {
		return of, refuse(codeBadRequest, `expect is needed, the count of orphans: {"expect":12}`)
	}
	return of, nil
}

// orphansTurn has it wait for other acts on what the controller deletes.
func orphansTurn(r *request) (string, error) {
	_, err := r.orphansToDelete()
	return "", err
}

func deleteOrphans(ctx context.Context, r *request) (any, error) {
	of, err := r.orphansToDelete()
	if err != nil {
		return nil, err
	}
	deleted, err := r.engine.DeleteOrphans(ctx, lifecycle.OrphanFilter{Owner: of.Owner, Source: of.Source}, *of.Expect)
	if deleted > 0 {
		r.did(ctx, "", ReasonOrphansDelete, fmt.Sprintf(
			"%d objects whose owners never were are deleted, of %d", deleted, *of.Expect))
	}
	if differ, ok := errors.AsType[*lifecycle.OrphansDiffer](err); ok {
		e := refuse(codeConflict, "nothing was deleted: %d orphans can be, and the request expects %d: look which "+
			"they are, and ask again", differ.Count, *of.Expect)
		e.Deletable = &differ.Count
		return nil, e
	}
	if err == nil {
		return &OrphansDeleted{Count: deleted}, nil
	}
	says := fmt.Sprintf("%d of %d orphans were deleted: %s", deleted, *of.Expect,
		printable.Message(strings.ReplaceAll(err.Error(), "\n", "; ")))
	switch {
	case errors.Is(err, engine.ErrNotBegun):
		return nil, refuse(codeNotDone, "%v: ask again", engine.ErrNotBegun)
	case errors.Is(err, deletes.ErrDocumentReturned), errors.Is(err, deletes.ErrHeld):
		return nil, refuse(codeConflict, "%s", says)
	}
	return nil, fmt.Errorf("%s", says)
}
