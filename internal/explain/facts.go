package explain

import (
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/apisource"
	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/running"
	"github.com/nagi-runtime/nagi/internal/source"
)

// Explainer explains the keys of one controller. Its methods may be called concurrently, at any time.
type Explainer struct {
	Queue      *queue.Queue
	Keys       *keytable.Table
	Running    *running.Table
	Primary    Primary
	WellFormed func(key string) bool
	Sources    []source.Source
	APIs       *apisource.Set
	Problems   func() map[string]error // what does not work, by name, such as that of a source
	Mappings   *source.Mappings
	Lead       func() Lead
	Share      func(key string) Share // nil unless replicas share the keys
	Index      *Index                 // for listings; nil makes one for each

	Records  Records // nil without teardown, as are the next
	Brake    *brake.Brake
	Teardown *lifecycle.Teardown
}

// Records are those in the cache of the status bucket.
type Records interface {
	brake.Records
	// Unreadable reports whether what the key has in the bucket is no record.
	Unreadable(key string) bool
	UnreadableKeys() []string
}

// Primary is the source of the primaries.
type Primary interface {
	View(key string) source.View
	Keys() []string
	InvalidKeys() []string
	StreamID() string
}

// Lead is whether this replica works. Holder is who held the lease when that was read last; "" if it is not known.
type Lead struct {
	Started, Synced, Leads, Stopped bool
	Beside                          bool // it works without the lease
	Holder                          string
}

// Share is which of the replicas that share the keys works at one.
type Share struct {
	Slot   int    // that the key is in
	Here   bool   // this replica works at it
	Member string // who does; "" if none is known
	Next   string // who is to, where that is another one
}

// facts is what is known of a key at one moment.
type facts struct {
	lead   Lead
	share  Share
	shared bool // share counts
	queue  queue.Known
	run    running.Run
	view   source.View
	keys   keytable.State
	record *entity.Record
	// unrecorded says that the controller keeps no records, unreadable that there is one and it cannot be read.
	unrecorded, unreadable bool
	held                   bool // the brake holds the key's delete
	heldSince              time.Time
	holdsPrune             bool // what it no longer wants waits for the brake
}

// mostLooks is how often a key is looked at that does not stand still. After that the last look has to do.
const mostLooks = 8

// look returns what is known of a key. Each room has its own lock, so a key may move between two of them. If two looks
// at everything agree, the key stood still between the end of the first and the begin of the second.
func (x *Explainer) look(key string) facts {
	now := x.lookOnce(key)
	for range mostLooks {
		before := now
		if now = x.lookOnce(key); now.agree(&before) {
			break
		}
	}
	return now
}

func (x *Explainer) lookOnce(key string) facts {
	f := facts{lead: x.Lead(), queue: x.Queue.Look(key)}
	if x.Share != nil {
		f.share, f.shared = x.Share(key), true
		f.lead.Leads = f.share.Here
	}
	if f.queue.Running || f.queue.Held {
		f.run = x.Running.Of(key)
	}
	f.keys = x.Keys.Of(key)
	if !f.lead.Leads && !f.queue.Running {
		// What came of runs is of an earlier term. The replica that leads knows better.
		f.keys = keytable.State{Deleted: f.keys.Deleted, CleanUp: f.keys.CleanUp}
	}
	f.view = x.Primary.View(key)
	if x.Records == nil {
		f.unrecorded = true
		return f
	}
	f.record, _ = x.Records.Cached(key)
	f.unreadable = x.Records.Unreadable(key)
	if !f.lead.Leads && !f.queue.Running { // what the brake holds is of an earlier term, too
		return f
	}
	f.holdsPrune = x.Brake.HoldsPrune(key)
	if f.view.Presence == source.Absent {
		f.held = x.Brake.Holds(key) || !record.IsAnchor(f.record) && x.Brake.HoldsOrphans(key)
		if f.held {
			f.heldSince = x.Brake.State().Since
		}
	}
	return f
}

func (f *facts) agree(before *facts) bool {
	return f.queue == before.queue && f.run == before.run && f.keys == before.keys && f.record == before.record &&
		f.view.Presence == before.view.Presence && f.view.Revision == before.view.Revision &&
		f.view.Refused == before.view.Refused && f.lead == before.lead && f.share == before.share &&
		f.held == before.held && f.holdsPrune == before.holdsPrune
}

// known reports whether anything at all is known of the key.
func (f *facts) known() bool {
	return f.view.Presence != source.Absent || f.record != nil || f.unreadable || f.held || f.queue != queue.Known{} ||
		f.keys != keytable.State{}
}

// owed reports whether the document is gone and its teardown is owed.
func (f *facts) owed() bool {
	return f.view.Presence == source.Absent &&
		(record.IsAnchor(f.record) || f.keys.Deleted != nil || f.keys.CleanUp != nil)
}
