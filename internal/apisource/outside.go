package apisource

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Owned is what a primary owns behind one API. Its texts are printable and bounded.
type Owned struct {
	Kind      string          `json:"kind"`                // of the resources
	ListedAt  time.Time       `json:"listedAt,omitzero"`   // the last list that succeeded; zero before the first
	AwaySince time.Time       `json:"awaySince,omitzero"`  // the API is away
	Resources []OwnedResource `json:"resources,omitempty"` // by ID, a hundred at most, as that list has them
	All       int             `json:"all,omitempty"`       // how many they are
	Open      []OpenCall      `json:"open,omitempty"`      // changes that were begun and not seen to be done
}

// OwnedResource is one resource.
type OwnedResource struct {
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
	// DeletedAt is when the API answered that it deletes the resource, which its list still has.
	DeletedAt time.Time `json:"deletedAt,omitzero"`
}

// OpenCall is a change of a resource that was begun, and of which the result was not seen.
type OpenCall struct {
	Resource  string          `json:"resource"` // as the reconciler calls it: the kind, or the kind and a name
	Action    external.Action `json:"action"`
	Since     time.Time       `json:"since"`               // when the API was last called, or answered
	Operation string          `json:"operation,omitempty"` // the API's handle of the operation under way
}

// mostOwned is how many resources of one kind are named.
const mostOwned = 100

// Owned says what a key owns behind each API, by kind, as it is known here. It asks no API and no server. working says
// that this replica reconciles: changes that an earlier term began are those of another replica now.
func (s *Set) Owned(key string, working bool) (all []Owned) {
	for _, each := range s.sources() {
		owned := each.owned(key)
		if working {
			owned.Open = s.openCalls(key, each.kind)
		}
		all = append(all, owned)
	}
	slices.SortFunc(all, func(a, b Owned) int { return strings.Compare(a.Kind, b.Kind) })
	return all
}

func (s *Source) owned(key string) Owned {
	o := Owned{Kind: printable.Text(s.kind), ListedAt: s.schedule.lastListed(), AwaySince: s.Stats().Since}
	objects := s.cache.ownedBy(key)
	o.All = len(objects)
	for _, obj := range objects {
		resource := obj.(*Object).Resource
		o.Resources = append(o.Resources, OwnedResource{
			printable.Text(resource.ID), printable.Text(resource.Version), s.undeleted.answeredAt(resource),
		})
	}
	slices.SortFunc(o.Resources, func(a, b OwnedResource) int { return strings.Compare(a.ID, b.ID) })
	o.Resources = o.Resources[:min(len(o.Resources), mostOwned)]
	return o
}

// openCalls are the changes of resources of a kind that this process has begun, or found begun.
func (s *Set) openCalls(key, kind string) (open []OpenCall) {
	s.intents.amend(key, func(known **knownEntries) {
		for _, resource := range slices.Sorted(maps.Keys(**known)) {
			intent := (**known)[resource].Intent
			if intent != nil && kindOf(resource) == kind && len(open) < mostOwned {
				open = append(open, OpenCall{
					printable.Text(resource), intent.Action, intent.Tried, printable.Text(intent.Operation),
				})
			}
		}
	})
	return open
}
