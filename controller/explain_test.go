package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/test/natstest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// explained waits until a key is in a state, and returns the answer.
func explained(t *testing.T, c *Controller[*site], key string, state KeyState) (e Explanation) {
	t.Helper()
	var last Explanation
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %+v", last)
		}
	}()
	natstest.Eventually(t, fmt.Sprintf("%q is %s", key, state), func() bool {
		last = c.Explain(key)
		e = last
		return e.State == state
	})
	return e
}

// sometime stands for a time that is set, in what a test wants.
var sometime = time.Unix(1, 0)

// times are as sentences have them.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// plain is an answer without what differs from one run to the next: a time that is set is sometime, and of who leads it
// says whether that is known.
func plain(e Explanation) Explanation {
	for _, at := range []*time.Time{
		&e.Since, &e.ReadySince, &e.RunningSince, &e.DueAt, &e.UserDueAt, &e.FailingSince, &e.ReconciledAt,
	} {
		if !at.IsZero() {
			*at = sometime
		}
	}
	if e.Leader != "" {
		e.Leader = "known"
	}
	if e.Invalid != nil {
		invalid := *e.Invalid
		invalid.Stream = ""
		e.Invalid = &invalid
	}
	e.WokenBy = ""
	e.Outside = nil // outside_test.go
	e.Missing = nil // TestExplainNamesTheSourcesWhoseNewsIsMissing
	e.Says, _, _ = strings.Cut(times.ReplaceAllString(e.Says, "T"), " The news of ")
	return e
}

// wantExplained compares a whole answer, WokenBy apart, which must say something where wokenBy is true.
func wantExplained(t *testing.T, got Explanation, wokenBy bool, want Explanation) {
	t.Helper()
	if (got.WokenBy != "") != wokenBy {
		t.Errorf("%s: woken by %q", got.State, got.WokenBy)
	}
	is, err := json.MarshalIndent(plain(got), "", " ")
	must(t, err)
	wanted, err := json.MarshalIndent(plain(want), "", " ")
	must(t, err)
	if string(is) != string(wanted) {
		t.Errorf("%s: explained as\n%s\nwant\n%s", got.State, is, wanted)
	}
}

// cachedRevision is the revision of a document in the cache.
func cachedRevision(c *Controller[*site], key string) uint64 {
	item, exists, err := c.client.Informer().GetStore().GetByKey(key)
	if err != nil || !exists {
		return 0
	}
	return uint64(item.(*site).Generation)
}

// effort is how long a reconcile takes that has to be seen to take time.
const effort = 3 * time.Millisecond

// laborious reconciles as f does, with some effort.
func laborious(f ReconcilerFunc) ReconcilerFunc {
	return func(ctx context.Context, req Request) (Result, error) {
		time.Sleep(effort)
		return f(ctx, req)
	}
}

// scripted is a reconciler that does what the title of the document says.
func scripted(sites *entity.Client[*site], g *gate) ReconcilerFunc {
	return laborious(func(ctx context.Context, req Request) (Result, error) {
		s, err := sites.Lister().Get(req.Key)
		if err != nil {
			return Result{}, err
		}
		switch s.Spec.Title {
		case "fails":
			return Result{}, errUnwell
		case "parks":
			return Result{}, TerminalError(errUnwell)
		case "comes back":
			return Result{RequeueAfter: time.Hour}, nil
		case "runs":
			return g.Reconcile(ctx, req)
		}
		return Result{}, nil
	})
}

