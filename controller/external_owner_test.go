package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// sharedThings are the resources of several controllers behind one client, each marked with whose it is.
type sharedThings struct {
	mu      sync.Mutex
	owners  map[string]external.Owner // by id
	askedBy map[external.Owner]int
}

func (*sharedThings) Kind() string { return "Thing" }

func (s *sharedThings) List(ctx context.Context) ([]external.Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	caller, list := external.OwnerFrom(ctx), []external.Resource{}
	s.askedBy[caller]++
	for id, owner := range s.owners {
		if owner.Kind == caller.Kind && owner.Instance == caller.Instance {
			list = append(list, external.Resource{ID: id, OwnerKey: owner.Key, Version: "1"})
		}
	}
	return list, nil
}

func (s *sharedThings) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, id)
	return nil
}

func (s *sharedThings) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.owners[id]
	return ok
}

func (s *sharedThings) lists(kind string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner, lists := range s.askedBy {
		if owner.Kind == kind && owner.Instance != "" && owner.Key == "" {
			n += lists
		}
	}
	return n
}

func TestTwoControllersThatShareAClientLeaveEachOthersResourcesAlone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		things := &sharedThings{owners: map[string]external.Owner{}, askedBy: map[external.Owner]int{}}
		controllers := map[string]*Controller[*site]{}
		mark := func(kind string) ReconcilerFunc { // a reconciler that knows its resources' marks without a driver
			return func(_ context.Context, req Request) (Result, error) {
				if req.Operations.Has(OperationDelete) {
					return Result{}, nil // the runtime cleans up
				}
				things.mu.Lock()
				defer things.mu.Unlock()
				things.owners[kind+" "+req.Key] = external.Owner{Kind: kind, Key: req.Key,
					Instance: controllers[kind].Instance()}
				return Result{}, nil
			}
		}
		clients := map[string]*entity.Client[*site]{"Site": w.sites(), "Shop": w.client("Shop", "shops")}
		for kind, client := range clients {
			c, err := New(client.Kind(), client, mark(kind), OwnsExternal(external.Configure(things, quick)),
				WithResyncInterval(time.Second))
			must(t, err)
			if c.Instance() != "" {
				t.Errorf("%s: instance %q before Run", kind, c.Instance())
			}
			controllers[kind] = c
		}
		must(t, clients["Site"].Create(t.Context(), newSite("home", "")))
		must(t, clients["Shop"].Create(t.Context(), newSite("market", "")))
		for _, c := range controllers {
			w.run(c)
		}
		natstest.Eventually(t, "both have their things", func() bool {
			return things.has("Site home") && things.has("Shop market")
		})
		for kind, c := range controllers {
			lists, sweeps := things.lists(kind), c.Stats().Sweeps
			natstest.Eventually(t, kind+" lists and sweeps", func() bool {
				return things.lists(kind) > lists+2 && c.Stats().Sweeps > sweeps+2
			})
		}
		if !things.has("Site home") || !things.has("Shop market") {
			t.Error("a thing whose owner exists is gone")
		}
		must(t, clients["Site"].Delete(t.Context(), "home"))
		natstest.Eventually(t, "what the site owned is gone", func() bool {
			return !things.has("Site home") && controllers["Site"].Stats().TornDown == 1
		})
		if !things.has("Shop market") || controllers["Shop"].Stats().Orphaned != 0 {
			t.Error("the other controller's thing is gone too, or taken for an orphan")
		}
	})
}
