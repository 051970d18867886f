package lifecycle

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// away is a source of which another replica's cache has everything. The hash of an owner is the length of its key.
type away struct {
	guardedSource
	pages  map[string]string // to their owners
	others int               // documents of another installation, of owners that it alone knows
	err    error             // of reads
	read   *[]string
}

func (a away) All() iter.Seq[metav1.Object] { return func(func(metav1.Object) bool) {} }

func (a away) OwnerHash(key string) uint64 { return uint64(len(key)) }

func (a away) Elsewhere() iter.Seq[entity.ApartDocument] {
	return func(yield func(entity.ApartDocument) bool) {
		for _, page := range slices.Sorted(maps.Keys(a.pages)) {
			if !yield(entity.ApartDocument{Key: page, Owner: a.OwnerHash(a.pages[page]), Instance: "here", Stream: "first"}) {
				return
			}
		}
		for range a.others {
			if !yield(entity.ApartDocument{Key: "theirs", Owner: 1, Instance: "there", Stream: "first"}) {
				return
			}
		}
	}
}

func (a away) Read(_ context.Context, pages []string) (found []metav1.Object, err error) {
	if *a.read = append(*a.read, pages...); a.err != nil {
		return nil, a.err
	}
	for _, page := range pages {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: page, ResourceVersion: "1"}
		entity.SetOwner(obj, "Site", a.pages[page], "here")
		found = append(found, obj)
	}
	return found, nil
}

// TestOfWhatOthersCacheIsReadWhatNamesMissingOwners, and the rest is counted. What cannot be read stays.
func TestOfWhatOthersCacheIsReadWhatNamesMissingOwners(t *testing.T) {
	for name, err := range map[string]error{"read": nil, "unread": errors.New("no answer")} {
		t.Run(name, func(t *testing.T) {
			td, s := teardownOf(0, 0)
			s.g.there = map[string]bool{"shop/home": true}
			foreign := 0
			td.Counters.Foreign = func() { foreign++ }
			var read []string
			a := away{
				s.guardedSource, map[string]string{"a": "shop/home", "b": "shop/home", "c": "shop/is-gone"}, 4, err, &read,
			}
			td.Sources = func() []source.Owned { return []source.Owned{a} }
			exists := func(yield func(string) bool) { yield("shop/home") }

			others := td.readElsewhere(t.Context(), exists)
			if !slices.Equal(read, []string{"c"}) || (len(others.unread) > 0) != (err != nil) {
				t.Fatalf("read %v, unread %v", read, others.unread)
			}
			none := td.ownerless()
			none.had["shop/is-gone"] = marked
			o := td.orphanedIn(t.Context(), a, &leftOwners{teardown: td, used: map[string]bool{}}, none, others)
			if err == nil && (o.Owners["shop/is-gone"] != 1 || o.Count != 1 || o.Known != 3 || o.Outdated) {
				t.Errorf("found %+v", o)
			}
			if err != nil && (o.Count != 0 || !o.Outdated) {
				t.Errorf("found %+v, of which one could not be read", o)
			}
			if foreign != 4 {
				t.Errorf("%d are another installation's, want 4", foreign)
			}
			if n := td.CountOwned(); n != 3 {
				t.Errorf("%d are owned, want 3", n)
			}
		})
	}
}
