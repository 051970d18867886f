// Package ask asks controllers over the services API, as docs/service.md says.
//
// The rule: an answer that is an error keeps its code, and says which controller gave it. Where none came, the error
// says what to do.
package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Access is whether a verb reads or acts.
type Access string

// The kinds of access.
const (
	Read Access = "read"
	Act  Access = "act"
)

// Controller is one that is asked.
type Controller struct {
	Conn   *nats.Conn
	Prefix string // of the service; "" means service.DefaultPrefix
	Name   string
	// Timeout is how long to wait for one answer; 0 means as long as the context says, which has a deadline then.
	Timeout time.Duration
}

// Patient is the controller with a longer timeout, for requests that take long.
func (c Controller) Patient(timeout time.Duration) Controller {
	c.Timeout = max(c.Timeout, timeout)
	return c
}

// Subject is that of a verb, and of a namespace if there is one.
func (c Controller) Subject(access Access, verb, namespace string) string {
	prefix := c.Prefix
	if prefix == "" {
		prefix = service.DefaultPrefix
	}
	subject := prefix + "." + token(c.Name) + "." + string(access) + "." + verb
	if namespace != "" {
		subject += "." + namespace
	}
	return subject
}

// token is the name of a controller in a subject.
func token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// NoAnswer is the error where no controller answered.
type NoAnswer struct {
	Controller string
	Err        error
	inbox      string // of the connection, where answers may not go by default
}

func (e *NoAnswer) Error() string {
	name := printable.Quote(e.Controller)
	if errors.Is(e.Err, nats.ErrNoResponders) {
		return fmt.Sprintf("controller %s is not asked: no process of it runs with package service (nats micro ls "+
			"lists those that do), or its service has another prefix (--prefix)", name)
	}
	if e.inbox != "" {
		return fmt.Sprintf("controller %s did not answer: %v: does its service answer to inboxes below %s "+
			"(Config.Inboxes; nats micro info nagi shows nagi.inboxes)? --inbox-prefix=_INBOX_operator is one of the "+
			"default ones", name, e.Err, e.inbox)
	}
	return fmt.Sprintf("controller %s did not answer: %v: try again; nats micro info nagi lists its replicas",
		name, e.Err)
}

// Unwrap returns what the client library said.
func (e *NoAnswer) Unwrap() error { return e.Err }

// foreignInbox is the prefix of the connection's inboxes, if services do not answer there by default.
func (c Controller) foreignInbox() string {
	switch prefix := strings.TrimSuffix(c.Conn.Opts.InboxPrefix, "."); prefix {
	case "", service.DefaultInbox, service.DefaultInbox + "_operator", service.DefaultInbox + "_reader":
		return ""
	default:
		return prefix
	}
}

// Refused is the error where a controller answered with one. Body has what it says beside.
type Refused struct {
	Controller string
	Body       service.Error
}

func (e *Refused) Error() string {
	return fmt.Sprintf("controller %s: %s", printable.Quote(e.Controller), printable.Message(e.Body.Description))
}

// Do asks for one thing and reads the answer into answer. A nil about is an empty request.
func (c Controller) Do(ctx context.Context, access Access, verb, namespace string, about, answer any) error {
	var body []byte
	if about != nil {
		var err error
		if body, err = json.Marshal(about); err != nil {
			return err
		}
	}
	if c.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		ctx = bounded
	}
	request := &nats.Msg{Subject: c.Subject(access, verb, namespace), Data: body}
	msg, err := denials.Of(c.Conn).Request(ctx, request)
	if _, denied := errors.AsType[*denials.Error](err); denied {
		return fmt.Errorf("controller %s is not asked: %w", printable.Quote(c.Name), err)
	}
	if err != nil {
		return &NoAnswer{c.Name, err, c.foreignInbox()}
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		refused := &Refused{Controller: c.Name}
		if json.Unmarshal(msg.Data, &refused.Body) != nil || refused.Body.Description == "" {
			refused.Body.Description = msg.Header.Get(micro.ErrorHeader)
		}
		refused.Body.Code, _ = strconv.Atoi(code)
		return refused
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return fmt.Errorf("controller %s answered with something else than docs/service.md says: %w",
			printable.Quote(c.Name), err)
	}
	return nil
}

// Explain asks what becomes of a key, by the subject of its namespace if it has one. Who may not use that may still
// have the right for all keys.
func (c Controller) Explain(ctx context.Context, namespace, key string) (e controller.Explanation, err error) {
	about := service.KeyRequest{Key: key}
	err = c.Do(ctx, Read, "explain", namespace, about, &e)
	if namespace == "" || !errors.Is(err, nats.ErrPermissionViolation) {
		return e, err
	}
	if c.Do(ctx, Read, "explain", "", about, &e) == nil {
		return e, nil
	}
	return e, err // that of the smaller right
}

// NotOK are the keys that are not well, in the order of the alphabet; of a namespace if there is one.
func (c Controller) NotOK(ctx context.Context, namespace string) iter.Seq2[service.Listed, error] {
	return func(yield func(service.Listed, error) bool) {
		for after := ""; ; {
			var page service.List
			if err := c.Do(ctx, Read, "notok", namespace, service.ListRequest{After: after}, &page); err != nil {
				yield(service.Listed{}, err)
				return
			}
			for _, one := range page.Keys {
				if !yield(one, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}
