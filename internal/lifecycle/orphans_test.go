package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/deletes"
	"github.com/nagi-runtime/nagi/internal/record"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slowSource has orphans, of an owner each, that go after a while. Its cache hears of nothing.
type slowSource struct {
	guardedSource
	all     map[string]*metav1.ObjectMeta // by owner
	takes   time.Duration
	removed func(*metav1.ObjectMeta)

	family    []*metav1.ObjectMeta // of one owner
	written   int
	read      func() // the object is read, and written in a moment
	silent    bool   // it writes, and does not answer
	rewritten func(*metav1.ObjectMeta)
}

func (s *slowSource) OwnedBy(key string) (all []metav1.Object, _ error) {
	if s.all[key] != nil {
		return []metav1.Object{s.all[key]}, nil
	}
	for _, obj := range s.family {
		all = append(all, obj)
	}
	return all, nil
}

func (s *slowSource) Remove(ctx context.Context, permit deletes.Permit) error {
	select {
	case <-time.After(s.takes):
		s.removed(permit.Object().(*metav1.ObjectMeta))
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// teardownOf is a Teardown whose last sweep found n orphans.
func teardownOf(n int, takes time.Duration) (*Teardown, *slowSource) {
	g := newGuarded(false, false)
	s := &slowSource{
		guardedSource: guardedSource{g: g}, all: map[string]*metav1.ObjectMeta{}, takes: takes,
		removed: func(*metav1.ObjectMeta) {},
	}
	td := NewTeardown(TeardownConfig{
		Kind: "Site", Primaries: g, Owner: g, Guard: g.guard(), Brake: g, APIs: &apisource.Set{}, Records: leftNothing{},
		Anchors:  &record.Anchors{Records: guardedRecords{guarded: g}},
		Counters: TeardownCounters{Cascaded: func() {}},
	})
	var all []Orphan
	for i := range n {
		key := fmt.Sprintf("shop/young%d", i)
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("page%d", i), ResourceVersion: fmt.Sprint(i + 1)}
		entity.SetOwner(obj, "Site", key, "here")
		s.all[key] = obj
		all = append(all, Orphan{
			Source: s.String(), Object: "shop/" + obj.Name, OwnerKey: key, Why: OrphanNeverWas,
			version: writtenAs(obj), in: s, deletes: true,
		})
	}
	td.keepOrphans(all)
	return td, s
}

// TestToDeleteOrphansTakesFourSecondsAtMost, and goes on where it ended, with the list that the answer names.
func TestToDeleteOrphansTakesFourSecondsAtMost(t *testing.T) {
	for takes, want := range map[time.Duration][]int{
		700 * time.Millisecond: {5, 2}, // the last begins at 2.8 s
		time.Minute:            {0},    // what is not over at the end may be done, or not
	} {
		synctest.Test(t, func(t *testing.T) {
			td, _ := teardownOf(7, takes)
			list, err := td.Orphans(OrphanFilter{})
			if err != nil || len(list.Deletable()) != 7 {
				t.Fatalf("%+v, error %v", list, err)
			}
			order, left := OrphansOrder{List: list.ID, Expect: 7}, 7
			for _, n := range want {
				began := time.Now()
				done, err := td.DeleteOrphans(t.Context(), order)
				if left -= n; err != nil || done.Deleted != n || done.Left != left || time.Since(began) > 4*time.Second {
					t.Fatalf("each takes %v: %+v after %v, error %v", takes, done, time.Since(began), err)
				}
				if n > 0 && done.List == order.List {
					t.Errorf("it is still the list %s", done.List)
				}
				order.List, order.Expect = done.List, left
			}
		})
	}
}

// TestAnOrphanThatIsWrittenWhileOthersGoStays.
func TestAnOrphanThatIsWrittenWhileOthersGoStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, s := teardownOf(3, time.Second)
		s.removed = func(obj *metav1.ObjectMeta) {
			if obj.Name == "page1" {
				t.Error("page1 has gone")
			}
			s.all["shop/young1"].ResourceVersion = "99"
		}
		list, err := td.Orphans(OrphanFilter{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := td.DeleteOrphans(t.Context(), OrphansOrder{List: list.ID, Expect: 3})
		if done.Deleted != 2 || !errors.Is(err, ErrRewritten) {
			t.Errorf("%+v, error %v", done, err)
		}
	})
}

// TestWhatWasDeletedIsNoOrphanAnyMore, though the cache of a source may have it still when the next sweep looks.
func TestWhatWasDeletedIsNoOrphanAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		td, _ := teardownOf(2, 0)
		all := td.orphans.Load().all
		list, err := td.Orphans(OrphanFilter{})
		if err != nil {
			t.Fatal(err)
		}
		order := OrphansOrder{Filter: OrphanFilter{Owner: "shop/young0"}, List: list.ID, Expect: 1}
		done, err := td.DeleteOrphans(t.Context(), order)
		if err != nil || done != (OrphansDeleted{Deleted: 1, List: done.List}) || done.List == "" {
			t.Fatalf("%+v, error %v", done, err)
		}
		for range 2 {
			td.keepOrphans(append([]Orphan(nil), all...))
			if list, err = td.Orphans(OrphanFilter{}); len(list.Orphans) != 1 || list.ID != done.List || err != nil {
				t.Errorf("%+v, error %v", list, err)
			}
		}
	})
}
