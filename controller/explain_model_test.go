package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// moment is when something happened. Much happens at one virtual time: the order says in which order.
type moment struct {
	at    time.Time
	order int64
}

var moments atomic.Int64

func now() moment { return moment{time.Now(), moments.Add(1)} }

func (m moment) isAfter(other moment) bool { return m.order > other.order }

// ranOnce is one call of the reconciler, as the model's reconciler and WithOnResult saw it.
type ranOnce struct {
	entered  moment
	ops      Operations
	reported moment // zero: not yet
}

// answered is an answer of Explain, and when it was asked for and given.
type answered struct {
	Explanation
	asked, given moment
}

// modelKey is one key, with all that its driver did and that became of it. One goroutine drives a key, so that what
// then happens has no other cause; others ask about it all the time.
type modelKey struct {
	*model
	key    string
	random *rand.Rand
	next   atomic.Value // string: what the reconciler does
	gate   *gate

	mu      sync.Mutex
	runs    []ranOnce
	answers []answered
	acted   []action
	broken  bool // the document does not decode
}

// action is what the driver did that causes a run, or two: a document that is mended is told as such, and as changed.
type action struct {
	at    moment
	op    Operation
	twice bool
}

// model is a controller whose keys move all the time.
type model struct {
	*world
	t     *testing.T
	sites *entity.Client[*site]
	c     *Controller[*site]
	keys  map[string]*modelKey
}

const modelKeys, modelRetry, modelRequeue = 16, 60 * time.Millisecond, 40 * time.Millisecond

func newModel(t *testing.T, seed uint64) *model {
	m := &model{world: newWorld(t), t: t, keys: map[string]*modelKey{}}
	m.sites = m.client("Site", "sites", quickCompare)
	for i := range modelKeys {
		key := siteName(i)
		m.keys[key] = &modelKey{model: m, key: key, random: rand.New(rand.NewPCG(seed, uint64(i))), gate: newGate()}
		m.keys[key].next.Store("succeeds")
	}
	c, err := New("sites", m.sites, ReconcilerFunc(func(ctx context.Context, req Request) (Result, error) {
		return m.keys[req.Key].reconcile(ctx, req)
	}), WithWorkers(4), WithResyncInterval(0), WithBackoff(modelRetry, modelRetry), shortGrace(),
		WithOnResult(func(r ReconcileResult) { m.keys[r.Key].reported() }))
	must(t, err)
	m.c = c
	return m
}

func (k *modelKey) reconcile(ctx context.Context, req Request) (Result, error) {
	k.mu.Lock()
	k.runs = append(k.runs, ranOnce{entered: now(), ops: req.Operations})
	k.mu.Unlock()
	switch k.next.Load() {
	case "fails":
		return Result{}, errUnwell
	case "parks":
		return Result{}, TerminalError(errUnwell)
	case "comes back":
		return Result{RequeueAfter: modelRequeue}, nil
	case "stays":
		return k.gate.Reconcile(ctx, req)
	}
	return Result{}, nil
}

func (k *modelKey) reported() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs[len(k.runs)-1].reported = now()
}

// count is how often the reconciler was called.
func (k *modelKey) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs)
}

func (k *modelKey) last() ranOnce {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[len(k.runs)-1]
}

// ranFor is the first run for an operation after so many runs.
func (k *modelKey) ranFor(op Operation, after int) (run ranOnce, ran bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.runs[after:], func(r ranOnce) bool { return r.ops.Has(op) })
	if i < 0 {
		return ranOnce{}, false
	}
	return k.runs[after+i], true
}

// act notes that the driver does something that may cause a run.
func (k *modelKey) act(op Operation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acted = append(k.acted, action{now(), op, k.broken})
}

// ask explains the key, and keeps the answer.
func (k *modelKey) ask() Explanation {
	a := answered{asked: now()}
	a.Explanation = k.c.Explain(k.key)
	a.given = now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers = append(k.answers, a)
	return a.Explanation
}

// becomes waits until the key is in a state.
func (k *modelKey) becomes(state KeyState) (e Explanation) {
	k.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if e = k.ask(); e.State == state {
			return e
		}
		if time.Since(began) > time.Minute {
			k.t.Errorf("%s does not become %s within %v: %+v", k.key, state, time.Minute, e)
			return e
		}
	}
}

// eventually waits for what the driver of the key waits for.
func (k *modelKey) eventually(what string, holds func() bool) {
	k.t.Helper()
	for began := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			k.t.Errorf("%s: not within %v: %s", k.key, time.Minute, what)
			return
		}
	}
}