// TestExplainSaysWhatAKeyDoes, with all that there is to say, in the states that need no other system.
func TestExplainSaysWhatAKeyDoes(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		w := newWorld(t)
		sites, g := w.sites(), newGate()
		c, err := New("sites", sites, scripted(sites, g), WithWorkers(1), WithResyncInterval(0), shortGrace(),
			WithBackoff(time.Hour, time.Hour))
		must(t, err)
		wantExplained(t, c.Explain("home"), false, Explanation{Key: "home", State: StateStopped,
			Says: "The controller does not run here; nothing is done about any key."})
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		create := func(key, title string) uint64 {
			must(t, sites.Create(ctx, newSite(key, title)))
			natstest.Eventually(t, key+" is known", func() bool { return cachedRevision(c, key) > 0 })
			return cachedRevision(c, key)
		}

		wantExplained(t, c.Explain("a b"), false, Explanation{Key: "a b", State: StateMalformed,
			Says: "No document of this bucket can have such a key; nothing is done about it."})
		wantExplained(t, c.Explain("nobody"), false, Explanation{Key: "nobody", State: StateUnknown, Leading: true,
			Leader: "known", Says: "There is neither a document nor a record of this key, and nothing is due."})

		n := create("calm", "one")
		wantExplained(t, explained(t, c, "calm", StateCalm), true, Explanation{
			Key: "calm", State: StateCalm, Since: sometime, Revision: n, Leading: true, Leader: "known",
			Recorded: entity.ReasonSynced, ReconciledRevision: n, ReconciledAt: sometime, Took: effort,
			Says: fmt.Sprintf("It is as it should be: nothing is due; revision %d is reconciled.", n)})

		n = create("fails", "fails")
		wantExplained(t, explained(t, c, "fails", StateRetry), true, Explanation{
			Key: "fails", State: StateRetry, Since: sometime, Revision: n, Reasons: "Put|Retry", DueAt: sometime,
			Failures: 1, Error: errUnwell.Error(), FailingSince: sometime, Leading: true, Leader: "known",
			Recorded: entity.ReasonRetrying, ReconciledAt: sometime,
			Says: "It failed once, and is tried again at T: the world is unwell."})
		if due := c.Explain("fails").DueAt; time.Until(due) < 30*time.Minute || time.Until(due) > 2*time.Hour {
			t.Errorf("a retry after an hour is due at %v", due)
		}

		n = create("parks", "parks")
		wantExplained(t, explained(t, c, "parks", StateParked), true, Explanation{
			Key: "parks", State: StateParked, Since: sometime, Revision: n, Parked: true, ParkedRevision: n,
			Error: "terminal error: the world is unwell", FailingSince: sometime, Leading: true, Leader: "known",
			Recorded: entity.ReasonTerminal, ReconciledAt: sometime,
			Says: fmt.Sprintf("The reconcile of revision %d failed for good: terminal error: the world is unwell.", n)})

		n = create("requeue", "comes back")
		c.EnqueueAfter("requeue", OperationManual, 2*time.Hour)
		wantExplained(t, explained(t, c, "requeue", StateRequeue), true, Explanation{
			Key: "requeue", State: StateRequeue, Since: sometime, Revision: n, Reasons: "Requeue", DueAt: sometime,
			UserDueAt: sometime, Leading: true, Leader: "known", Recorded: entity.ReasonSynced, ReconciledRevision: n,
			ReconciledAt: sometime, Took: effort,
			Says: "Its last reconcile asked to be called again at T. Somebody asked for it at T, too."})

		n = create("delayed", "one")
		explained(t, c, "delayed", StateCalm)
		c.EnqueueAfter("delayed", OperationManual, time.Hour)
		wantExplained(t, c.Explain("delayed"), true, Explanation{
			Key: "delayed", State: StateDelayed, Since: sometime, Revision: n, UserDueAt: sometime, Leading: true,
			Leader: "known", Recorded: entity.ReasonSynced, ReconciledRevision: n, ReconciledAt: sometime, Took: effort,
			Says: "Somebody asked for it with EnqueueAfter: it is due at T."})

		s := newSite("suspended", "one")
		s.Annotations = map[string]string{entity.SuspendAnnotation: "true"}
		must(t, sites.Create(ctx, s))
		eventuallyReason(t, sites, "suspended", entity.ReasonSuspended)
		atRest(t, c)
		n = cachedRevision(c, "suspended")
		wantExplained(t, explained(t, c, "suspended", StateSuspended), true, Explanation{
			Key: "suspended", State: StateSuspended, Since: sometime, Revision: n, Suspended: true, Leading: true,
			Leader: "known", Recorded: entity.ReasonSuspended, ReconciledAt: sometime,
			Says: "Its document asks not to be reconciled (annotation nagi/suspend)."})

		n, err = w.kv("sites").Put(ctx, "broken", []byte(brokenSite))
		must(t, err)
		eventuallyReason(t, sites, "broken", entity.ReasonInvalid)
		atRest(t, c)
		e := explained(t, c, "broken", StateInvalid)
		wantExplained(t, e, true, Explanation{
			Key: "broken", State: StateInvalid, Since: sometime, Leading: true, Leader: "known",
			Invalid:  &entity.InvalidDocument{Revision: n, Path: "spec.pages", Line: 3, Column: 14, Reason: e.Invalid.Reason},
			Recorded: entity.ReasonInvalid, ReconciledAt: sometime,
			Says: fmt.Sprintf("Revision %d is invalid: spec.pages: %s. It is not reconciled until that is mended.", n,
				e.Invalid.Reason)})
		if all := fmt.Sprintf("%+v %+v", e, e.Invalid); strings.Contains(all, "SECRET") || e.Invalid.Reason == "" {
			t.Errorf("what is invalid: %s", all)
		}

		n = create("runs", "runs")
		g.enter(t)
		wantExplained(t, explained(t, c, "runs", StateRunning), false, Explanation{
			Key: "runs", State: StateRunning, Since: sometime, Revision: n, RunningSince: sometime, Attempt: 1,
			Leading: true, Leader: "known", Says: "The reconciler runs since T, attempt 1."})
		c.Enqueue("runs", OperationManual)
		wantExplained(t, c.Explain("runs"), false, Explanation{
			Key: "runs", State: StateRunning, Since: sometime, Revision: n, RunningSince: sometime, Attempt: 1,
			Priority: "live", Reasons: "Manual", ReadySince: sometime, Leading: true, Leader: "known",
			Says: "The reconciler runs since T, attempt 1. It is due again, because of Manual."})

		// the one worker is busy
		c.Enqueue("calm", OperationManual)
		n = cachedRevision(c, "calm")
		wantExplained(t, c.Explain("calm"), false, Explanation{
			Key: "calm", State: StateReady, Since: sometime, Revision: n, Priority: "live", Reasons: "Manual",
			ReadySince: sometime, Leading: true, Leader: "known", Recorded: entity.ReasonSynced, ReconciledRevision: n,
			ReconciledAt: sometime, Took: effort, Says: "It waits for a worker since T (priority live), because of Manual."})

		var parked []string
		for e := range c.Keys(StateParked, StateRetry) {
			parked = append(parked, e.Key)
		}
		if want := []string{"fails", "parks"}; !slices.Equal(parked, want) {
			t.Errorf("parked or waiting for a retry: %v, want %v", parked, want)
		}
		var all []string
		for e := range c.Keys() {
			all = append(all, e.Key)
		}
		if want := []string{"broken", "calm", "delayed", "fails", "parks", "requeue", "runs", "suspended"}; !slices.Equal(
			all, want) {
			t.Errorf("all keys: %v, want %v", all, want)
		}
		var rest []string
		for e := range c.KeysAfter("parks") {
			rest = append(rest, e.Key)
		}
		if want := all[5:]; !slices.Equal(rest, want) {
			t.Errorf("keys after parks: %v, want %v", rest, want)
		}
		if top := c.TopKeys(1, nil); len(top) != 1 {
			t.Errorf("without an order: %+v", top)
		}
		if top := c.TopKeys(1, MostFailingFirst); len(top) != 1 || top[0].Key != "fails" {
			t.Errorf("the most failing: %+v", top)
		}
		close(g.leave)
	})
}

