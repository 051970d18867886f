package engine

import (
	"errors"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nagi-runtime/nagi/internal/keytable"
	"github.com/nagi-runtime/nagi/internal/kubeapi"
	"github.com/nagi-runtime/nagi/internal/queue"
	"github.com/nagi-runtime/nagi/internal/source"
)

// serverSource is a source over an informer of that API server.
type serverSource struct {
	source.Source
	server kubeapi.Server
}

func (s serverSource) Server() kubeapi.Server { return s.server }

// unansweredEngine is an engine with sources of those API servers.
func unansweredEngine(servers ...kubeapi.Server) *Engine {
	e := &Engine{queue: queue.New(queue.Options{})}
	for _, server := range servers {
		e.sources.Add(serverSource{server: server})
	}
	return e
}

// fails notes an error of a key as an attempt does.
func (e *Engine) fails(key string, err error) {
	e.keys.Change(key, func(s *keytable.State) { s.Failures++ })
	if by := e.unansweredBy(err); by != nil {
		e.keys.Change(key, func(s *keytable.State) { s.Unanswered = by })
	}
}

var errLost = &url.Error{Op: "Get", URL: "https://server", Err: syscall.ECONNREFUSED}

// TestTheAnswerOfOneAPIServerWakesNobodyWhoWaitsForAnother. Where an error does not tell whose it is, any may be meant.
func TestTheAnswerOfOneAPIServerWakesNobodyWhoWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, another, noSource = 1, 2, 3
		e := unansweredEngine(one, another)
		e.fails("one", kubeapi.MarkUnanswered(errLost, one))
		e.fails("another", kubeapi.MarkUnanswered(errLost, another))
		e.fails("no source", kubeapi.MarkUnanswered(errLost, noSource))
		e.fails("unmarked", errLost)
		e.answered(one)
		for range 3 {
			it, _ := e.queue.Get(t.Context())
			if it.Key == "another" || e.keys.Of(it.Key).Failures > 0 {
				t.Errorf("%s is due, after %d attempts", it.Key, e.keys.Of(it.Key).Failures)
			}
		}
		if n := waitingKeys(e.queue); n > 0 || e.keys.Of("another").Failures != 1 {
			t.Errorf("%d more are due; the other one has %d attempts", n, e.keys.Of("another").Failures)
		}
		e.answered(one)
		if n := waitingKeys(e.queue); n > 0 {
			t.Errorf("%d are due for a second time", n)
		}
	})
}

// TestAKeyThatIsRefusedBeforeTheReturnIsNoticedDoesNotWaitForItsBackoff: it may be tried before anybody probes.
func TestAKeyThatIsRefusedBeforeTheReturnIsNoticedDoesNotWaitForItsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := unansweredEngine(1)
		e.fails("home", kubeapi.MarkUnanswered(errLost, 1))
		e.fails("home", errors.New("forbidden"))
		e.answered(1)
		if n := waitingKeys(e.queue); n != 1 || e.keys.Of("home").Failures != 0 {
			t.Errorf("%d are due, after %d attempts", n, e.keys.Of("home").Failures)
		}
	})
}

// TestAKeyThatWaitsForAnOutdatedCacheIsDueWhenItIsNoLonger, with its failures forgotten.
func TestAKeyThatWaitsForAnOutdatedCacheIsDueWhenItIsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := unansweredEngine(1, 2)
		e.fails("home", kubeapi.MarkOutdated(errors.New("the watch stands still"), 1))
		e.answered(2)
		if n := waitingKeys(e.queue); n != 0 {
			t.Errorf("%d are due though another server answered", n)
		}
		e.answered(1)
		if n := waitingKeys(e.queue); n != 1 || e.keys.Of("home").Failures != 0 {
			t.Errorf("%d are due, after %d attempts", n, e.keys.Of("home").Failures)
		}
	})
}

// waitingKeys is the number of keys that wait for a worker.
func waitingKeys(q *queue.Queue) (n int) {
	for _, ready := range q.Counts().Ready {
		n += ready
	}
	return n
}