// rests checks that a key which is in a state stays so, and has no run, as long as nobody does anything.
func (k *modelKey) rests(state KeyState) {
	k.t.Helper()
	before := k.count()
	for range 10 {
		time.Sleep(10 * time.Millisecond)
		if e := k.ask(); e.State != state {
			k.t.Errorf("%s was %s, and nobody did anything, and it is %+v", k.key, state, e)
			return
		}
	}
	if n := k.count(); n != before {
		k.t.Errorf("%s was %s, and ran %d times more", k.key, state, n-before)
	}
}

// put writes the document, with what the reconciler is to do about it.
func (k *modelKey) put(next string, suspended bool) (revision uint64) {
	k.t.Helper()
	k.next.Store(next)
	s := newSite(k.key, next)
	if suspended {
		s.Annotations = map[string]string{entity.SuspendAnnotation: "true"}
	}
	data, err := json.Marshal(s)
	if err == nil {
		k.act(OperationPut)
		revision, err = k.kv("sites").Put(k.t.Context(), k.key, data)
		k.broken = false
	}
	if err != nil {
		k.t.Error(err)
	}
	return revision
}

// settle puts the key where the next step begins: it exists, and is calm.
func (k *modelKey) settle() {
	k.t.Helper()
	revision := k.put("succeeds", false)
	k.eventually("it is calm at its new revision", func() bool {
		e := k.ask()
		return e.State == StateCalm && e.Revision == revision
	})
}

// steps are what a driver does, each with what Explain has to say, and what then has to happen.
var steps = map[string]func(k *modelKey){
	"calm": func(k *modelKey) { // an event of what was done before may be late: checkWhatHappened knows
		for range 5 {
			k.ask()
		}
	},
	"fails": func(k *modelKey) {
		k.put("fails", false)
		e := k.becomes(StateRetry)
		before := k.count()
		if e.Failures == 0 || e.Error != errUnwell.Error() || e.DueAt.IsZero() {
			k.t.Errorf("%s fails: %+v", k.key, e)
		}
		k.eventually("it is tried again", func() bool { k.ask(); return k.count() > before })
	},
	"is woken from a retry": func(k *modelKey) {
		k.put("fails", false)
		e := k.becomes(StateRetry)
		before := k.count()
		k.next.Store("succeeds")
		k.act(OperationTertiary)
		k.c.Enqueue(k.key, OperationTertiary)
		k.eventually("it runs", func() bool { return k.count() > before })
		if run := k.last(); run.entered.at.Before(e.DueAt) && run.ops.Has(OperationRetry) {
			k.t.Errorf("%s: the retry was due at %v and ran at %v", k.key, e.DueAt, run.entered.at)
		}
	},
	"parks": func(k *modelKey) {
		k.put("parks", false)
		k.becomes(StateParked)
		k.rests(StateParked)
		for _, op := range []Operation{OperationRetry, OperationResync, OperationRequeue} {
			k.c.Enqueue(k.key, op)
			for k.ask().ReadySince != (time.Time{}) {
				time.Sleep(time.Millisecond)
			}
			k.becomes(StateParked)
		}
		k.rests(StateParked)
		before := k.count()
		k.next.Store("succeeds")
		k.act(OperationManual)
		k.c.Enqueue(k.key, OperationManual)
		k.eventually("Manual wakes it", func() bool { return k.count() > before })
	},
	"is woken by an event": func(k *modelKey) {
		k.put("parks", false)
		k.becomes(StateParked)
		before := k.count()
		k.next.Store("succeeds")
		k.act(OperationSecondary)
		k.c.Enqueue(k.key, OperationSecondary)
		if e := k.ask(); e.State == StateParked && (e.DueAt.IsZero() || !e.Parked) && e.ReadySince.IsZero() &&
			k.count() == before {
			k.t.Errorf("%s was asked for, and it rests: %+v", k.key, e)
		}
		k.eventually("an event wakes it", func() bool { k.ask(); return k.count() > before })
	},
	"comes back": func(k *modelKey) {
		k.put("comes back", false)
		k.becomes(StateRequeue)
		before := k.count()
		k.eventually("it is called again", func() bool { k.ask(); return k.count() > before })
	},
	"somebody asks for later": func(k *modelKey) {
		before := k.count()
		k.act(OperationExternal)
		k.c.EnqueueAfter(k.key, OperationExternal, 30*time.Millisecond)
		e := k.ask()
		var run ranOnce
		k.eventually("it runs", func() (ran bool) {
			k.ask()
			run, ran = k.ranFor(OperationExternal, before)
			return ran
		})
		if run.entered.at.Before(e.UserDueAt) {
			k.t.Errorf("%s: due at %v, ran at %v", k.key, e.UserDueAt, run.entered.at)
		}
	},
	"is invalid": func(k *modelKey) {
		k.act(OperationPut)
		if _, err := k.kv("sites").Put(k.t.Context(), k.key, []byte(brokenSite)); err != nil {
			k.t.Error(err)
		}
		e := k.becomes(StateInvalid)
		if e.Invalid == nil || e.Invalid.Path != "spec.pages" {
			k.t.Errorf("%s is invalid: %+v", k.key, e)
		}
		k.rests(StateInvalid)
		k.broken = true
	},
	"is suspended": func(k *modelKey) {
		k.put("succeeds", true)
		k.becomes(StateSuspended)
		k.rests(StateSuspended)
	},
	"runs": func(k *modelKey) {
		k.put("stays", false)
		entered := k.gate.entered
		select {
		case <-entered:
		case <-time.After(time.Minute):
			k.t.Errorf("%s does not run", k.key)
			return
		}
		k.becomes(StateRunning)
		k.next.Store("succeeds")
		k.act(OperationManual)
		k.c.Enqueue(k.key, OperationManual)
		if e := k.ask(); e.State != StateRunning || e.ReadySince.IsZero() {
			k.t.Errorf("%s runs and is due again: %+v", k.key, e)
		}
		k.gate.leave <- nil
	},
	"is deleted": func(k *modelKey) {
		k.next.Store("succeeds")
		k.act(OperationResync) // if the end of its record is told when it exists again
		k.act(OperationDelete)
		if err := k.kv("sites").Delete(k.t.Context(), k.key); err != nil {
			k.t.Error(err)
		}
		k.becomes(StateUnknown)
		k.knowsTheEnd()
		k.rests(StateUnknown)
	},
}

