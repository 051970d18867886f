// What no controller can be made of is refused before anything is made: a name that cannot be kept, and clients that
// stand where they must not. The error says what is wrong and what to do instead.

package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MostName is how many bytes the name of a controller may have: what the API server of Kubernetes takes as the name of
// a field manager, which it is by default.
const MostName = 128

// CheckName refuses a name that a controller cannot keep: it is in records, in the claim on the status bucket and in
// events, and the field manager of what is applied in Kubernetes. JSON would keep another name than one that is not
// UTF-8.
func CheckName(name string) error {
	const rule = "a name has 1 to %d bytes of UTF-8, all of them printable: %s"
	switch {
	case name == "":
		return errors.New("a controller needs a name; it is kept in the status bucket and must not change")
	case len(name) > MostName:
		return fmt.Errorf("the name has %d bytes; "+rule, len(name), MostName, "shorten it")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name is not UTF-8, so that another one would be kept; "+rule, MostName, "change it")
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return fmt.Errorf("the name contains %q, which is not printable; "+rule, c, MostName, "take it out")
		}
	}
	return nil
}

// New refuses a controller that lacks something, and what Name and Check refuse. recorded reports whether records have
// a bucket, or are not wanted, and emptied whether the cache keeps only metadata.
func (c *Clients) New(
	name string, primary NamedClient, reconciles bool, recorded, emptied func() bool,
) error {
	switch {
	case guard.IsNil(primary):
		return errors.New("the primary's client is nil")
	case !reconciles:
		return errors.New("the reconciler is nil")
	case !recorded():
		return errNoStatusBucket
	case emptied():
		return errOnlyMetadata
	}
	return errors.Join(CheckName(name), c.Check(primary))
}

var errNoStatusBucket = errors.New("the primary has no status bucket, " +
	"so deletes that happen while the controller is down would be lost: " +
	"give its client a StatusBucket, or accept that with WithoutTeardown()")

var errOnlyMetadata = errors.New("the cache of the primaries keeps only their metadata (Config.OnlyMetadata), so a " +
	"reconciler would find them empty, and what they own unwanted: give the controller a client of its own without it")

// NamedClient is a client as its identity, and the kind by which errors name it.
type NamedClient interface{ Kind() string }

// Clients are those of a controller's sources. The zero value is none.
type Clients struct {
	SelfOwnership bool // the primary's client may be among the owned ones
	owned         []ported
	watched       []ported
	shares        []func(other any) bool // of the owned ones
}

// ported is a client with its engine port, which a client of the user's has from the one that it embeds.
type ported struct {
	NamedClient
	port any
}

// Own notes the client of secondaries. shares tells of another client whether it shares the cache of this one.
func (c *Clients) Own(client NamedClient, port any, shares func(other any) bool) {
	c.owned, c.shares = append(c.owned, ported{client, port}), append(c.shares, shares)
}

// Watch notes the client of tertiaries.
func (c *Clients) Watch(client NamedClient, port any) {
	c.watched = append(c.watched, ported{client, port})
}

// with are the clients of both.
func (c Clients) with(more Clients) Clients {
	c.owned = slices.Concat(c.owned, more.owned)
	c.shares = slices.Concat(c.shares, more.shares)
	c.watched = slices.Concat(c.watched, more.watched)
	return c
}

// Check refuses one client in two sources of a sort, and a primary that owns itself without SelfOwnership. A client may
// be both owned and watched: primaries may read what others own. Two that share a cache may both be owned: each has the
// status of its own status bucket. But none may share the primary's: its documents are primaries.
func (c *Clients) Check(primary NamedClient) error {
	return errors.Join(
		twice(c.owned, "Owns(%[1]s) is given twice with one client, so each event of a %[1]s would come twice: "+
			"take one away"),
		twice(c.watched, "Watches(%[1]s) is given twice with one client: "+
			"return the keys of both in one function, and take one away"),
		c.ownsItself(primary), c.sameNames())
}

// sameNames refuses two buckets of one name in different places: a prune, and health, could not tell them apart.
func (c *Clients) sameNames() error {
	for i, client := range c.owned {
		for _, other := range c.owned[:i] {
			at, bucket := client.place()
			if elsewhere, same := other.place(); same == bucket && at != nil && elsewhere != nil && at != elsewhere {
				return fmt.Errorf("Owns(%s) and Owns(%s) both have a bucket %q, over different connections, and "+
					"what a primary owns there could not be told apart: give one bucket another name, or a controller "+
					"of its own", other.Kind(), client.Kind(), bucket)
			}
		}
	}
	return nil
}

// place is where the documents of a client are; nil if its port does not tell.
func (p ported) place() (over *nats.Conn, bucket string) {
	client, ok := p.NamedClient.(interface{ Config() entity.Config })
	port, tells := p.port.(interface{ JetStream() jetstream.JetStream })
	if !ok || !tells || port.JetStream() == nil {
		return nil, ""
	}
	return port.JetStream().Conn(), client.Config().Bucket
}

func (c *Clients) ownsItself(primary NamedClient) error {
	if c.SelfOwnership {
		return nil
	}
	for i, client := range c.owned {
		if SameClient(client.NamedClient, primary) || c.shares[i](primary) {
			return fmt.Errorf("the client of the primary, %[1]s, or one that shares its cache, is one of the "+
				"secondaries, so a %[1]s would own others, and go with its owner: say so with WithSelfOwnership(), or "+
				"read them with Watches",
				primary.Kind())
		}
	}
	return nil
}

func twice(clients []ported, message string) error {
	for i, client := range clients {
		for _, other := range clients[:i] {
			if SameClient(client.NamedClient, other.NamedClient) || SameClient(client.port, other.port) {
				return fmt.Errorf(message, client.Kind())
			}
		}
	}
	return nil
}

// SameClient reports whether two values are one: clients and informers are pointers, or values that can be compared.
func SameClient(a, b any) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
