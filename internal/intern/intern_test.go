package intern

import (
	"fmt"
	"maps"
	"reflect"
	"sync"
	"testing"
	"unsafe"
)

// fresh makes a map whose strings no other one has.
func fresh(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i], "")] = fmt.Sprint(pairs[i+1], "")
	}
	return m
}

func same(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

func TestEqualMapsAreHeldOnce(t *testing.T) {
	var p Pool
	first := p.Map(fresh("app", "shop", "team", "blue"))
	if again := p.Map(fresh("team", "blue", "app", "shop")); !same(first, again) {
		t.Error("two equal maps are two")
	}
	if other := p.Map(fresh("app", "shop", "team", "red")); same(first, other) || other["team"] != "red" {
		t.Errorf("another map became %v", other)
	}
	if swapped := p.Map(fresh("shop", "app", "blue", "team")); swapped["shop"] != "app" || swapped["blue"] != "team" {
		t.Errorf("names and values were exchanged: %v", swapped)
	}
	if none := p.Map(nil); none != nil {
		t.Error("nil became a map")
	}
	if empty := p.Map(map[string]string{}); empty == nil {
		t.Error("an empty map became nil")
	}
}

func TestStringsOfMapsThatDifferAreHeldOnce(t *testing.T) {
	var p Pool
	a, b := p.Map(fresh("kind", "Website", "key", "a")), p.Map(fresh("kind", "Website", "key", "b"))
	if unsafe.StringData(a["kind"]) != unsafe.StringData(b["kind"]) {
		t.Error("an equal value is held twice")
	}
	names := map[string]*byte{}
	for _, m := range []map[string]string{a, b} {
		for name := range m {
			if held, ok := names[name]; ok && held != unsafe.StringData(name) {
				t.Errorf("the name %q is held twice", name)
			}
			names[name] = unsafe.StringData(name)
		}
	}
}

func TestMoreThanFitsStaysEqual(t *testing.T) {
	var p Pool
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				text := fmt.Sprint(i * (worker + 1) % 9000)
				if got, want := p.Map(fresh("key", text, "kind", "A")), fresh("key", text, "kind", "A"); !maps.Equal(got, want) {
					t.Errorf("%v became %v", want, got)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestTwoMapsForOnePlaceAreBothHeld, however often they come in turns.
func TestTwoMapsForOnePlaceAreBothHeld(t *testing.T) {
	var p Pool
	team := func(i int) map[string]string { return fresh("app", "shop", "team", fmt.Sprint("team-", i)) }
	other := 1
	for hashOf(team(other))%mapSlots != hashOf(team(0))%mapSlots {
		other++
	}
	one, two := p.Map(team(0)), p.Map(team(other))
	for range 3 {
		if !same(one, p.Map(team(0))) || !same(two, p.Map(team(other))) {
			t.Fatal("they drive each other out")
		}
	}
}

// TestMapsSpreadOverTheTable, also those that differ in one value alone.
func TestMapsSpreadOverTheTable(t *testing.T) {
	taken := map[uint64]bool{}
	for i := range mapSlots {
		taken[hashOf(fresh("app", "shop", "team", fmt.Sprint("team-", i)))%mapSlots] = true
	}
	if len(taken) < mapSlots/2 { // 63 % by chance alone
		t.Errorf("%d maps want %d places of as many", mapSlots, len(taken))
	}
}