// atRest waits until no key is ready or in progress.
func atRest(t *testing.T, c *Controller[*site]) {
	t.Helper()
	natstest.Eventually(t, "nothing is ready or in progress", func() bool {
		n := c.engine.QueueCounts()
		return n.Ready == [queue.Bands]int{} && n.InProgress == 0
	})
}

func TestExplainSaysThatAKeyHasToBeQuietFirst(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, new(calls).reconciler(nil), WithDebounce(time.Hour, 2*time.Hour))
		must(t, err)
		w.run(c)
		natstest.Eventually(t, "it leads", func() bool { return c.Stats().Leading })
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		wantExplained(t, explained(t, c, "home", StateDebounced), true, Explanation{
			Key: "home", State: StateDebounced, Since: sometime, Revision: cachedRevision(c, "home"), Reasons: "Put",
			DueAt: sometime, Leading: true, Leader: "known",
			Says: "It has changed, and is reconciled at T unless it changes again before."})
	})
}

func TestExplainSaysThatNothingIsDueOfWhatAPredicateHeldBack(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, laborious(new(calls).reconciler(nil).Reconcile), WithPrimary(WithPredicate(
			ObjectPredicate(func(obj metav1.Object) bool { return obj.(*site).Spec.Title != "quietly" }))))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "one")))
		before := explained(t, c, "home", StateCalm).Revision
		must(t, sites.Patch(t.Context(), "home", []byte(`{"spec":{"title":"quietly"}}`)))
		e := explained(t, c, "home", StateUnreconciled)
		wantExplained(t, e, false, Explanation{
			Key: "home", State: StateUnreconciled, Revision: before + 1, Leading: true, Leader: "known",
			Recorded: entity.ReasonSynced, ReconciledRevision: before, ReconciledAt: sometime, Took: effort,
			Says: fmt.Sprintf("Revision %d was not reconciled, and nothing is due: its event is on the way, or a "+
				"predicate held it back.", before+1)})
	})
}

