package source

import (
	"context"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/loops"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What not each source can do is an interface here, which stands beside the types that can do it: if a method were
// renamed on one side alone, a type assertion would fail, and nothing would say so. What a delete depends on is no such
// interface: it is in [Owned], so each source has to say it.

// Placed is a source of secondaries of which it is known where they are.
type Placed interface {
	Owned
	Place() Place
}

// Named is a source in which another's object may have the name that a primary wants.
type Named interface {
	Placed
	// AwaitName resumes a primary when another's object is gone, or has another owner.
	AwaitName(object, primary string) (news bool)
	// ForgetNames forgets all names that a primary waits for.
	ForgetNames(primary string)
	// AwaitedBy returns the names that a primary waits for, in no order.
	AwaitedBy(primary string) (objects []string)
}

// Kinded is a source of entities.
type Kinded interface{ Kind() string }

// Caused is a source that can tell which write an event is of.
type Caused interface {
	// Cause describes an event. Of what was created before is nil, of what was deleted after. An event that says
	// nothing new has no cause.
	Cause(before, after metav1.Object) (c loops.Cause, news bool)
}

// Asker is a source that can ask a server why it has not synced.
type Asker interface {
	// WhyNotSynced returns why; nil if that is not known.
	WhyNotSynced(ctx context.Context) error
}

// Cached is a source with caches in NATS.
type Cached interface {
	// Stats adds how they are doing, by the name of the source.
	Stats(into map[string]Stats)
	// Suspect is why one of them may show what its stream does not have any more, and since when; nil while nothing
	// says so.
	Suspect() (since time.Time, why error)
	// Settings is why the settings of one of its buckets are not safe any more, and how to mend them; nil if they are.
	Settings() error
}

// Called is a source of which calls may go wrong while its news comes, such as those that change a resource.
type Called interface {
	// Calls is what is wrong with such calls; nil if nothing is. What stops the news is Err's.
	Calls() error
}

// Prepared is what runs beside an engine and needs something to be made before, such as a bucket.
type Prepared interface {
	// RightsOf are what a role other than the controller's needs for it, such as who makes it.
	RightsOf(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error)
	// SetUp makes what is missing, also where the engine may not.
	SetUp(ctx context.Context) error
}

// NeedsRights is what needs rights in NATS, a source or what runs beside an engine.
type NeedsRights interface {
	Rights(...entity.PermissionOption) (entity.PermissionSet, error)
}

var (
	_ Named        = (*NATS[entity.IEntity])(nil)
	_ Kinded       = (*NATS[entity.IEntity])(nil)
	_ Caused       = (*NATS[entity.IEntity])(nil)
	_ Cached       = (*NATS[entity.IEntity])(nil)
	_ NeedsRights  = (*NATS[entity.IEntity])(nil)
	_ unownedNoter = (*NATS[entity.IEntity])(nil)
)
