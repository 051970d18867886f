package service

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// turns has what is asked about one thing done one after the other, in the order in which it came. Otherwise a suspend
// that waits, and that its caller has given up, could be done after a later resume.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by thing: closed when the request that came last has left
}

// place is that of a request in a queue.
type place struct {
	before <-chan struct{} // closed when it is its turn; nil: it is already
	leave  func()          // call it once, when the request has ended; it may have had no turn
}

func (t *turns) enter(thing string) place {
	mine := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.last[thing]
	if t.last == nil {
		t.last = map[string]chan struct{}{}
	}
	t.last[thing] = mine
	return place{before: before, leave: func() {
		if before != nil {
			<-before // what comes next must not overtake those before
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last[thing] == mine {
			delete(t.last, thing)
		}
		close(mine)
	}}
}

// wait waits for the turn, as long as ctx allows. After that the request is not done: its caller has long given up.
func (p place) wait(ctx context.Context, r *request) error {
	if p.before != nil {
		select {
		case <-p.before:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return refuse(codeNotDone, "what was asked before took too long, and so %s was not done: ask again",
			r.verb.name)
	}
	return nil
}

// queue takes a request that is done in its turn. It does not wait for the turn, so that the endpoint sees each request
// when it comes: from then on counts its time. The error says why the request is not taken.
func (s *Service) queue(r *request) (place, error) {
	if err := s.admit(r); err != nil {
		return place{}, err
	}
	thing, err := r.verb.turn(r)
	if err != nil {
		return place{}, err
	}
	all := s.limit(r).turns
	select {
	case all <- struct{}{}:
	default:
		return place{}, refuse(codeNotDone, "this process does %d acts already, or stops, and so %s was not done: ask "+
			"again", cap(all), r.verb.name)
	}
	p := r.turns.enter(thing)
	return place{before: p.before, leave: func() {
		p.leave()
		<-all
	}}, nil
}

// keyTurn has acts on one key wait for each other.
func keyTurn(r *request) (string, error) { return r.key() }

// brakeTurn has acts on the brake wait for each other. No key is "".
func brakeTurn(r *request) (string, error) {
	_, err := r.named()
	return "", err
}

// late is a request that is answered when its handler has returned. The library would read then, without a lock, what
// its own methods write; so its STATS do not count these errors.
type late struct {
	micro.Request
	nc *nats.Conn
}

func (l late) Respond(data []byte, opts ...micro.RespondOpt) error {
	msg := &nats.Msg{Subject: l.Reply(), Data: data}
	for _, opt := range opts {
		opt(msg)
	}
	return l.nc.PublishMsg(msg)
}

func (l late) Error(code, description string, data []byte, opts ...micro.RespondOpt) error {
	headers := micro.WithHeaders(micro.Headers{micro.ErrorHeader: {description}, micro.ErrorCodeHeader: {code}})
	return l.Respond(data, append([]micro.RespondOpt{headers}, opts...)...)
}