// TestExplainTellsNothingOfWhoHasTheName that a key wants, and the condition of its record does.
func TestExplainTellsNothingOfWhoHasTheName(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), w.pages()
		must(t, pages.Create(t.Context(), foreignPage("home", "elsewhere")))
		outcome := make(chan error, 10)
		c, err := New("sites", sites, homePage(pages, outcome), Owns(pages), WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		must(t, sites.Create(t.Context(), newSite("other", "")))
		e := explained(t, c, "home", StateName)
		wantExplained(t, e, true, Explanation{
			Key: "home", State: StateName, Since: sometime, Revision: e.Revision, Reasons: "Put|Retry", DueAt: sometime,
			Failures: 1, FailingSince: sometime,
			Error:       `create or update Page "home": a name that it wants is somebody else's; use another name`,
			AwaitsNames: []string{`Owns Page (bucket pages) "home"`}, Leading: true, Leader: "known",
			Recorded: entity.ReasonRetrying, RecordedMessage: "waits for a name that somebody else has",
			ReconciledAt: sometime,
			Says: "It wants a name that somebody else has, and is tried again at T. It failed once: create or update " +
				`Page "home": a name that it wants is somebody else's; use another name.`})
		all := fmt.Sprintf("%+v", e)
		if told := condition(t, sites, "home").Message; !strings.Contains(told, "elsewhere") {
			t.Errorf("the condition names nobody, so this test has lost its subject: %s", told)
		}
		for _, secret := range []string{"elsewhere", "another-installation"} {
			if strings.Contains(all, secret) {
				t.Errorf("the answer has %q: %s", secret, all)
			}
		}
		must(t, pages.Delete(t.Context(), "home"))
		explained(t, c, "home", StateCalm)
	})
}

