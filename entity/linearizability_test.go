package entity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The history of one key. All its values are different: the state is the value, "" for no document.
type operation string

const (
	opGet    operation = "get"
	opCreate operation = "create"
	opUpdate operation = "update" // of the value that was read
	opPatch  operation = "patch"  // blind
	opDelete operation = "delete" // blind
)

type input struct {
	key   string
	op    operation
	base  string // the value an update is based on
	value string
}

type outcome string

const (
	done     outcome = "done"
	refused  outcome = "refused" // conflict, exists, or not found: nothing was written
	unknown  outcome = "unknown"
	notAsked outcome = "not asked"
)

type output struct {
	outcome outcome
	value   string // of a get, "" for not found
}

// kvModel is the model of a linearizable key. A write that was acknowledged must be there, and a write that was refused
// must not. A refusal of a compare-and-set says nothing about the state: a leader that is about to lose its office may
// refuse in error.
var kvModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(input).key
			byKey[key] = append(byKey[key], o)
		}
		var out [][]porcupine.Operation
		for _, ops := range byKey {
			out = append(out, ops)
		}
		return out
	},
	Init: func() []any { return []any{""} },
	Step: func(state, in, out any) []any {
		value, i, o := state.(string), in.(input), out.(output)
		if i.op == opGet {
			if o.outcome == done && o.value != value {
				return nil
			}
			return []any{value}
		}
		applied, possible := apply(value, i)
		switch {
		case o.outcome == done && possible:
			return []any{applied}
		case o.outcome == done:
			return nil
		case o.outcome == unknown && possible:
			return []any{value, applied}
		}
		return []any{value}
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}).ToModel()

func apply(value string, i input) (after string, possible bool) {
	switch i.op {
	case opCreate:
		return i.value, value == ""
	case opUpdate:
		return i.value, value == i.base
	case opPatch:
		return i.value, value != ""
	default:
		return "", value != ""
	}
}

// writer makes random operations with one client and notes them. The clock of the writers counts what they note: in
// virtual time much happens at the same moment.
type writer struct {
	id      int
	client  *entity.Client[*Website]
	history []porcupine.Operation
	clock   *atomic.Int64
}

func (w *writer) run(ctx context.Context, rounds int) {
	for n := 0; n < rounds && ctx.Err() == nil; n++ {
		key := "k" + strconv.Itoa(rand.IntN(3))
		value := fmt.Sprintf("w%d-%d", w.id, n)
		var read *Website
		w.note(input{key: key, op: opGet}, func() (output, error) {
			var err error
			if read, err = w.client.Get(ctx, key); err != nil {
				return output{}, err
			}
			return output{value: read.Spec.Host}, nil
		})
		switch {
		case read == nil:
			site := website(key)
			site.Spec.Host = value
			w.note(input{key: key, op: opCreate, value: value},
				func() (output, error) { return output{}, w.client.Create(ctx, site) })
		case n%7 == 3:
			w.note(input{key: key, op: opDelete}, func() (output, error) { return output{}, w.client.Delete(ctx, key) })
		case n%5 == 2:
			patch := fmt.Appendf(nil, `{"spec":{"host":%q}}`, value)
			w.note(input{key: key, op: opPatch, value: value},
				func() (output, error) { return output{}, w.client.Patch(ctx, key, patch) })
		default:
			base := read.Spec.Host
			read.Spec.Host = value
			w.note(input{key: key, op: opUpdate, base: base, value: value},
				func() (output, error) { return output{}, w.client.Update(ctx, read) })
		}
	}
}

func (w *writer) note(in input, do func() (output, error)) {
	call := w.clock.Add(1)
	out, err := do()
	back := w.clock.Add(1)
	switch {
	case err == nil:
		out.outcome = done
	case in.op == opGet && apierrors.IsNotFound(err):
		out.outcome = done
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		out.outcome = refused
	case errors.Is(err, entity.ErrOutcomeUnknown):
		out.outcome, back = unknown, 1<<62 // it may still be applied
	default:
		out.outcome = notAsked // an error that says that nothing was written
	}
	w.history = append(w.history, porcupine.Operation{ClientId: w.id, Input: in, Call: call, Output: out, Return: back})
}

// checkLinearizable runs writers, with disturb beside them, and checks what they saw.
func checkLinearizable(
	t *testing.T, connect func() jetstream.JetStream, cfg entity.Config, rounds int, disturb func(ctx context.Context),
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(soak(10))*time.Minute)
	defer cancel()
	var clock atomic.Int64
	writers := make([]*writer, 6)
	for i := range writers {
		writers[i] = &writer{id: i, client: newClient[*Website](t, connect(), cfg), clock: &clock}
		if i%2 == 0 {
			start(t, writers[i].client) // whose writes go another way
		}
	}
	running, stop := context.WithCancel(ctx)
	var disturber, wg sync.WaitGroup
	if disturb != nil {
		disturber.Go(func() { disturb(running) })
	}
	for _, w := range writers {
		wg.Go(func() { w.run(ctx, rounds) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Errorf("the writers came to a standstill: %v", ctx.Err())
	}
	stop()
	disturber.Wait()
	counts := map[outcome]int{}
	var history []porcupine.Operation
	for _, w := range writers {
		for _, o := range w.history {
			counts[o.Output.(output).outcome]++
		}
		history = append(history, w.history...)
	}
	t.Logf("%d operations: %v", len(history), counts)
	if counts[done] < len(history)/3 {
		t.Errorf("too few operations succeeded to mean anything: %v", counts)
	}
	if result := porcupine.CheckOperationsTimeout(kvModel, history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", result)
	}
}

// soak multiplies rounds by NAGI_SOAK.
func soak(rounds int) int {
	if n, err := strconv.Atoi(os.Getenv("NAGI_SOAK")); err == nil && n > 1 {
		return rounds * n
	}
	return rounds
}

func TestConcurrentWritersAreLinearizableOnOneServer(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		connect := func() jetstream.JetStream {
			_, js := natstest.Connect(t, srv.URL())
			return js
		}
		checkLinearizable(t, connect, websites, soak(60), nil)
	})
}

// TestConcurrentWritersAreLinearizableWhileTheServerRestarts, on a network that loses some of their messages, and
// delivers some twice.
func TestConcurrentWritersAreLinearizableWhileTheServerRestarts(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		writes, answers := natstest.To("$KV.websites.>"), natstest.AnswersTo("$KV.websites.>")
		connect := func() jetstream.JetStream {
			proxy := natstest.StartProxy(t, srv.URL())
			proxy.Delay(time.Millisecond + rand.N(2*time.Millisecond))
			proxy.Tamper(func(m *natstest.Message) (fate natstest.Fate) {
				if writes(m) || answers(m) {
					fate.Lost, fate.Twice = rand.IntN(100) == 0, rand.IntN(50) == 0
				}
				return fate
			})
			_, js := natstest.Connect(t, proxy.URL())
			return js
		}
		checkLinearizable(t, connect, websites, soak(80), func(ctx context.Context) {
			for n := 0; n < soak(4) && pause(ctx, 200*time.Millisecond); n++ {
				if err := srv.Restart(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	})
}

// pause lets the writers work for a while; false when they are done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
