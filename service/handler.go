package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/micro"
	"k8s.io/klog/v2"
)

const (
	// schemaVersion is that of requests and answers; another one would not be understood.
	schemaVersion = "1"
	// requestTimeout bounds what a request may take, but to plan, to list what vanished and to restore it.
	requestTimeout = 5 * time.Second
	// longestBody is more than any request needs, in bytes.
	longestBody = 64 << 10
)

// The two kinds of access, which are tokens of the subject.
const (
	read = "read"
	act  = "act"
)

// verb is something that can be asked of a controller.
type verb struct {
	name, access string
	whole        bool // it is about the whole controller, and never about one namespace
	standby      bool // where no replica leads, one that waits answers, too
	keyed        bool // it is about one key: where replicas share the keys, the one that works at it answers
	do           func(ctx context.Context, r *request) (answer any, err error)
	takes        time.Duration // what a request may take; 0 means requestTimeout
	// turn says what the request is about, if those about the same thing are done one after the other: those are that
	// write, and so may take long, or do something that the next one takes back.
	turn func(r *request) (thing string, err error)
}

// verbs are all that there are.
func verbs() []*verb {
	return []*verb{
		{name: "about", access: read, whole: true, standby: true, do: about},
		{name: "explain", access: read, do: explainKey, keyed: true},
		{name: "keys", access: read, do: listKeys},
		{name: "list", access: read, do: list},
		{name: "notok", access: read, do: listNotOK},
		{name: "brake-list", access: read, whole: true, do: listBrake},
		{name: "brake-vanished", access: read, whole: true, do: listVanished},
		{name: "orphans", access: read, whole: true, do: listOrphans},
		{name: "plan", access: act, do: plan, keyed: true, turn: planTurn, takes: planTimeout},
		{name: "reconcile", access: act, do: reconcile, keyed: true},
		{name: "unpark", access: act, do: unpark, keyed: true},
		{name: "resync", access: act, do: resync},
		{name: "suspend", access: act, do: suspend, turn: suspendTurn},
		{name: "resume", access: act, do: resume, turn: keyTurn},
		{name: "brake-release", access: act, whole: true, do: releaseBrake, turn: brakeTurn},
		{name: "brake-restore", access: act, whole: true, do: restore, turn: brakeTurn},
		{name: "orphans-delete", access: act, whole: true, do: deleteOrphans, turn: orphansTurn},
		{name: "orphans-adopt", access: act, whole: true, do: adoptOrphans, turn: adoptTurn},
		// The last one that the server hears of: who has an answer to it finds all others.
		{name: "stats", access: read, whole: true, do: stats},
	}
}

// request is a request that may be done.
type request struct {
	*served
	scope
	verb *verb
	body []byte
	from string // who says to ask, in words: no proof
	room int    // how many bytes an answer may have
	// counted says that it was within the rate when it came.
	counted bool
	// late says that the replica that works at the key has not answered: the one that leads does.
	late bool
}

// scope is the keys that a request is about: those of a namespace, or all.
type scope struct {
	confined  bool
	namespace string
}

// prefix begins the keys of the scope.
func (s scope) prefix() string {
	if s.confined {
		return s.namespace + "/"
	}
	return ""
}

func (s scope) has(key string) bool { return strings.HasPrefix(key, s.prefix()) }

// String names the scope in sentences.
func (s scope) String() string {
	if s.confined {
		return "namespace " + s.namespace
	}
	return "all keys"
}

