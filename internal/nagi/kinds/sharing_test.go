package kinds

import (
	"testing"

	"github.com/nagi-runtime/nagi/registry"
)

// TestHowReplicasShareTheKeysIsSaidInALine, also while the members are not known, and of very many.
func TestHowReplicasShareTheKeysIsSaidInALine(t *testing.T) {
	two := []registry.Member{{Name: "a", Weight: 1}, {Name: "b\x1b", Weight: 3}}
	for _, c := range []struct {
		of              *registry.Shards
		sharing, shares string
	}{
		{nil, "", ""},
		{&registry.Shards{Slots: 64}, "64 slots", "64 slots"},
		{&registry.Shards{Slots: 64, Members: two[:1]}, "64 slots, 1 member", "64 slots: a"},
		{&registry.Shards{Slots: 64, Members: two}, "64 slots, 2 members", `64 slots: a, "b\x1b" (weight 3)`},
		{&registry.Shards{Slots: 64, Members: two[:1], More: 7}, "64 slots, 8 members", "64 slots: a and 7 more"},
	} {
		of := &registry.Controller{Shards: c.of}
		if sharing, shares := Sharing(of), Sharers(of); sharing != c.sharing || shares != c.shares {
			t.Errorf("of %+v: %q and %q, wanted %q and %q", c.of, sharing, shares, c.sharing, c.shares)
		}
	}
}
