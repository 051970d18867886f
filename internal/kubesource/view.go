package kubesource

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

const (
	// bookmarkPatience is how long an informer may stay at a version once the API server was seen to be ahead of it. A
	// probe makes the API server's own cache move on, and the next bookmark, of which there is one a minute, tells.
	bookmarkPatience = 75 * time.Second
	// A comparison that showed nothing, or could not be made, is not repeated before comparePause. The pause doubles up
	// to comparePauseMost: an API server without bookmarks, or an informer that does not cover what this process
	// writes, gives reason for one again and again. While the view is known to be old it stays.
	comparePause     = 20 * time.Second
	comparePauseMost = 10 * time.Minute
)

// view is whether what an informer shows may be older than what the API server has. The watch of an informer can stop
// to tell without an error:
//
//   - etcd was restored to an older state. client-go resumes its watch at a version that is yet to come, and is told
//     nothing until the API server has come there; what changed in between it never shows.
//   - The watch's connection is half-open, or whatever carries it stands still.
//
// The evidence is never that the informer is silent, which most are. It is one of these:
//
//   - A list of the API server has a version below the informer's: etcd went back. The list was asked for later, and
//     no list is older than what was seen before it.
//   - A comparison with a live list shows objects in the informer's store that the API server has changed or deleted,
//     and the informer does not show that within settleTime, see compare. A comparison is made when there is a sign:
//     an own write that is not shown for seconds, or a version that does not move though the API server was seen to be
//     ahead. It costs a list, so signs that prove to be nothing make it rarer.
//
// What cannot be known: whether an object that is missing in the store falls into the informer's namespace, labels and
// fields; so a missing object alone is evidence only where the store has others of its namespace and owners. Whether
// etcd was restored if the API server has come to the informer's version again before somebody asks, and nothing in the
// store shows it. And nothing is known where the API server cannot be asked.
type view struct {
	informer cache.SharedIndexInformer
	errors   *WatchErrors
	kind     string // of the primaries that own the objects; "" if none do
	events   healthEvents
	loops    *sync.WaitGroup

	mu        sync.Mutex
	outdated  *outdated // nil: there is no evidence
	doubted   string    // the informer's version while an own write was not shown; "": none
	ahead     position  // of the informer when the API server was first seen to be ahead of it
	comparing bool
	next      time.Time // the next comparison
	pause     time.Duration
}

// position is a version of the informer, and since when.
type position struct {
	version string
	since   time.Time
}

// outdated says that an informer's view is old.
type outdated struct {
	version string // of the informer, when that was found
	// wentBack: etcd was restored, so events are lost. Else they come once the watch goes on.
	wentBack bool
	err      error
}

// whatToDo ends every report of an outdated view.
const whatToDo = "until it has listed again nothing is deleted because of what it shows; " +
	"if it does not: restart the process, or give the controller a new informer"

func (v *view) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.outdated == nil {
		return nil
	}
	return v.outdated.err
}

// answered is told of the version of a list that was asked for when the informer was at before.
func (v *view) answered(before, server string) {
	order, err := resourceversion.CompareResourceVersion(server, before)
	if err != nil {
		return // there is none, or none that can be compared
	}
	if order < 0 && v.informer.LastSyncResourceVersion() == before {
		v.note(&outdated{version: before, wentBack: true, err: fmt.Errorf("etcd was restored to an older state: "+
			"the API server is at resource version %s, and the informer has seen %s, so its watch is told nothing "+
			"of what changes meanwhile; %s", server, before, whatToDo)})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if order > 0 && v.ahead.version != before {
		v.ahead = position{before, time.Now()}
	}
}

// doubt is told that an own write is not shown though there was time.
func (v *view) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doubted = v.informer.LastSyncResourceVersion()
}

// note notes the evidence that the view is old. That etcd went back outweighs that the watch stands still.
func (v *view) note(found *outdated) {
	v.mu.Lock()
	news := v.outdated == nil || found.wentBack && !v.outdated.wentBack
	if news {
		v.outdated, v.next, v.pause = found, time.Time{}, 0
	}
	v.mu.Unlock()
	if news {
		v.events.changed()
	}
}

// follow is called each second. It costs nothing while there is no sign.
func (v *view) follow(ctx context.Context) {
	now := v.informer.LastSyncResourceVersion()
	v.mu.Lock()
	recovered := v.outdated != nil && v.outdated.recovered(now)
	compare := !recovered && !v.comparing && v.mustCompareLocked(now)
	v.comparing = v.comparing || compare
	v.mu.Unlock()
	if recovered {
		v.end()
	}
	if compare {
		v.loops.Go(func() { v.compareOnce(ctx) })
	}
}

// recovered reports whether the informer's version alone shows that the view is no longer old: a version goes back by a
// list only, and a watch that stood still tells all when it goes on.
func (o *outdated) recovered(now string) bool {
	if !o.wentBack {
		return now != o.version
	}
	order, err := resourceversion.CompareResourceVersion(now, o.version)
	return err == nil && order < 0
}

func (v *view) mustCompareLocked(now string) bool {
	stands := v.ahead.version == now && time.Since(v.ahead.since) >= bookmarkPatience
	if v.outdated == nil && v.doubted != now && !stands {
		return false
	}
	return v.errors.prober() != nil && v.informer.HasSynced() && !time.Now().Before(v.next)
}

// end is for a view that is no longer old.
func (v *view) end() {
	v.mu.Lock()
	ended := v.outdated != nil
	v.outdated = nil
	v.mu.Unlock()
	if ended {
		v.events.changed()
		v.events.answered() // what waited for it is due
	}
}

func (v *view) compareOnce(ctx context.Context) {
	var found *outdated
	var agrees bool
	err := guard.Call(func() (err error) { found, agrees, err = v.compare(ctx); return err })
	v.mu.Lock()
	v.comparing, v.doubted = false, ""
	switch {
	case v.outdated != nil || time.Since(v.next) > 2*comparePauseMost: // or the last one is long ago
		v.pause = comparePause
	default:
		v.pause = min(2*v.pause, comparePauseMost)
	}
	v.next = time.Now().Add(v.pause)
	v.mu.Unlock()
	switch {
	case err != nil: // it is tried again while there is a sign
	case found != nil:
		v.note(found)
	case agrees:
		v.end()
	}
}