// TestExplainSaysThatAKeyWaitsForItsOwnWrites, which a cache that is cut off does not show.
func TestExplainSaysThatAKeyWaitsForItsOwnWrites(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		proxy := natstest.StartProxy(t, w.server.URL())
		_, w.js = natstest.Connect(t, proxy.URL())
		sites, pages := w.sites(), w.pages()
		var seen calls
		c, err := New("sites", sites, seen.reconciler(laborious(func(ctx context.Context, req Request) (Result, error) {
			if seen.count(req.Key) > 1 {
				return Result{}, nil
			}
			proxy.Tamper(func(m *natstest.Message) (fate natstest.Fate) {
				fate.Lost = m.Direction == natstest.FromServer && strings.HasPrefix(m.Subject, "$KV.pages.")
				return fate
			})
			return Result{RequeueAfter: 1}, pages.Create(ctx, newPage("p", ""))
		})), Watches(pages, func(context.Context, *page) ([]string, error) { return nil, nil }))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("home", "")))
		e := explained(t, c, "home", StateOwnWrites)
		wantExplained(t, e, true, Explanation{
			Key: "home", State: StateOwnWrites, Since: sometime, Revision: e.Revision, Reasons: "Requeue", DueAt: sometime,
			AwaitsWrites: true, Leading: true, Leader: "known", Recorded: entity.ReasonSynced,
			ReconciledRevision: e.Revision, ReconciledAt: sometime, Took: effort,
			Says: "It waits since T until the caches show what its last reconcile wrote."})
		explained(t, c, "home", StateCalm)
	})
}

func TestExplainSaysWhichAPIAKeyWaitsFor(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newCloudWorld(t, withInterval(notInATest), nil)
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		w.cloud.GoAway(false)
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		natstest.Eventually(t, "it waits", func() bool { return w.c.Stats().External["Disk"].Waiting == 1 })
		atRest(t, w.c)
		e := explained(t, w.c, "home", StateAPI)
		wantExplained(t, e, true, Explanation{
			Key: "home", State: StateAPI, Since: sometime, Revision: e.Revision, AwaitsAPI: "Disk", Leading: true,
			Leader: "known", Recorded: entity.ReasonRetrying,
			RecordedMessage: "waits for the API of Disk, which is away", ReconciledAt: sometime,
			Says: "It waits since T for the API of Disk, which is away."})
		var waiting []string
		for e := range w.c.Keys(StateAPI) {
			waiting = append(waiting, e.Key)
		}
		if !slices.Equal(waiting, []string{"home"}) {
			t.Errorf("keys that wait for an API: %v", waiting)
		}
		w.cloud.ComeBack()
		if e := explained(t, w.c, "home", StateCalm); e.AwaitsAPI != "" {
			t.Errorf("it waits for %s still", e.AwaitsAPI)
		}
	})
}

// TestExplainSaysThatAKeyWaitsForItsTurn under a rate limit.
func TestExplainSaysThatAKeyWaitsForItsTurn(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		config := withInterval(notInATest)
		config.Rate, config.Burst = 0.01, 1 // the first list takes the one there is
		w := newCloudWorld(t, config, nil, WithGracePeriod(time.Second))
		w.run(w.c)
		natstest.Eventually(t, "it leads", func() bool { return w.c.Stats().Leading })
		must(t, w.sites.Create(t.Context(), sized("home", 1)))
		eventuallyReason(t, w.sites, "home", entity.ReasonRetrying)
		e := explained(t, w.c, "home", StateTurn)
		wantExplained(t, e, true, Explanation{
			Key: "home", State: StateTurn, Since: sometime, Revision: e.Revision, Reasons: "Put|Retry", DueAt: sometime,
			AwaitsTurn: "Disk", Leading: true, Leader: "known", Recorded: entity.ReasonRetrying,
			RecordedMessage: "waits for a turn at the API of Disk, whose rate is limited", ReconciledAt: sometime,
			Says: "It waits for a turn at the API of Disk, whose rate is limited, until T."})
	})
}