// decode reads the body. An empty one is {}; a member that is not known is an error, so that one which is misspelt, or
// a namespace, does not pass unseen.
func (r *request) decode(into any) error {
	if len(r.body) > longestBody {
		return refuse(codeBadRequest, "the body has %d bytes, more than %d", len(r.body), longestBody)
	}
	if len(bytes.TrimSpace(r.body)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if _, rest := decoder.Token(); err == nil && !errors.Is(rest, io.EOF) {
		err = errors.New("something follows the JSON object")
	}
	if err != nil {
		return refuse(codeBadRequest, "the body is not that of a request to %s: %s", r.verb.name,
			printable.Message(err.Error()))
	}
	return nil
}

// handler answers the requests to an endpoint.
func (s *Service) handler(ctx context.Context, c *served, v *verb, confined bool) micro.Handler {
	logger := klog.FromContext(ctx).WithValues("controller", c.name(), "verb", v.name)
	stopping := ctx.Done()
	ctx = klog.NewContext(context.WithoutCancel(ctx), logger) // what was asked before the stop is answered
	return micro.HandlerFunc(func(req micro.Request) {
		if !s.cfg.mayAnswer(req.Reply()) {
			s.dropped.Do(func() { s.tellDropped(logger, req.Reply()) })
			return
		}
		r := &request{
			served: c, verb: v, body: req.Data(), from: callerOf(req), room: int(s.cfg.Conn.MaxPayload()) - headroom,
		}
		if confined {
			subject := req.Subject()
			r.scope = scope{confined: true, namespace: subject[strings.LastIndexByte(subject, '.')+1:]}
		}
		if r.answers() {
			s.handle(ctx, req, r)
			return
		}
		s.standBy(ctx, req, r, stopping)
	})
}

// tellDropped says that a request was dropped, and what to change if its answer was for an inbox. Nothing can be sent
// to the caller: the service may not publish there.
func (s *Service) tellDropped(logger klog.Logger, reply string) {
	what := "A request wants its answer elsewhere than in an inbox, and is dropped; so are others, without a word"
	if prefix, _, ok := strings.Cut(reply, "."); ok && strings.HasPrefix(prefix, DefaultInbox) {
		what = fmt.Sprintf("A request wants its answer in the inbox %s.>, where the service may not publish, and is "+
			"dropped: the caller gets no answer. Add %s to Config.Inboxes, and grant the user of the service what "+
			"Config.Permissions prints then; or have the caller use one of %s. Others are dropped without a word",
			printable.Quote(prefix), printable.Quote(prefix), strings.Join(s.cfg.Inboxes, ", "))
	}
	logger.Info(what, "reply", printable.Text(reply))
}

// handle answers a request, now or in its turn. Its time counts from here.
func (s *Service) handle(ctx context.Context, req micro.Request, r *request) {
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(r.verb.takes, requestTimeout))
	if r.verb.turn == nil {
		defer cancel()
		data, err := guarded(func() ([]byte, error) { return s.answer(bounded, r) })
		respond(ctx, req, data, err)
		return
	}
	p, err := guarded(func() (place, error) { return s.queue(r) })
	if err != nil {
		cancel()
		respond(ctx, req, nil, err)
		return
	}
	go func() {
		defer cancel()
		defer p.leave()
		data, err := guarded(func() ([]byte, error) {
			if err := p.wait(bounded, r); err != nil {
				return nil, err
			}
			return s.do(bounded, r)
		})
		respond(ctx, late{Request: req, nc: s.cfg.Conn}, data, err)
	}()
}

// guarded makes a panic an error.
func guarded[T any](do func() (T, error)) (result T, err error) {
	err = guard.Call(func() (err error) {
		result, err = do()
		return err
	})
	return result, err
}

// headroom is what a message may have beside the data, of the server's max_payload: headers, its own and those that
// servers add.
const headroom = 1 << 10

// answer does what is asked, if it may be done now.
func (s *Service) answer(ctx context.Context, r *request) ([]byte, error) {
	if err := s.admit(r); err != nil {
		return nil, err
	}
	return s.do(ctx, r)
}

// admit refuses requests beyond the rate, and about what is no namespace.
func (s *Service) admit(r *request) error {
	if limit := s.limit(r).rate; !r.counted && !limit.Allow() {
		of := "all keys"
		if r.confined {
			of = "one namespace, of whichever"
		}
		return refuse(codeTooMany, "too many requests to %s: this process takes %v in a second about %s, from all who "+
			"ask; try again later", r.verb.access, float64(limit.Limit()), of)
	}
	if r.confined && !namespaceName.MatchString(r.namespace) {
		return refuse(codeBadRequest, "%s is no namespace: want letters, digits, '-', '_' and '='",
			printable.Quote(r.namespace))
	}
	return nil
}

// do does what was admitted, on the replica that answers.
func (s *Service) do(ctx context.Context, r *request) ([]byte, error) {
	if !r.verb.standby && !r.answers() {
		return nil, r.notLeading("does not lead here, or stops")
	}
	answer, err := r.verb.do(ctx, r)
	if err != nil {
		return nil, err
	}
	if !r.verb.standby && r.lost() { // a process that hung meanwhile knows nothing of what is true now
		return nil, r.notLeading("ceased to lead here while it worked; whether it has done it is not known")
	}
	data, err := json.Marshal(answer)
	if err == nil && len(data) > r.room {
		err = refuse(codeTooLarge, "the answer has %d bytes, and a message of this server has room for %d",
			len(data), r.room)
	}
	return data, err
}

// notLeading refuses what the replica that leads is to be asked.
func (r *request) notLeading(why string) *Error {
	refused := refuse(codeNotDone, "controller %q %s", r.name(), why)
	if holder := r.leader(); holder != "" && !r.confined { // as explained does
		refused.Leader = printable.Text(holder)
		refused.Description += "; when it was looked at last, the leader was " + refused.Leader
	}
	refused.Description += ": ask again"
	return refused
}

// respond sends the answer, or the error.
func respond(ctx context.Context, req micro.Request, data []byte, err error) {
	logger := klog.FromContext(ctx)
	if err == nil {
		err = req.Respond(data)
	} else {
		err = respondError(logger, req, err)
	}
	if err != nil {
		logger.Error(err, "An answer was not sent")
	}
}

func respondError(logger klog.Logger, req micro.Request, err error) error {
	told := asError(err)
	if told.Code == codeInternal {
		logger.Error(err, "A request failed")
	}
	data, err := json.Marshal(told)
	if err != nil {
		return err
	}
	// The library tells whoever asks for STATS what it is given as the description. That is only for who asked here.
	return req.Error(strconv.Itoa(told.Code), refusedOrFailed, data,
		micro.WithHeaders(micro.Headers{micro.ErrorHeader: {told.Description}}))
}

// refusedOrFailed is what STATS says of the last error, beside its code.
const refusedOrFailed = "refused or failed"
