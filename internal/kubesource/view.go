package kubesource

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/retry"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
)

const (
	// bookmarkPatience is how long an informer may stay at a version once the API server was seen to be ahead of it.
	// Where reads are consistent, a probe makes the API server's own cache move on, and the next bookmark, of which
	// there is one a minute, tells. Elsewhere etcd tells of its progress each ten minutes. So the patience doubles up
	// to bookmarkPatienceMost with each comparison that it was the reason for and that showed nothing.
	bookmarkPatience     = 75 * time.Second
	bookmarkPatienceMost = 11 * time.Minute
	// comparePauseMost is the longest pause between comparisons. Own writes that an informer does not cover give reason
	// for one again and again; and so does a view that is known to be old.
	comparePauseMost = 10 * time.Minute
)

// comparePause is between comparisons: 10 s to 20 s after the first, and up to twice as long after each.
var comparePause = retry.NewBackoff(10*time.Second, comparePauseMost)

// view is whether what an informer shows may be older than what the API server has. The watch of an informer can stop
// to tell without an error:
//
//   - etcd was restored to an older state. client-go resumes its watch at a version that is yet to come, and is told
//     nothing until the API server has come there; what changed in between it never shows.
//   - The watch's connection is half-open, or whatever carries it stands still.
//
// The evidence is never that the informer is silent, which most are. It is one of these:
//
//   - A list of the API server has a version below the informer's, and the API server says that the informer's version
//     is yet to come: etcd went back. The version alone says nothing: some aggregated API servers return that of the
//     newest object.
//   - A comparison with a live list shows objects in the informer's store that the API server has changed or deleted,
//     and the informer does not show that within settleTime, see compare. A comparison is made when there is a sign:
//     an own write that is not shown for seconds, or a version that does not move though the API server was seen to be
//     ahead. It costs a list, so signs that prove to be nothing make it rarer.
//
// A view that is old stays so until the informer has listed again, which shows where etcd went back, or a comparison
// agrees. That the informer moves is a reason for one, and no proof.
//
// What cannot be known: whether an object that is missing in the store falls into the informer's namespace, labels and
// fields; see covered. Whether etcd was restored if the API server has come to the informer's version again before
// somebody asks, and nothing in the store shows it. And nothing is known where the API server cannot be asked.
//
// All sources over the informer share the view. It calls no listener while it holds mu.
type view struct {
	informer cache.SharedIndexInformer
	errors   *WatchErrors

	mu        sync.Mutex
	outdated  *outdated // nil: there is no evidence
	failed    error     // why the last comparison could not be made
	doubted   string    // the informer's version while an own write was not shown; "": none
	ahead     position  // of the informer when the API server was first seen to be ahead of it
	patience  time.Duration
	comparing bool
	compared  int       // in a row
	next      time.Time // the next comparison
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
	moved    bool // the watch that stood still goes on
	err      error
}

// whatToDo ends every report of an outdated view.
const whatToDo = "until it has listed again nothing is deleted because of what it shows; " +
	"if it does not: restart the process, or give the controller a new informer"

func newView(informer cache.SharedIndexInformer, errors *WatchErrors) *view {
	return &view{informer: informer, errors: errors, patience: bookmarkPatience}
}

func (v *view) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.outdated == nil:
		return nil
	case v.failed != nil:
		return fmt.Errorf("%w (and it cannot be compared with the API server: %v)", v.outdated.err, v.failed)
	}
	return v.outdated.err
}

// ShowsInOrder reports whether the resource version of a store is a cursor: all up to it is in the store. client-go's
// is one while lists are put into the store at once, which is the default.
func ShowsInOrder() bool {
	gates := features.FeatureGates()
	return gates.Enabled(features.InOrderInformers) && gates.Enabled(features.AtomicFIFO)
}

// version is up to where the store shows everything. The informer's own version may be ahead of its store.
func (v *view) version() string {
	if ShowsInOrder() {
		return v.informer.GetStore().LastStoreSyncResourceVersion()
	}
	return v.informer.LastSyncResourceVersion()
}