// knowsTheEnd waits until the cache has what became of the record: its delete may be known from its writer before.
func (k *modelKey) knowsTheEnd() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	stream, err := k.js.Stream(ctx, "KV_sites-status")
	if err != nil {
		k.t.Error(err)
		return
	}
	last, err := stream.GetLastMsgForSubject(ctx, "$KV.sites-status."+k.key)
	if err == nil {
		err = k.sites.Records().Informer().WaitCursor(ctx, last.Sequence)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		k.t.Errorf("%s: the end of its record is not known: %v", k.key, err)
	}
}

// checkAnswer checks what must be true of each answer by itself.
func (k *modelKey) checkAnswer(a *answered) {
	bad := func(what string) { k.t.Errorf("%s: %s: %+v", k.key, what, a.Explanation) }
	switch a.State {
	case StateCalm:
		if a.ReconciledRevision != a.Revision || a.Failures > 0 || !a.ReadySince.IsZero() || !a.DueAt.IsZero() {
			bad("calm, and not")
		}
	case StateRetry:
		if a.Failures == 0 || a.DueAt.IsZero() || a.Error == "" {
			bad("a retry of nothing")
		}
	case StateReady:
		if a.ReadySince.IsZero() || a.ReadySince.After(a.given.at) || a.Reasons == "" || a.Priority == "" {
			bad("ready since nothing")
		}
	case StateRunning:
		if a.RunningSince.IsZero() || a.RunningSince.After(a.given.at) || a.Attempt == 0 {
			bad("runs since nothing")
		}
	case StateParked:
		if !a.Parked || a.Error == "" {
			bad("parked without a reason")
		}
	}
	if a.Says == "" {
		bad("says nothing")
	}
	if _, err := json.Marshal(a.Explanation); err != nil {
		bad(err.Error())
	}
}

// checkWhatHappened compares the answers with the runs.
func (k *modelKey) checkWhatHappened() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.answers {
		a := &k.answers[i]
		k.checkAnswer(a)
		if a.State == StateRunning {
			k.checkRunning(a)
			continue
		}
		j := slices.IndexFunc(k.runs, func(r ranOnce) bool { return r.entered.isAfter(a.asked) })
		if j < 0 || a.given.isAfter(k.runs[j].entered) { // nobody knows whether it was the answer before or after
			continue
		}
		next := &k.runs[j]
		switch a.State {
		case StateRetry, StateRequeue:
			delayed := next.ops.Has(OperationRetry) || next.ops.Has(OperationRequeue)
			if delayed && next.entered.at.Before(a.DueAt) {
				k.t.Errorf("%s: said to be due at %v, and ran at %v for %v", k.key, a.DueAt, next.entered.at, next.ops)
			}
		case StateCalm, StateParked, StateSuspended, StateInvalid:
			if !k.caused(next) {
				k.t.Errorf("%s was %s at %v and ran at %v for %v, and nobody had done anything: %s", k.key, a.State,
					a.given.at, next.entered.at, next.ops, k.around(a.given, next.entered))
				return
			}
		}
	}
}

