package controller

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nagi-runtime/nagi/internal/engine"
)

const (
	// DefaultShards is how many slots WithShards(0) divides the keys into.
	DefaultShards = 1024

	mostShards    = 1 << 14
	mostWeight    = 1000
	longestMember = 100
)

// WithShards has all replicas work at once, each at its share of the keys: for reconciles that wait for slow APIs, and
// for more of them than one process has workers for. Each replica caches all keys. The default is that one replica
// works, and the others wait for its lease.
//
// The keys are divided into slots, by a hash of the key. The number is fixed in the status bucket when a controller
// first runs with shards, and 0 means DefaultShards. With another number Run fails, and says what to do: all replicas
// need the same. It bounds how finely the work can be divided, 16384 is the most.
//
// Each replica is a member (see [WithMember]). It keeps a lease of its own in the status bucket, for as long as
// [WithLeaseTiming] says. A member that comes takes its share of the slots from the others, one that goes leaves its
// own to them, and between these no slot moves. A slot that is handed over is drained first: no key is reconciled by
// two replicas at once. When a member dies, its keys are taken over within the duration of the lease and two seconds.
// One that is back under its name before that is one member more until then.
//
// What is done once for all of a bucket the replica does that holds the ordinary lease: sweeps, the brake, what is
// beside the controller. Its brake counts for all replicas, and the others follow it. [Controller.Enqueue] at one
// replica reaches the one that works at the key, [Controller.Explain] names it, and the services API has it answer.
// Retries, rates and limits of APIs are each member's own: give each its part of what an API can take.
//
// The status bucket's server has to keep a key for a time of its own (LimitMarkerTTL, as buckets that Nagi makes have
// it). A controller goes from one replica to shards and back by a rolling update: a replica without shards waits while
// there are members, and members wait for one that works alone. docs/scaling.md says when shards help, and what a
// process that was paused in a reconcile can still do.
func WithShards(slots int) Option {
	return func(o *engine.Options) error {
		switch {
		case slots == 0:
			slots = DefaultShards
		case slots < 0 || slots > mostShards:
			return fmt.Errorf("WithShards(%d): want 1 to %d slots, or 0 for %d", slots, mostShards, DefaultShards)
		}
		o.Shards = slots
		o.TeardownOptions = append(o.TeardownOptions, "WithShards")
		return nil
	}
}

// WithMember names this replica among those that share the keys (see [WithShards]), and says how many slots it is to
// have, in proportion to the weights of the others: 1 to 1000. The name should be the same after a restart, so that the
// replica has the same slots again, and another for each replica. It consists of letters, digits, '-', '_' and '.'. The
// default is the name of the host, and a weight of 1.
func WithMember(name string, weight int) Option {
	return func(o *engine.Options) error {
		if name == "" || memberName(name) != name {
			return fmt.Errorf("WithMember(%q): the name must consist of letters, digits, '-', '_' and single '.' "+
				"between them, and have %d bytes at most", name, longestMember)
		}
		if weight < 1 || weight > mostWeight {
			return fmt.Errorf("WithMember: a weight of %d: want 1 to %d", weight, mostWeight)
		}
		o.Member, o.MemberWeight = name, weight
		return nil
	}
}

// WithSlotCaches has the caches of a replica with [WithShards] hold the documents and records of the keys at which it
// works, and what these own in NATS. Of the others they know no more than whoever decides about deletes for all needs:
// that they exist, and what they owe. So the memory of a replica shrinks with each other that comes. When slots move,
// what comes into a cache is read from the server before they do.
//
// It is for reconcilers that read through caches their own primary and what it owns, and no other documents of these
// kinds: a Lister of such a client returns [entity.ErrNotCached] for what another replica has, and for lists of all. An
// event handler that is added to one hears of the keys of this replica alone, and nothing where one goes to another.
// Client.Get and Client.List read all, from the server. Clients of Watches, and informers of Kubernetes, have all, as
// ever. A client that is divided is one controller's: give another one a client of its own. With [WithOwnerProof] and
// [WithSelfOwnership] the option is refused.
func WithSlotCaches() Option {
	return func(o *engine.Options) error {
		o.SlotCaches = true
		o.TeardownOptions = append(o.TeardownOptions, "WithSlotCaches")
		return nil
	}
}

// checkShards refuses what does not go with shards, and names this replica.
func checkShards(o *engine.Options) error {
	switch {
	case o.Shards == 0 && o.Member != "":
		return errors.New("WithMember would do nothing without WithShards")
	case o.Shards == 0 && o.SlotCaches:
		return errors.New("WithSlotCaches would do nothing without WithShards")
	case o.Shards == 0:
		return nil
	case o.SlotCaches && o.Clients.SelfOwnership:
		return errors.New("WithSlotCaches and WithSelfOwnership exclude each other: a cache is divided by its " +
			"keys, or by their owners")
	case o.SlotCaches && o.Proofs != nil:
		return errors.New("WithSlotCaches and WithOwnerProof exclude each other: of what is another replica's the " +
			"caches know no proof")
	case o.WithoutLease:
		return errors.New("WithShards and WithoutLease exclude each other: with shards one replica works at a key, " +
			"and without the lease all do")
	case o.Member == "":
		host, err := os.Hostname()
		if host = memberName(host); err != nil || host == "" {
			return errors.New("WithShards: this host has no name that a member can have: give it one by WithMember")
		}
		o.Member, o.MemberWeight = host, 1
	}
	return nil
}

// memberName makes a name one that a member can have: it is a part of a key. "" if nothing is left of it.
func memberName(name string) string {
	var parts []string
	for _, part := range strings.Split(name, ".") {
		part = strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			}
			return '-'
		}, part)
		if part != "" {
			parts = append(parts, part)
		}
	}
	name = strings.Join(parts, ".")
	return strings.TrimSuffix(name[:min(len(name), longestMember)], ".")
}
