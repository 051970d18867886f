package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// ListRequest is the request of "list" and of "notok".
type ListRequest struct {
	// States are those to list; none means all.
	States []controller.KeyState `json:"states,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
	// Limit is how many keys a page has at most. The zero value means 1000; more are not given.
	Limit int `json:"limit,omitempty"`
}

// List is the answer to "list" and to "notok": a page of keys in short, in the order of the alphabet.
type List struct {
	Keys []Listed `json:"keys"`
	// Next is to be given as After for the next page; without it this is the last one.
	Next string `json:"next,omitempty"`
}

// Listed is a key in short.
type Listed struct {
	Key       string              `json:"key"`
	Namespace string              `json:"namespace,omitempty"`
	State     controller.KeyState `json:"state"`
	// Phase is the reason in the record's condition; missing if there is none.
	Phase string `json:"phase,omitempty"`
	// Since is that of the trouble, else that of the state, as far as it is known. AgeSeconds is how long ago that was.
	Since      time.Time `json:"since,omitzero"`
	AgeSeconds int64     `json:"ageSeconds,omitempty"`
	// Attempts is how many failed in a row.
	Attempts int `json:"attempts,omitempty"`
	// Message is the last error, or why the document is invalid, or else the state in plain words.
	Message string `json:"message"`
}

func listed(e *controller.Explanation) Listed {
	l := Listed{
		Key: e.Key, State: e.State, Phase: e.Recorded, Attempts: e.Failures,
		Since: e.Since, Message: cmp.Or(e.Error, e.Says),
	}
	if namespace, _, ok := strings.Cut(e.Key, "/"); ok && e.State != controller.StateMalformed {
		l.Namespace = namespace
	}
	if !e.FailingSince.IsZero() {
		l.Since = e.FailingSince
	}
	if e.Invalid != nil && e.Error == "" {
		l.Message = e.Invalid.Reason
	}
	if !l.Since.IsZero() {
		l.AgeSeconds = int64(time.Since(l.Since).Seconds())
	}
	return l
}

func list(ctx context.Context, r *request) (any, error) { return r.list(ctx, false) }

func listNotOK(ctx context.Context, r *request) (any, error) { return r.list(ctx, true) }

func (r *request) list(ctx context.Context, notOK bool) (any, error) {
	var of ListRequest
	if err := r.decode(&of); err != nil {
		return nil, err
	}
	if err := checkStates(of.States); err != nil {
		return nil, err
	}
	p, err := r.newPage(cmp.Or(of.Limit, longestPage), 0)
	if err != nil {
		return nil, err
	}
	answer := &List{Keys: []Listed{}}
	filter := explain.Filter{States: of.States, NotOK: notOK}
	for e := range r.engine.Explainer().Listed(ctx, r.prefix(), of.After, filter) {
		if r.confined && !r.engine.WellFormed(e.Key) {
			continue // it only looks as if it were in the namespace
		}
		e = r.explained(e)
		item := listed(&e)
		if !p.fits(&item) {
			answer.Next, err = r.next(len(answer.Keys), func() string { return answer.Keys[len(answer.Keys)-1].Key })
			if err != nil {
				return nil, err
			}
			break
		}
		answer.Keys = append(answer.Keys, item)
	}
	if answer.Next == "" && ctx.Err() != nil {
		return nil, fmt.Errorf("the keys were not all looked at: %w", ctx.Err())
	}
	return answer, nil
}

// checkStates refuses what is no state.
func checkStates(states []controller.KeyState) error {
	for _, state := range states {
		if !slices.Contains(explain.States, state) {
			return refuse(codeBadRequest, "there is no state %s", printable.Quote(string(state)))
		}
	}
	return nil
}
