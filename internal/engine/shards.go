package engine

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/fence"
	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/lifecycle"
	"github.com/nagi-runtime/nagi/internal/operation"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nagi-runtime/nagi/natsinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// sharing is the part of an engine that works at some of the slots into which the keys are divided. It implements
// shards.Host. A worker asks it for the term of each key that it takes, and that is the one place where it is asked
// whether a key is this replica's: what others make due, such as a resync, makes all keys due, and those of other
// members are dropped.
type sharing struct {
	*Engine
	*shards.Shards
	*slots
	*talk
	*slotCaches
	runCtx context.Context
	began  chan struct{} // closed when the first slots are open
	begin  sync.Once
	fixes  chan struct{} // has an element when it is to be looked how many slots the bucket says there are
}

// newSharing divides the keys of an engine into slots.
func (e *Engine) newSharing() *sharing {
	s := &sharing{
		Engine: e, slots: newSlots(e.opts.Shards), talk: newTalk(e), slotCaches: e.newSlotCaches(),
		began: make(chan struct{}), fixes: make(chan struct{}, 1),
	}
	patience := e.opts.GracePeriod
	if patience < 0 {
		patience = math.MaxInt64
	}
	s.Shards = shards.New(shards.Config{
		Slots: e.opts.Shards, Name: e.opts.Member, Weight: e.opts.MemberWeight,
		Duration: e.opts.Lease.Duration, Renew: e.opts.Lease.RetryPeriod, DrainPatience: patience,
		Store: s.store(), Host: s, Sheds: e.parts != nil,
		Report:      e.health.Reporter("lease of this member (bucket " + e.statusBucket + ")").Report,
		ReportMoves: e.health.Reporter("slots (bucket " + e.statusBucket + ")").Report,
		ReportRest:  e.health.Reporter("slots that rest (bucket " + e.statusBucket + ")").Report,
	})
	return s
}

func (s *sharing) store() record.ShardStore { return record.ShardStore{Records: s.records} }

// share works at the keys of this member, and does what one replica does for all while it holds the lease, until
// election ends.
func (s *sharing) share(election, life, runCtx context.Context) error {
	made, err := s.fixSlots(runCtx)
	if err != nil {
		return err
	}
	if s.runCtx = runCtx; s.membersExisted(runCtx, made) {
		s.Rest()
	}
	s.records.FenceBy(s.fenceOf)
	defer s.records.FenceBy(nil)
	reports := s.health.NewTerm()
	defer reports.End(life)
	logger := klog.FromContext(life)
	work, endWork := context.WithCancelCause(reports.Of(klog.NewContext(life, logger)))
	defer endWork(nil)
	s.beginKeys(work)
	defer s.APIs.EndTerm()
	handOut, endHandOut := context.WithCancel(work)
	defer endHandOut()
	defer context.AfterFunc(runCtx, endHandOut)()

	var works, loops sync.WaitGroup
	if err := s.watch(work, &loops); err != nil {
		return err
	}
	base := &lifecycle.Term{Ctx: work, RunCtx: runCtx, HandOut: handOut, Logger: logger, Began: time.Now()}
	for range s.opts.Workers {
		works.Go(func() {
			select {
			case <-s.began: // what is due before that waits: it may be this member's
				s.work(base)
			case <-handOut.Done():
			}
		})
	}
	s.watchStuck(handOut, &loops)
	loops.Go(func() { s.sweeper.Resync(handOut) })
	loops.Go(func() { s.sweeper.Remind(handOut) })
	loops.Go(func() { s.openAll(work) })
	loops.Go(func() { s.keepSlots(work) })
	loops.Go(func() { s.talk.run(work, s.Say) })
	member, leave := context.WithCancel(runCtx)
	defer leave()
	works.Go(func() {
		s.Shards.Run(member, work, func() (context.Context, context.CancelFunc) {
			return lease.Grace(runCtx, s.opts.GracePeriod)
		})
	})
	err = s.elect(election, func(term context.Context, won *lease.Term) {
		s.serve(term, life, election, runCtx, won)
	})
	leave()
	endHandOut()
	works.Wait()
	endWork(nil)
	loops.Wait()
	return err
}

// watch tells the member of members and slots until ctx ends.
func (s *sharing) watch(ctx context.Context, loops *sync.WaitGroup) error {
	report := s.health.Reporter("watch of shards (bucket " + s.statusBucket + ")")
	informer, err := s.records.ReservedInformer(record.ShardsPrefix, func(err error) { report.Report(ctx, err) })
	if err != nil {
		return fmt.Errorf("controller %q: watch members and slots: %w", s.name, err)
	}
	streams, began := uint64(0), false
	apply := func(obj any, deleted bool) {
		now := informer.Status().StreamsShown
		if now != streams && began {
			s.Shards.Reset()
			s.brake.Forgets()
			for _, held := range informer.GetStore().List() {
				s.applyEntry(held, false)
			}
			s.Shards.Listed()
		}
		streams, began = now, true
		// The event may be of the stream before, and its revision beyond what this one has: the cache says what is
		// there.
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			if held, exists, err := informer.GetStore().GetByKey(key); err == nil && exists {
				obj, deleted = held, false
			} else if !deleted {
				return // the event that it went follows
			}
		}
		s.applyEntry(obj, deleted)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { apply(obj, false) },
		UpdateFunc: func(_, obj any) { apply(obj, false) },
		DeleteFunc: func(obj any) { apply(obj, true) },
	}); err != nil {
		return fmt.Errorf("controller %q: watch members and slots: %w", s.name, err)
	}
	loops.Go(func() { informer.RunWithContext(ctx) })
	loops.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			s.Shards.Listed()
		}
	})
	return nil
}