// around lists what happened at about that time.
func (k *modelKey) around(from, to moment) string {
	var lines []string
	add := func(m moment, format string, args ...any) {
		if m.at.After(from.at.Add(-time.Second)) && m.at.Before(to.at.Add(time.Second/10)) {
			lines = append(lines, fmt.Sprintf("\n\t%s %8d %s", m.at.Format("05.000000"), m.order,
				fmt.Sprintf(format, args...)))
		}
	}
	for _, did := range k.acted {
		add(did.at, "the driver did %v, twice=%v", did.op, did.twice)
	}
	for i := range k.runs {
		add(k.runs[i].entered, "it ran for %v until %s", k.runs[i].ops, k.runs[i].reported.at.Format("05.000000"))
	}
	for i := range k.answers {
		if a := &k.answers[i]; i == 0 || a.State != k.answers[i-1].State || a.Revision != k.answers[i-1].Revision {
			add(a.given, "it was %s at revision %d for %s", a.State, a.Revision, a.Reasons)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// caused reports whether the driver did something of which no earlier run came. What it did last may have been handled
// with what it did before, or each by itself.
func (k *modelKey) caused(run *ranOnce) bool {
	before := slices.IndexFunc(k.acted, func(did action) bool { return did.at.isAfter(run.entered) })
	if before < 0 {
		before = len(k.acted)
	}
	for i := max(0, before-4); i < before; i++ { // what came earlier has had its runs
		first, causes, earlier := k.acted[i], 0, 0
		for _, did := range k.acted[i:] {
			if run.entered.isAfter(did.at) && run.ops.Has(did.op) {
				causes++
				if did.twice {
					causes++
				}
			}
		}
		for j := range k.runs {
			r := &k.runs[j]
			if delayed := r.ops.Has(OperationRetry) || r.ops.Has(OperationRequeue); !delayed && r.ops.Has(first.op) &&
				r.entered.isAfter(first.at) && run.entered.isAfter(r.entered) {
				earlier++
			}
		}
		if run.ops.Has(first.op) && earlier < causes {
			return true
		}
	}
	return false
}

// checkRunning: the reconciler was entered, and had not returned before it was asked.
func (k *modelKey) checkRunning(a *answered) {
	entered := false
	for _, run := range k.runs {
		if run.entered.at.Before(a.RunningSince) {
			continue
		}
		if entered = true; run.reported.order == 0 || run.reported.isAfter(a.asked) {
			return
		}
	}
	k.t.Errorf("%s: said to run since %v; that the reconciler was entered is %v, and it had returned", k.key,
		a.RunningSince, entered)
}

// TestExplainIsRightWhileEverythingMoves: sixteen keys are driven through all that may become of a key, and asked about
// all the time. What is said is compared with what then happens.
func TestExplainIsRightWhileEverythingMoves(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		if s := os.Getenv("NAGI_MODEL_SEED"); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			must(t, err)
			seed = n
		}
		t.Logf("NAGI_MODEL_SEED=%d", seed)
		m := newModel(t, seed)
		m.run(m.c)
		natstest.Eventually(t, "it leads", func() bool { return m.c.Stats().Leading })
		done := make(chan struct{})
		var asking, driving sync.WaitGroup
		asking.Go(func() { m.watch(done) })
		for _, k := range m.keys {
			asking.Go(func() { k.askOn(done) })
			driving.Go(func() { k.drive(8 * soak()) })
		}
		driving.Wait()
		close(done)
		asking.Wait()
		if !t.Failed() {
			m.brakes()
		}
		for _, k := range m.keys {
			k.checkWhatHappened()
		}
	})
}

// drive takes the key through so many steps.
func (k *modelKey) drive(n int) {
	names := make([]string, 0, len(steps))
	for name := range steps {
		names = append(names, name)
	}
	for range n {
		k.settle()
		name := names[k.random.IntN(len(names))]
		steps[name](k)
		if k.t.Failed() {
			k.t.Logf("%s: the last step was %q", k.key, name)
			return
		}
	}
	k.settle()
}

// askOn asks about the key until all is done.
func (k *modelKey) askOn(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
			k.ask()
		}
	}
}

// watch iterates over all keys until all is done.
func (m *model) watch(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		last := ""
		for e := range m.c.Keys() {
			if e.Key <= last || m.keys[e.Key] == nil {
				m.t.Errorf("Keys has %q after %q", e.Key, last)
			}
			last = e.Key
		}
	}
}

// brakes has all documents vanish, some come back, and the rest go.
func (m *model) brakes() {
	m.emptied("sites")
	for _, k := range m.keys {
		k.becomes(StateHeld)
	}
	for _, k := range m.keys {
		k.rests(StateHeld)
	}
	back := m.keys[siteName(3)]
	back.settle()
	for _, k := range m.keys {
		if k != back {
			k.rests(StateHeld)
		}
		k.act(OperationDelete)
	}
	must(m.t, m.c.ReleaseBrake(m.t.Context()))
	for _, k := range m.keys {
		if k != back {
			k.becomes(StateUnknown)
		}
	}
}
