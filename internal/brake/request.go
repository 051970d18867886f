package brake

import (
	"context"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/internal/record"
	"k8s.io/klog/v2"
)

// A request for a release names the engagement and how many deletes are held, as its sender read them. The brake judges
// it by what the key holds, read live, and not by what the cache told: a put alone says nothing, because a server
// publishes its answers to any subject that a request names.
//
// The rules:
//
//   - A request counts if it names the engagement and at least as many deletes as are held. If it names a list (see
//     ListID), just what that has must be held. It is judged once the first sweep of the term has told what it holds
//     back, and no suspects wait for a decision.
//   - Any other request is removed without effect, and reported until the brake is released or disengages.
//   - With nothing engaged a request is removed without effect.
//   - Release, called where the brake runs, means what is held then, so a count that grows meanwhile does not matter.

// requests are what is known of requests. b.mu guards them.
type requests struct {
	unread  bool // the release key may hold one that was not judged
	read    time.Time
	storing int // how many calls of Release store theirs
	// Of this engagement only: that Release, called here, is to end it, and the last that was ignored, with why.
	granted   string // the id of the engagement; "" if it is not
	ignored   string // "" if none was
	ignoredAt time.Time

	judged   record.Release // the last one that was without effect
	released string         // the engagement that a release ended last
}

// beginEngagement forgets what was of the engagement before.
func (r *requests) beginEngagement() { r.granted, r.ignored = "", "" }

// Release requests a release of what is held now. It returns when the request is kept, for whichever replica leads.
// With nothing engaged it changes nothing. Where this brake does not run, the request names what the leader has kept
// last: if more is held by then, the leader ignores it, and reports that on its board.
func (b *Brake) Release(ctx context.Context) error {
	now, here := b.beginStoring()
	defer b.endStoring(here)
	if !here {
		var err error
		if now, _, err = b.stateCell.Load(ctx); err != nil {
			return err
		}
	}
	if !now.Engaged {
		return nil
	}
	err := b.releaseCell.Store(ctx, record.Release{
		At: time.Now().UTC().Format(time.RFC3339), By: "ReleaseBrake", Engagement: now.Engagement, Count: now.Count(),
	})
	if err == nil && here {
		b.grant(now.Engagement)
	}
	return err
}

// beginStoring begins a Release. here reports whether this brake runs, and so knows best what is held. Then no request
// is judged before endStoring: the one that is being stored may name fewer than are held a moment later.
func (b *Brake) beginStoring() (now kept, here bool) {
	b.mu.Lock()
	defer b.unlock()
	if b.running {
		b.requests.storing++
	}
	return kept{State: b.stateNow()}, b.running
}

func (b *Brake) endStoring(here bool) {
	if !here {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	b.requests.storing--
	b.poke()
}

// Released reports whether a release, and not what came back, ended the engagement last of all.
func (b *Brake) Released(engagement string) bool {
	b.mu.Lock()
	defer b.unlock()
	return engagement != "" && b.requests.released == engagement
}

// Refused reports whether this request was judged last, and was without effect.
func (b *Brake) Refused(asked record.Release) bool {
	b.mu.Lock()
	defer b.unlock()
	return b.requests.judged == asked
}

// grant has Run release all that is held, as long as the engagement is this one.
func (b *Brake) grant(engagement string) {
	b.mu.Lock()
	defer b.unlock()
	b.requests.granted = engagement
	b.poke()
}

// isGranted reports whether Release, called in this process, releases what is held. It needs b.mu.
func (b *Brake) isGranted() bool {
	granted := b.requests.granted
	return b.state.Engaged && granted == b.state.Engagement && granted != ""
}

// ReleaseRequested notes that something was put to the release key.
func (b *Brake) ReleaseRequested() {
	b.mu.Lock()
	defer b.unlock()
	b.requests.unread = true
	b.poke()
}

// requestPause is the shortest time between two looks at the release key: a flood of requests does not keep Run busy.
const requestPause = 100 * time.Millisecond

// judgeable returns whether a request can be judged now, or after what time. It needs b.mu.
func (b *Brake) judgeable() (now bool, wait time.Duration) {
	if !b.requests.unread || b.requests.storing > 0 || b.state.Engaged && b.undecided() {
		return false, 0
	}
	wait = time.Until(b.requests.read.Add(requestPause))
	return wait <= 0, max(0, wait)
}

// undecided reports whether it is not known yet how much is held. It needs b.mu.
func (b *Brake) undecided() bool { return !b.swept || len(b.suspects)+len(b.prunes.suspects) > 0 }

// judgeRequest looks what the release key holds, and does it or removes it.
func (b *Brake) judgeRequest(ctx context.Context) {
	b.mu.Lock()
	b.requests.unread, b.requests.read = false, time.Now()
	b.unlock()
	value, revision, err := b.releaseCell.Raw(ctx)
	if err != nil || revision == 0 {
		return // the term is over, or another look has seen to it
	}
	asked, err := record.ParseRelease(value)
	b.mu.Lock()
	now := b.stateNow()
	if now.Engaged && b.undecided() { // since the key was read
		b.requests.unread = true
		b.unlock()
		return
	}
	counts := err == nil && now.Engaged && asked.Engagement == now.Engagement && asked.Count >= now.Count()
	if counts && b.isListed(asked.List) {
		gone := b.letGo()
		b.unlock()
		b.released(ctx, gone)
		return
	}
	b.requests.judged = asked
	b.unlock()
	switch {
	case !now.Engaged:
		klog.FromContext(ctx).Info("Nothing waits for a release, so this request is removed",
			"found", record.Quoted(value))
	case err != nil:
		b.ignore(ctx, fmt.Sprintf("%s is %v", record.Quoted(value), err))
	case asked.Engagement != now.Engagement:
		b.ignore(ctx, record.Quoted(value)+" names another engagement")
	case counts:
		b.ignore(ctx, record.Quoted(value)+" names another list: other keys are held than its sender has read")
	default:
		b.ignore(ctx, record.Quoted(value)+" names fewer deletes than are held")
	}
	if err := b.releaseCell.DeleteAt(ctx, revision); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot remove the key that releases the brake")
	}
}

// ignoredPause is the shortest time between two reports of requests that are ignored.
const ignoredPause = 10 * time.Second

// ignore reports a request that has no effect. Of many in a row it reports some.
func (b *Brake) ignore(ctx context.Context, why string) {
	b.mu.Lock()
	if b.requests.ignored != "" && time.Since(b.requests.ignoredAt) < ignoredPause {
		b.unlock()
		return
	}
	b.requests.ignored, b.requests.ignoredAt = why, time.Now()
	problem := b.ignoredRequest()
	b.unlock()
	b.report(ctx)
	if problem != nil {
		b.Ignored(ctx, problem.Error())
	}
}

// ignoredRequest says which request was ignored, and which would count; nil if none was. It needs b.mu.
func (b *Brake) ignoredRequest() error {
	if b.requests.ignored == "" || !b.state.Engaged {
		return nil
	}
	now := b.published()
	return fmt.Errorf("a request to release the brake was ignored and removed: %s. "+
		"%d deletes are held in engagement %s, see the brake. To release them, which deletes: ReleaseBrake, or %s",
		b.requests.ignored, now.Count(), now.Engagement, now.command(b.Bucket.Name()))
}
