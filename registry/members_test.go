package registry

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// shop are replicas that share the keys of the sites. All publish with one connection, which is for nothing else.
type shop struct {
	*world
	publishes jetstream.JetStream
	members   map[string]*running[*site]
}

func newShop(t *testing.T, names ...string) *shop {
	s := &shop{world: newWorld(t), members: map[string]*running[*site]{}}
	s.publishes = s.connect()
	for _, name := range names {
		s.join(name)
		time.Sleep(5 * time.Second)
	}
	return s
}

func (s *shop) join(name string, opts ...controller.Option) {
	s.Helper()
	if name != "" {
		opts = append(opts, controller.WithShards(16), controller.WithMember(name, 1))
	}
	s.members[name] = run(s.world, "sites", client[*site](s.world, s.connect(), sitesConfig),
		append(opts, Publish(Options{Version: "v1", JetStream: s.publishes}))...)
}

// halt stops a replica, and returns which one leads then.
func (s *shop) halt(name string) (leads string) {
	s.Helper()
	s.members[name].stop()
	delete(s.members, name)
	time.Sleep(3 * time.Second)
	for other, m := range s.members {
		if m.Stats().Leading {
			leads = other
		}
	}
	return leads
}

// controller is the one of the entry, and its revision.
func (s *shop) controller() (c Controller, revision uint64) {
	s.Helper()
	synctest.Wait()
	entry, err := Get(s.Context(), s.js, "Site", "example.com/v1")
	s.must(err)
	if len(entry.Controllers) != 1 {
		s.Fatalf("%d controllers: %+v", len(entry.Controllers), entry.Controllers)
	}
	_, revision = s.value()
	return entry.Controllers[0], revision
}

func (s *shop) sent() uint64 { return s.publishes.Conn().Stats().OutMsgs }

func names(s *Shards) (names []string) {
	if s == nil {
		return []string{"no shards"}
	}
	for _, m := range s.Members {
		names = append(names, m.Name)
	}
	return names
}

// TestReplicasThatShareTheKeysAreOneController of an entry, which names them, and is not touched while they are the
// same: what they do, whose slots are where and a restart under one name are no reason.
func TestReplicasThatShareTheKeysAreOneController(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newShop(t, "a", "b", "c", "d")
		began := time.Now()
		time.Sleep(time.Minute)
		c, revision := s.controller()
		if all := []string{"a", "b", "c", "d"}; c.Name != "sites" || c.Instance != s.members["b"].Instance() ||
			c.Shards == nil || c.Shards.Slots != 16 || !slices.Equal(names(c.Shards), all) || c.Shards.Members[0].Weight != 1 {
			t.Fatalf("%+v, %+v", c, c.Shards)
		}
		if settled := c.Shards.Since.Sub(began); settled < 25*time.Second || settled > 40*time.Second {
			t.Errorf("the entry has all members since %v", settled)
		}
		sent := s.sent()
		for i := range 100 {
			s.must(s.members["a"].primary(s, fmt.Sprint("s", i)))
		}
		time.Sleep(3 * time.Minute)
		if now := s.sent(); now != sent {
			t.Errorf("while nothing changes %d messages are sent", now-sent)
		}
		s.halt("c")
		s.join("c")
		time.Sleep(2 * time.Minute)
		if _, now := s.controller(); now != revision {
			t.Errorf("after a restart the entry is at revision %d after %d", now, revision)
		}
	})
}

// primary makes a document.
func (r *running[T]) primary(s *shop, name string) error {
	_, err := s.js.Publish(s.Context(), "$KV.sites."+name, []byte(`{}`))
	return err
}

// TestAnEntryFollowsWhoSharesTheKeys, half a minute later, with one write.
func TestAnEntryFollowsWhoSharesTheKeys(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		s := newShop(t, "a", "b", "c", "d")
		time.Sleep(time.Minute)
		before, revision := s.controller()
		s.halt("d")
		time.Sleep(20 * time.Second)
		if _, now := s.controller(); now != revision {
			t.Error("it is written at once, as in the middle of an update")
		}
		time.Sleep(20 * time.Second)
		now, after := s.controller()
		if !slices.Equal(names(now.Shards), []string{"a", "b", "c"}) || after != revision+1 ||
			!now.Shards.Since.After(before.Shards.Since) || !now.Since.Equal(before.Since) {
			t.Errorf("revision %d after %d: %+v", after, revision, now.Shards)
		}
		s.halt("a") // which led
		s.join("e")
		time.Sleep(2 * time.Minute)
		now, next := s.controller()
		if !slices.Equal(names(now.Shards), []string{"b", "c", "e"}) || next != after+1 {
			t.Errorf("under another leader revision %d after %d: %+v", next, after, now.Shards)
		}
		for _, name := range []string{"b", "c", "e"} {
			s.halt(name)
		}
		s.join("")
		time.Sleep(time.Minute)
		if now, _ := s.controller(); now.Shards != nil {
			t.Errorf("without shards: %+v", now.Shards)
		}
	})
}

// TestAnEntryNamesAHundredMembers, each once, and none that leaves.
func TestAnEntryNamesAHundredMembers(t *testing.T) {
	stats := &engine.ShardStats{}
	for i := range 120 {
		stats.Members = append(stats.Members, shards.MemberStatus{Name: fmt.Sprintf("m%03d", i), Weight: 1},
			shards.MemberStatus{Name: fmt.Sprintf("m%03d", i), Weight: 1})
	}
	stats.Members[0].Leaving, stats.Members[1].Leaving = true, true
	said := sharedBy(1024, membersOf(stats))
	if said.Slots != 1024 || len(said.Members) != 100 || said.More != 19 || said.Members[0].Name != "m001" {
		t.Errorf("it says %+v", said)
	}
}