// TestExplainSaysWhatIsStillThereOfATeardown: when deletes fail, and when the reconciler is not done.
func TestExplainSaysWhatIsStillThereOfATeardown(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites, pages := w.sites(), &hooked{Client: w.pages()}
		pages.onDelete = func(string, func() error) error { return errors.New("no rights") }
		var wait atomic.Bool
		wait.Store(true)
		reconcile := pagesOf(sites, pages)
		c, err := New("sites", sites, laborious(func(ctx context.Context, req Request) (Result, error) {
			if req.Operations.Has(OperationDelete) && wait.Load() {
				return Result{RequeueAfter: time.Hour}, nil
			}
			return reconcile(ctx, req)
		}), Owns(pages), WithBackoff(time.Hour, time.Hour), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), siteWithPages("home", 1)))
		n := explained(t, c, "home", StateCalm).Revision
		must(t, sites.Delete(t.Context(), "home"))
		natstest.Eventually(t, "its event has come", func() bool { return !c.Explain("home").DueAt.IsZero() })
		e := explained(t, c, "home", StateDeleting)
		if len(e.StillThere) != 1 {
			t.Fatalf("still there: %v", e.StillThere)
		}
		wantExplained(t, e, true, Explanation{
			Key: "home", State: StateDeleting, Since: sometime, Reasons: "Delete|Requeue", DueAt: sometime, Deleting: true,
			StillThere: e.StillThere, StillThereAll: 1, Leading: true, Leader: "known", Recorded: entity.ReasonRetrying,
			RecordedMessage:    "waits for the reconciler, which is not done and asked to be called again",
			ReconciledRevision: n, ReconciledAt: sometime, Took: effort,
			Says: "Its document is gone, and its teardown goes on; of what it owned 1 are still there, such as " +
				e.StillThere[0] + "."})
		wait.Store(false)
		c.Enqueue("home", OperationDelete)
		e = explained(t, c, "home", StateRetry)
		if !e.Deleting || e.StillThereAll != 1 || !strings.Contains(e.Error, "no rights") || e.Failures != 1 {
			t.Errorf("a teardown that fails: %+v", e)
		}
		var going []string
		for e := range c.Keys() {
			going = append(going, e.Key)
		}
		if !slices.Equal(going, []string{"home"}) {
			t.Errorf("all keys: %v", going)
		}
		pages.hook(func() { pages.onDelete = nil })
		c.Enqueue("home", OperationDelete)
		explained(t, c, "home", StateUnknown)
	})
}

func TestExplainSaysWhatTheBrakeHolds(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		m := newWorld(t).filled()
		key := siteName(3)
		n := m.c.Explain(key).ReconciledRevision
		m.emptied("sites")
		m.holds(many)
		e := explained(t, m.c, key, StateHeld)
		e.StillThere = nil // its page
		wantExplained(t, e, true, Explanation{
			Key: key, State: StateHeld, Since: sometime, Held: true, Deleting: true, StillThereAll: 1, Leading: true,
			Leader: "known", Recorded: entity.ReasonSynced, ReconciledRevision: n, ReconciledAt: sometime,
			Says: "Its delete was not seen, and the brake holds it. Put the document back, and it is as before; a release " +
				"of the brake deletes what it owns. " +
				e.Says[strings.Index(e.Says, "Its document is gone"):]})
		held := 0
		for range m.c.Keys(StateHeld) {
			held++
		}
		if held != many {
			t.Errorf("%d keys are held, want %d", held, many)
		}
		must(t, m.c.ReleaseBrake(t.Context()))
		m.tornDown()
		explained(t, m.c, key, StateUnknown)
	})
}

// TestWhatHasNothingButAnUnreadableRecordIsListed: its document is gone, and the process is a new one.
func TestWhatHasNothingButAnUnreadableRecordIsListed(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		must(t, sites.Create(t.Context(), siteWithPages("calm", 0)))
		w.put("sites-status", "gone", `garbage`)
		c, err := New("sites", sites, scripted(sites, newGate()), WithResyncInterval(0))
		must(t, err)
		w.run(c)
		explained(t, c, "gone", StateUnreadable)
		for _, states := range [][]KeyState{{StateUnreadable}, {StateUnreadable, StateParked}, nil} {
			keys := map[string]KeyState{}
			for e := range c.Keys(states...) {
				keys[e.Key] = e.State
			}
			delete(keys, "calm")
			if len(keys) != 1 || keys["gone"] != StateUnreadable {
				t.Errorf("in the states %v are %v", states, keys)
			}
		}
		must(t, w.kv("sites-status").Delete(t.Context(), "gone"))
		explained(t, c, "gone", StateUnknown)
		for e := range c.Keys(StateUnreadable) {
			t.Errorf("%s is mended, and listed as %s", e.Key, e.State)
		}
	})
}

