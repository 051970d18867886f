package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestNeverDoTwoReplicasLeadAtOnce: three replicas stop and start over a network that delays, loses, refuses and
// delivers late. Now and then a person removes the lease, or somebody writes over it what is no lease. Terms last as
// long as the others wait, to the nanosecond. When the network is good again one of them leads.
func TestNeverDoTwoReplicasLeadAtOnce(t *testing.T) {
	runs := uint64(60)
	if testing.Short() {
		runs = 20
	}
	terms := 0
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			w := &weather{random: rand.New(rand.NewPCG(seed, 0))}
			terms += w.play(t)
			if t.Failed() {
				t.Logf("seed %d", seed)
				for _, line := range w.log {
					t.Log(line...)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	if terms < int(runs)*10 {
		t.Errorf("%d terms in %d runs: the test shows little", terms, runs)
	}
}

// weather is the network of the model, and who leads in it.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	good   bool
	leader string
	terms  int
	log    [][]any
}

const (
	replicas    = 3
	longestLife = 2 * time.Minute // of a process, in bad weather
)

func (w *weather) play(t *testing.T) (terms int) {
	ctx, end := context.WithCancel(t.Context())
	k := &key{}
	var all sync.WaitGroup
	for i := range replicas {
		all.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				w.live(t, ctx, k, fmt.Sprintf("%c%d", 'a'+i, life))
			}
		})
	}
	for range 60 {
		pause(ctx, 10*time.Second)
		switch w.between(0, 10) {
		case 0:
			k.remove()
		case 1, 2:
			k.put(garbled["answer"])
		}
	}
	w.mu.Lock()
	w.good = true
	w.mu.Unlock()
	pause(ctx, longestLife+time.Minute)
	w.mu.Lock()
	if w.leader == "" {
		t.Error("nobody leads, although the network is good again and nobody stops")
	}
	w.mu.Unlock()
	end()
	all.Wait()
	time.Sleep(time.Minute) // requests that nobody waits for any more are still on their way
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.terms
}

// live is one process of a replica, until it stops.
func (w *weather) live(t *testing.T, ctx context.Context, k *key, id string) {
	if d := w.between(10*time.Second, longestLife); !w.isGood() {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	l := &link{key: k}
	l.use(w.route(id, "load"), w.route(id, "store"))
	timing := Timing{Duration: 5 * time.Second, RenewDeadline: 4900 * time.Millisecond, RetryPeriod: time.Second}
	e := elector{Config: Config{Store: l, Name: "lease", Identity: id, Timing: timing}, random: w.float}
	e.run(ctx, func(ctx context.Context, term *Term) {
		w.enter(t, id, term)
		<-ctx.Done()
		w.leave(id, context.Cause(ctx))
		time.Sleep(w.between(0, time.Second))
	})
}

func (w *weather) enter(t *testing.T, id string, term *Term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(id, "leads, revision", term.Revision)
	if w.leader != "" {
		t.Errorf("%s leads while %s does", id, w.leader)
	}
	if term.Over() {
		t.Errorf("a term of %s begins when it is over", id)
	}
	w.leader = id
	w.terms++
}

func (w *weather) leave(id string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(id, "ends:", cause)
	if w.leader == id {
		w.leader = ""
	}
}

// note is called with the lock.
func (w *weather) note(what ...any) {
	w.log = append(w.log, append([]any{time.Now()}, what...))
}

// route is a network whose weather changes with each request. Like NATS, it may deliver what nobody waits for any more.
func (w *weather) route(id, what string) route {
	return func(ctx context.Context, request func() reply) reply {
		there, back, fate := w.forecast()
		w.mu.Lock()
		w.note(id, what, "arrives in", there, "answered in", back, "fate", fate)
		w.mu.Unlock()
		if fate == "refused" {
			return reply{err: errors.New("no leader")}
		}
		answers := make(chan reply, 1)
		if fate != "lost" {
			go func() {
				time.Sleep(there)
				got := request()
				time.Sleep(back)
				if fate != "unanswered" {
					answers <- got
				}
			}()
		}
		select {
		case <-ctx.Done():
			return reply{err: ctx.Err()}
		case got := <-answers:
			return got
		}
	}
}

func (w *weather) forecast() (there, back time.Duration, fate string) {
	there, back = w.between(time.Millisecond, 50*time.Millisecond), w.between(time.Millisecond, 50*time.Millisecond)
	if w.isGood() {
		return there, back, "answered"
	}
	switch n := w.between(0, 20); n {
	case 0:
		fate = "refused"
	case 1, 2:
		fate = "lost"
	case 3, 4:
		fate = "unanswered"
	case 5, 6:
		there, fate = w.between(0, 10*time.Second)+1, "late"
	case 7, 8:
		back, fate = w.between(0, 2*time.Second)+1, "answered late"
	default:
		fate = "answered"
	}
	return there, back, fate
}

func (w *weather) isGood() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.good
}

func (w *weather) between(least, most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return least + time.Duration(w.random.Int64N(int64(most-least)))
}

func (w *weather) float() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.Float64()
}
