package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/explain"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// About is the answer to "about".
type About struct {
	Controller   string `json:"controller"`
	Kind         string `json:"kind"`
	APIVersion   string `json:"apiVersion,omitempty"`
	Bucket       string `json:"bucket"`
	StatusBucket string `json:"statusBucket,omitempty"`
	Namespaced   bool   `json:"namespaced"`
	// Leading tells whether the replica that answers leads. Leader is who led when it read the lease last: host,
	// process and a random part.
	Leading bool   `json:"leading"`
	Leader  string `json:"leader,omitempty"`
	// Read and Act are the verbs.
	Read []string `json:"read"`
	Act  []string `json:"act"`
}

func about(_ context.Context, r *request) (any, error) {
	if err := r.decode(&struct{}{}); err != nil {
		return nil, err
	}
	cfg := r.primary.Config()
	a := &About{
		Controller: r.name(), Kind: cfg.Kind, APIVersion: cfg.APIVersion, Bucket: cfg.Bucket,
		Namespaced: cfg.Namespaced, Leading: r.engine.Leads(), Leader: printable.Text(r.leader()),
	}
	if cfg.StatusBucket != entity.NoStatusBucket {
		a.StatusBucket = cfg.StatusBucket
	}
	for _, v := range verbs() {
		if v.access == read {
			a.Read = append(a.Read, v.name)
		} else {
			a.Act = append(a.Act, v.name)
		}
	}
	return a, nil
}

// KeyRequest is the request of the verbs about one key. The key is client-go's: "name", or "namespace/name".
type KeyRequest struct {
	Key string `json:"key"`
}

// key reads the key that a request is about. It is in the scope, and the bucket can have it.
func (r *request) key() (string, error) {
	var of KeyRequest
	return r.keyOf(&of, &of.Key)
}

// keyOf is key of a request that may say more: key is a member of it.
func (r *request) keyOf(of any, key *string) (string, error) {
	if err := r.decode(of); err != nil {
		return "", err
	}
	switch {
	case *key == "":
		return "", refuse(codeBadRequest, `a key is needed: {"key":"home"}, or {"key":"namespace/home"}`)
	case !r.has(*key):
		return "", refuse(codeElsewhere, "key %s is not in %v, which the subject names: the namespace of the subject "+
			"says which keys may be asked about", printable.Quote(*key), r.scope)
	case !r.engine.WellFormed(*key):
		if meant := r.engine.Explainer().Meant(*key); meant != "" {
			return "", refuse(codeBadRequest, "the bucket can have no key %s; its keys are like %s: ask for that",
				printable.Quote(*key), printable.Quote(meant))
		}
		return "", refuse(codeBadRequest, "the bucket can have no key %s", printable.Quote(*key))
	}
	return *key, nil
}

func explainKey(_ context.Context, r *request) (any, error) {
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	e := r.explained(r.engine.Explainer().Explain(key))
	if r.fits(&e) {
		return &e, nil
	}
	for i := range e.Outside {
		e.Outside[i].Resources = nil // how many they are stays
	}
	if !r.fits(&e) {
		e = short(&e)
	}
	return &e, nil
}

func (r *request) fits(e *controller.Explanation) bool {
	data, err := json.Marshal(e)
	return err != nil || len(data) <= r.room
}

// explained is an explanation as who asks may see it: of other replicas those learn who may ask about all keys.
func (r *request) explained(e controller.Explanation) controller.Explanation {
	if r.confined {
		return e.ToNamespace()
	}
	return e
}

// short is what is told where the whole does not fit into a message.
func short(e *controller.Explanation) controller.Explanation {
	return controller.Explanation{
		Key: e.Key, State: e.State, Since: e.Since, Revision: e.Revision, Failures: e.Failures, Leading: e.Leading,
		Says: "All that there is to say does not fit into a message of this server.",
	}
}

// KeysRequest is the request of "keys".
type KeysRequest struct {
	// States are those to list; none means all.
	States []controller.KeyState `json:"states,omitempty"`
	// NotOK lists of those the keys that are not well; see "notok".
	NotOK bool `json:"notOK,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
	// Limit is how many keys a page has at most. The zero value means 100; more than 1000 are not given.
	Limit int `json:"limit,omitempty"`
}

// Keys is the answer to "keys": a page of them, in the order of the alphabet.
type Keys struct {
	Keys []controller.Explanation `json:"keys"`
	// Next is to be given as After for the next page; without it this is the last one.
	Next string `json:"next,omitempty"`
}

const (
	pageKeys    = 100
	longestPage = 1000
)

func listKeys(ctx context.Context, r *request) (any, error) {
	var of KeysRequest
	if err := r.decode(&of); err != nil {
		return nil, err
	}
	if err := checkStates(of.States); err != nil {
		return nil, err
	}
	p, err := r.newPage(of.Limit, 0)
	if err != nil {
		return nil, err
	}
	answer := &Keys{Keys: []controller.Explanation{}}
	filter := explain.Filter{States: of.States, NotOK: of.NotOK}
	for e := range r.engine.Explainer().Listed(ctx, r.prefix(), of.After, filter) {
		if r.confined && !r.engine.WellFormed(e.Key) {
			continue // it only looks as if it were in the namespace
		}
		e = r.explained(e)
		if !p.fits(&e) {
			if len(answer.Keys) > 0 {
				answer.Next = answer.Keys[len(answer.Keys)-1].Key
				break
			}
			e = short(&e)
			p.fits(&e)
		}
		answer.Keys = append(answer.Keys, e)
	}
	if answer.Next == "" && ctx.Err() != nil {
		return nil, fmt.Errorf("the keys were not all looked at: %w", ctx.Err())
	}
	return answer, nil
}

// page is how much more an answer can take.
type page struct{ items, bytes int }

// frameBytes is more than the frame of a page and the key of the next one have, in bytes.
const frameBytes = 1536

// newPage is for a page of so many items, in an answer that has something else beside them, of beside bytes.
func (r *request) newPage(limit, beside int) (*page, error) {
	if limit < 0 {
		return nil, refuse(codeBadRequest, "a limit of %d: want 1 to %d, or none", limit, longestPage)
	}
	return &page{items: min(cmp.Or(limit, pageKeys), longestPage), bytes: r.room - beside - frameBytes}, nil
}

// next ends a page whose last item has this key, since another one does not fit.
func (r *request) next(n int, last func() string) (string, error) {
	if n == 0 {
		return "", refuse(codeTooLarge, "a message of this server, of %d bytes, has no room for one item",
			r.room+headroom)
	}
	return last(), nil
}

// fits reports whether an item fits into the page, and takes its place.
func (p *page) fits(item any) bool {
	data, err := json.Marshal(item)
	if err != nil || p.items == 0 || len(data)+1 > p.bytes {
		return false
	}
	p.items, p.bytes = p.items-1, p.bytes-len(data)-1
	return true
}