func (s *sharing) applyEntry(obj any, deleted bool) {
	if name, revision, value, ok := entity.ReservedOf(obj, deleted); ok {
		gone := natsinformer.DeleteOf(obj)
		s.Shards.Apply(shards.Entry{
			Key: name[len(record.ShardsPrefix):], Revision: revision, Value: value,
			Expired: gone.Evidenced && gone.Reason == natsinformer.ExpiryMarker,
		})
	}
}

// fenceOf implements fence.Of for the records, and what else is written about a key.
func (s *sharing) fenceOf(natsKey string) (fence.Fence, error) {
	plain, ok := record.PlainOf(natsKey)
	if !ok {
		return fence.Fence{}, nil
	}
	key, epoch, ok := s.Fence(shards.SlotOf(plain, s.many))
	if !ok || !s.Lasts() {
		return fence.Fence{}, fence.ErrMoved
	}
	return fence.Fence{Key: record.ShardsPrefix + key, Revision: epoch}, nil
}

// openAll opens the slots that are gained until ctx ends.
func (s *sharing) openAll(ctx context.Context) {
	tidy := time.NewTicker(tidyPause)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			s.tidyUp(ctx)
			continue
		case <-s.opens:
		}
		latest := s.latestGained()
		if latest == 0 {
			continue
		}
		shown, cancel := context.WithTimeout(ctx, openPause)
		err := s.records.Informer().WaitCursor(shown, latest)
		cancel()
		if err == nil {
			err = s.fetchBefore(ctx, s.gainedUpTo(latest), func() { s.openUpTo(latest) })
		}
		if err != nil {
			notifyOf(s.opens) // what was gained in a stream that has gone back is lost meanwhile
		}
	}
}

// tidyUp forgets what this member remembers of the keys of others, and what it said of their records.
func (s *sharing) tidyUp(ctx context.Context) {
	s.forgetWork(func(key string) bool { return !s.isOpen(key) })
	notifyOf(s.changed) // this one asks no more about keys that it had
	if len(s.keys.KeysWhere(func(state *keytable.State) bool { return state.RecordFailures > 0 })) == 0 {
		s.recordsHealth.Leave(ctx) // whose record could not be written is another member's, which says what is the case
	}
}

// openUpTo opens the slots that were gained at a revision or before: the caches show all that was written there before.
func (s *sharing) openUpTo(latest uint64) {
	free := s.gainedUpTo(latest)
	has := func(key string) bool { return free[s.slotOf(key)] }
	s.forgetWork(has)
	s.life.BeginTerm(has)
	s.leadership.mu.Lock() // what is noticed of a key is kept from now on
	opened := s.openGained(free, latest, func(slot int, g gained) *lifecycle.Term {
		return &lifecycle.Term{
			Ctx: g.ctx, RunCtx: s.runCtx, HandOut: g.ctx, Lease: slotLease{s.Shards, slot, g.epoch},
			Logger: klog.FromContext(g.ctx), Began: time.Now(),
		}
	})
	s.leadership.mu.Unlock()
	s.makeDue(opened)
	if len(opened) > 0 {
		s.begin.Do(func() { close(s.began) })
	}
}

const (
	// tidyPause is how often what is remembered of the keys of others is forgotten.
	tidyPause = 10 * time.Second
	// openPause is how often it is looked which slots wait to be opened, while the caches are behind.
	openPause = 250 * time.Millisecond
)

// forgetWork forgets what came of the work at some keys: another member works at them, or has.
func (s *sharing) forgetWork(of func(key string) bool) {
	for _, key := range s.keys.KeysWhere(func(*keytable.State) bool { return true }) {
		switch {
		case !of(key) || s.queue.Running(key):
		case s.isGone(key), s.primary.Exists(key) && record.IsAnchor(s.anchors.Cached(key)):
			s.keys.Forget(key) // nothing is to be done of which the caches do not tell
		default:
			s.keys.ForgetWork(key)
		}
	}
}

// makeDue makes all keys of slots due: those that have a document, and those that have a record alone.
func (s *sharing) makeDue(opened map[int]bool) {
	if len(opened) == 0 {
		return
	}
	for _, key := range s.primary.Keys() {
		if !opened[s.slotOf(key)] {
			continue
		}
		ops := operation.Of(operation.Resync)
		if !record.IsAnchor(s.anchors.Cached(key)) {
			ops = operation.Of(operation.Put)
		}
		s.queue.Add(key, ops, queue.Background)
	}
	for _, key := range s.primary.InvalidKeys() {
		if opened[s.slotOf(key)] {
			s.queue.Add(key, operation.Of(operation.Put), queue.Background)
		}
	}
	for key := range s.records.All() {
		if opened[s.slotOf(key)] && !s.primary.Exists(key) {
			s.queue.Add(key, operation.Owed, queue.Background)
		}
	}
}
