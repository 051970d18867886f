package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
)

// LongestDuration is the longest Duration of a lease, and the longest that a reader believes: a record may ask for any
// number of seconds, by mistake or by the hand of whoever may write it, and until they have passed no replica leads. A
// holder that lives is not overtaken because of it: each renewal makes the others count anew, and a holder of at most
// this Duration has ended its term before they are through.
const LongestDuration = time.Hour

// ErrOtherControllers says that the holder runs other controllers than this replica, which never lead unless it holds
// the lease itself: two programs share one lease by mistake, or a rolling update is under way.
var ErrOtherControllers = errors.New("the holder of the lease runs other controllers")

// ErrNotRenewed says that the holder does not renew the lease, and that its record asks for more time.
var ErrNotRenewed = errors.New("the holder of the lease does not renew it")

// ErrShared says that replicas share the keys, and this one works alone or not at all: it waits until they have ended.
var ErrShared = errors.New("other replicas share the keys")

// ErrAlone is the opposite: a replica works alone, and this one shares the keys or does not work at all.
var ErrAlone = errors.New("another replica works alone")

// ErrNoHolder says that a replica waits although none holds the lease: the key, or the stream, was deleted, or a backup
// was restored, and a holder that has not noticed may work on.
var ErrNoHolder = errors.New("no replica holds the lease")

// whyWaiting is what there is to tell while this replica waits; nil behind a holder that is as it should be.
func (e *elector) whyWaiting(now version) error {
	switch {
	case now.garbled != nil:
		return now.garbled
	case now.record.HolderIdentity == "":
		return e.noHolder(now)
	case time.Since(now.at) > e.Timing.Duration: // one with this timing would have been taken over by now
		return e.notRenewed(now)
	}
	if now.record.Shards > 0 && e.Shards == 0 {
		return notify.Because(ErrShared.Error(), fmt.Errorf("%w: %s is held by %q, which works with WithShards(%d), "+
			"and this replica is without: it works once all those have ended. In a rolling update this passes",
			ErrShared, e.Name, now.record.HolderIdentity, now.record.Shards))
	}
	return e.otherControllers(now.record)
}

func (e *elector) noHolder(now version) error {
	bucket, key, _ := strings.Cut(e.Name, "/")
	what := "absent"
	if now.revision != 0 {
		what = "that of a backup, which is free,"
	}
	return notify.Because(ErrNoHolder.Error(), fmt.Errorf(
		"%w: %s is %s since %s, and a holder of which nothing is left may work on; this replica takes it at "+
			"%s, unless it is deleted or put back again. Only if certainly no replica runs, have it taken at once: "+
			`nats kv put %s %s '{"holderIdentity":"","leaseDurationSeconds":1}'`,
		ErrNoHolder, e.Name, what, e.absent.UTC().Format(time.RFC3339),
		now.at.Add(e.wait(now)).UTC().Format(time.RFC3339), bucket, key))
}

func (e *elector) notRenewed(now version) error {
	bucket, key, _ := strings.Cut(e.Name, "/")
	return notify.Because(ErrNotRenewed.Error()+now.record.HolderIdentity, fmt.Errorf(
		"%w: %s is held by %q, which has not renewed it since %s at the latest; its record asks for %d s, of which %v "+
			"are believed, so this replica takes it at %s. Only if that process is certainly dead, free the lease: "+
			`nats kv put %s %s '{"holderIdentity":"","leaseDurationSeconds":1}'`,
		ErrNotRenewed, e.Name, now.record.HolderIdentity, now.at.UTC().Format(time.RFC3339),
		now.record.LeaseDurationSeconds, now.record.duration(),
		now.at.Add(now.record.duration()).UTC().Format(time.RFC3339), bucket, key))
}

// otherControllers compares the controllers of the holder with those of this replica. A record of an earlier version,
// or of other code, names none.
func (e *elector) otherControllers(held record) error {
	own := e.controllers()
	if len(held.Controllers) == 0 || len(own) == 0 {
		return nil
	}
	here, there := without(own, held.Controllers), without(held.Controllers, own)
	if len(here) == 0 && len(there) == 0 {
		return nil
	}
	differences := "only here " + named(here) + ", only there " + named(there)
	return notify.Because(ErrOtherControllers.Error()+differences, fmt.Errorf("%w: %s is held by %q; %s. What is only "+
		"here does not work while that process lives. In a rolling update this passes; else two programs share the "+
		"lease: give each a lease of its own (Lease.Key of package manager, whose default is Config.Name)",
		ErrOtherControllers, e.Name, held.HolderIdentity, differences))
}

// controllers are those of this replica.
func (e *elector) controllers() []string {
	if e.Controllers == nil {
		return nil
	}
	return e.Controllers()
}

func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
}

const (
	// mostControllers is how many controllers a record names. Of more it names none.
	mostControllers = 200
	// mostNamed is how many an error names.
	mostNamed = 5
)

func named(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	more := ""
	if n := len(names) - mostNamed; n > 0 {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%q", names) + more
}
