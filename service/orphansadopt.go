package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// OrphansAdoptRequest is the request of "orphans-adopt". Everything but Source is needed.
type OrphansAdoptRequest struct {
	// List is that of "orphans", and Expect its Adoptable with the same Owner and Source.
	List   string `json:"list"`
	Expect *int   `json:"expect"`
	// Owner is the key of the owner that is missing, as "orphans" has it.
	Owner string `json:"owner"`
	// NewOwner is the key of the primary that is to own its orphans. Its document exists, and was reconciled before.
	NewOwner string `json:"newOwner"`
	Source   string `json:"source,omitempty"`
}

// OrphansAdopted is the answer to "orphans-adopt".
type OrphansAdopted struct {
	// Adopted is how many the new owner owns now. It takes some seconds at most: Left is how many there still are with
	// the same Owner and Source. If there are any, ask again, with Left as Expect.
	Adopted int `json:"adopted"`
	Left    int `json:"left"`
	// Skipped is how many were not written: they were gone, or another's, when their turn came.
	Skipped int `json:"skipped"`
	// Unanswered is how many writes were begun whose answer did not come in time: they may have been done. Left counts
	// them. Ask again: what is the new owner's already is skipped then. It is missing if there are none.
	Unanswered int `json:"unanswered,omitempty"`
	// List is the List of "orphans" now: what to name in the next request. It is missing if that has none.
	List string `json:"list,omitempty"`
}

func (r *request) orphansToAdopt() (of OrphansAdoptRequest, err error) {
	if err := r.hasBrake(); err != nil {
		return of, err
	}
	if err := r.decode(&of); err != nil {
		return of, err
	}
	switch {
	case of.Expect == nil || *of.Expect < 1 || of.List == "" || of.Owner == "" || of.NewOwner == "":
		return of, refuse(codeBadRequest, "list, expect, owner and newOwner are needed: ask read.orphans for one "+
			"owner, look at what it lists, and send its list, how many of it are adoptable, and who is to own them: "+
			`{"list":"<list>","expect":<adoptable>,"owner":"<owner>","newOwner":"<key>"}`)
	case of.Owner == of.NewOwner:
		return of, refuse(codeBadRequest, "owner and newOwner are the same: put the document of %s back, and its "+
			"objects are its own again", printable.Quote(of.Owner))
	case !r.engine.WellFormed(of.NewOwner):
		return of, refuse(codeBadRequest, "the bucket can have no key %s, which newOwner names",
			printable.Quote(of.NewOwner))
	}
	return of, nil
}

func adoptTurn(r *request) (string, error) {
	_, err := r.orphansToAdopt()
	return theOrphans, err
}

func adoptOrphans(ctx context.Context, r *request) (any, error) {
	of, err := r.orphansToAdopt()
	if err != nil {
		return nil, err
	}
	done, err := r.engine.AdoptOrphans(ctx, lifecycle.AdoptOrder{
		From: of.Owner, To: of.NewOwner, Source: of.Source, List: of.List, Expect: *of.Expect,
	})
	if done.Adopted+done.Unanswered > 0 {
		r.did(ctx, of.NewOwner, ReasonOrphansAdopt, fmt.Sprintf(
			"it owns %d of %d objects now whose owner %s is missing%s",
			done.Adopted, *of.Expect, printable.Quote(of.Owner), orMore(done)))
	}
	if err == nil {
		return &OrphansAdopted{
			Adopted: done.Adopted, Skipped: done.Skipped, Unanswered: done.Unanswered, Left: done.Left, List: done.List,
		}, nil
	}
	return nil, notAdopted(of, done, err)
}

// orMore says how many may have been adopted besides.
func orMore(done lifecycle.OrphansAdopted) string {
	if done.Unanswered == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d more may have been adopted: the answers did not come)", done.Unanswered)
}

// notAdopted is the refusal of what was not adopted, or not as a whole.
func notAdopted(of OrphansAdoptRequest, done lifecycle.OrphansAdopted, err error) error {
	if differ, ok := errors.AsType[*lifecycle.OrphansDiffer](err); ok {
		e := refuse(codeConflict, "nothing was adopted: the list is %q and %d of it can be, of owner %s, and the "+
			"request has the list %s and expects %d: look at read.orphans, and ask again; a request before may have "+
			"done it",
			differ.List, differ.Count, printable.Quote(of.Owner), printable.Quote(of.List), *of.Expect)
		e.List, e.Adoptable = differ.List, &differ.Count
		return e
	}
	says := fmt.Sprintf("%d of %d orphans of %s were adopted by %s%s: %s", done.Adopted, *of.Expect,
		printable.Quote(of.Owner), printable.Quote(of.NewOwner), orMore(done),
		printable.Message(strings.ReplaceAll(err.Error(), "\n", "; ")))
	switch {
	case errors.Is(err, engine.ErrNotBegun):
		return refuse(codeNotDone, "%v: ask again", engine.ErrNotBegun)
	case errors.Is(err, lifecycle.ErrNoNewOwner):
		return refuse(codeNotFound, "%s: write its document first, or name another one", says)
	case errors.Is(err, lifecycle.ErrNewOwnerUnseen):
		return refuse(codeNotDone, "%s: ask again", says)
	case errors.Is(err, lifecycle.ErrNewOwnerFresh):
		return refuse(codeConflict, "%s: resume or mend it first, and ask again", says)
	case errors.Is(err, lifecycle.ErrNewOwnerGoes):
		return refuse(codeConflict, "%s: name another one, or write its document again", says)
	case errors.Is(err, lifecycle.ErrNotAdoptable), errors.Is(err, deletes.ErrDocumentReturned):
		return refuse(codeConflict, "%s", says)
	case apierrors.IsConflict(err):
		return refuse(codeConflict, "%s: look at read.orphans after the next sweep, and ask again", says)
	}
	return fmt.Errorf("%s", says)
}