// answered is told of the version of a list in a namespace that was asked for when the informer was at before.
func (v *view) answered(ctx context.Context, namespace, before, server string) {
	v.mu.Lock()
	known := v.outdated != nil && v.outdated.wentBack
	if after(server, before) && v.ahead.version != before {
		v.ahead = position{before, time.Now()}
	}
	v.mu.Unlock()
	if known || !after(before, server) || v.version() != before {
		return
	}
	if v.errors.isYetToCome(ctx, namespace, before) {
		v.note(&outdated{version: before, wentBack: true, err: fmt.Errorf("etcd was restored to an older state: "+
			"the API server is at resource version %s, and the informer has seen %s, so its watch is told nothing "+
			"of what changes meanwhile; %s", server, before, whatToDo)})
	}
}

// after reports whether a version comes after another one. Versions that cannot be compared do not.
func after(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// doubt is told that an own write is not shown though there was time.
func (v *view) doubt() {
	now := v.version()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doubted = now
}

// note notes the evidence that the view is old. That etcd went back outweighs that the watch stands still.
func (v *view) note(found *outdated) {
	v.mu.Lock()
	o := v.outdated
	news := o == nil || !o.wentBack && (found.wentBack || found.version != o.version)
	if news {
		v.outdated = found
	}
	v.mu.Unlock()
	if news {
		v.errors.viewChanged(false)
	}
}

// end is for a view that is no longer old, unless something else than o was found meanwhile.
func (v *view) end(o *outdated) {
	v.mu.Lock()
	ended := o != nil && v.outdated == o
	if ended {
		v.outdated = nil
	}
	v.mu.Unlock()
	if ended {
		v.errors.viewChanged(true)
	}
}

// follow is called each second by each source over the informer. It reports whether compareOnce must be called, and
// costs nothing while there is no sign.
func (v *view) follow() (compare bool) {
	now, able := v.version(), v.errors.prober() != nil && v.informer.HasSynced()
	v.mu.Lock()
	o := v.outdated
	relisted := o != nil && o.wentBack && after(o.version, now) // a version goes back by a list only
	if o != nil && !o.wentBack && !o.moved && !v.comparing && now != o.version {
		o.moved, v.next = true, time.Time{}
	}
	compare = able && !relisted && !v.comparing && v.signLocked(now) && !time.Now().Before(v.next)
	v.comparing = v.comparing || compare
	v.mu.Unlock()
	if relisted {
		v.end(o)
	}
	return compare
}

// signLocked reports whether there is a reason to compare.
func (v *view) signLocked(now string) bool {
	stands := v.ahead.version == now && time.Since(v.ahead.since) >= v.patience
	return v.outdated != nil || now != "" && (v.doubted == now || stands)
}

// compareOnce compares, and draws the conclusions.
func (v *view) compareOnce(ctx context.Context) {
	v.mu.Lock()
	o := v.outdated
	bySilence := o == nil && v.doubted == ""
	v.mu.Unlock()
	var found *outdated
	var agrees bool
	err := guard.Call(func() (err error) { found, agrees, err = v.compare(ctx, o); return err })
	v.mu.Lock()
	v.comparing = false
	if ctx.Err() != nil { // the source stops; another one may compare
		v.mu.Unlock()
		return
	}
	if bySilence && err == nil && found == nil {
		v.patience = min(2*v.patience, bookmarkPatienceMost)
	}
	if time.Since(v.next) > comparePauseMost { // the last one is long ago
		v.compared = 0
	}
	v.compared++
	v.next = time.Now().Add(comparePause.Delay(v.compared))
	v.failed, v.doubted, v.ahead = err, "", position{}
	v.mu.Unlock()
	switch {
	case err != nil: // it is tried again while there is a sign
	case found != nil:
		v.note(found)
	case agrees:
		v.end(o)
	}
}