// TestExplainOfAReplicaThatWaitsNamesWhoLeads, and says what it knows from the records.
func TestExplainOfAReplicaThatWaitsNamesWhoLeads(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		first, err := New("sites", sites, scripted(sites, newGate()), WithResyncInterval(0), slowRenewal)
		must(t, err)
		w.run(first)
		must(t, sites.Create(t.Context(), newSite("home", "parks")))
		n := explained(t, first, "home", StateParked).Revision
		ours := w.away().sites()
		second, err := New("sites", ours, new(calls).reconciler(nil), WithResyncInterval(0), slowRenewal)
		must(t, err)
		w.run(second)
		leader := w.lease().HolderIdentity
		natstest.Eventually(t, "it knows who leads", func() bool {
			e := second.Explain("home")
			return e.Leader == leader && e.State == StateStandby && e.Recorded == entity.ReasonTerminal
		})
		if e := first.Explain("home"); e.Leader != leader || !e.Leading {
			t.Errorf("who leads knows of %q, want %q", e.Leader, leader)
		}
		e := second.Explain("home")
		wantExplained(t, e, false, Explanation{
			Key: "home", State: StateStandby, Revision: n, Leader: "known", Priority: "background", Reasons: "Put",
			ReadySince: sometime, Recorded: entity.ReasonTerminal, ReconciledAt: sometime,
			Says: "This replica waits for the lease, which " + leader + " holds. Ask the replica that leads."})
		if e := second.Explain("nobody"); e.State != StateUnknown || e.Leading {
			t.Errorf("a key that nobody knows: %+v", e)
		}
		w.leaseTo("somebody", 5*time.Minute)
		natstest.Eventually(t, "both know who leads now", func() bool {
			return first.Explain("home").Leader == "somebody" && second.Explain("home").Leader == "somebody" &&
				first.Explain("home").State == StateStandby
		})
	})
}

// TestAReplicaThatLostTheLeaseSaysNothingOfItsOldFailures: the one that leads has its own.
func TestAReplicaThatLostTheLeaseSaysNothingOfItsOldFailures(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sites := w.sites()
		c, err := New("sites", sites, scripted(sites, newGate()), WithResyncInterval(0), slowRenewal,
			WithBackoff(time.Hour, time.Hour))
		must(t, err)
		w.run(c)
		must(t, sites.Create(t.Context(), newSite("parked", "parks")))
		must(t, sites.Create(t.Context(), newSite("failing", "fails")))
		explained(t, c, "parked", StateParked)
		explained(t, c, "failing", StateRetry)
		if s := c.Stats(); s.Parked != 1 || s.Failing != 1 {
			t.Errorf("while it leads %d keys are parked and %d fail", s.Parked, s.Failing)
		}
		w.leaseTo("somebody", 5*time.Minute)
		keys := []string{"parked", "failing"}
		natstest.Eventually(t, "it knows who leads now, and its term is over", func() bool { // in this order
			for _, key := range keys {
				if e := c.Explain(key); e.Leader != "somebody" || e.State != StateStandby {
					return false
				}
			}
			return !c.Stats().Leading
		})
		if s := c.Stats(); s.Parked+s.Failing+s.Looping+s.TeardownsOwed > 0 {
			t.Errorf("%d keys are parked and %d fail", s.Parked, s.Failing)
		}
		const says = "This replica waits for the lease, which somebody holds. Ask the replica that leads."
		for _, key := range keys {
			e := c.Explain(key)
			if e.State != StateStandby || e.Failures > 0 || e.Parked || e.Error != "" || !e.FailingSince.IsZero() ||
				e.Says != says {
				t.Errorf("%s is explained as %+v", key, e)
			}
		}
		w.leaseTo("", time.Second)
		explained(t, c, "parked", StateParked)
		if s := c.Stats(); s.Parked != 1 {
			t.Errorf("when it leads again %d keys are parked", s.Parked)
		}
	})
}
