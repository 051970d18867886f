package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"
)

// served is one controller of a service. It implements engine.Beside.
type served struct {
	service  *Service
	of       any            // the controller
	joined   *engine.Engine // of the last call of New, which may fail yet
	engine   *engine.Engine // of the controller that New has made
	primary  primary
	stats    func() controller.Stats
	restorer *listings      // nil if the controller is none
	resyncs  rate.Sometimes // how often there is an event of a resync
	turns    turns          // of acts
}

var (
	_ source.NeedsRights = (*served)(nil)
	_ source.Prepared    = (*served)(nil)
)

// primary is what is needed of the source of a controller's primaries.
type primary interface {
	Config() entity.Config
	JetStream() jetstream.JetStream
	// Suspend says in the document that it is not to be reconciled, and why; Resume takes that back. They tell whether
	// that changed it.
	Suspend(ctx context.Context, key, reason string) (changed bool, err error)
	Resume(ctx context.Context, key string) (changed bool, err error)
}

func (c *served) name() string { return c.engine.Name() }

// Join implements engine.Beside.
func (c *served) Join(e *engine.Engine) error {
	p, ok := e.Sources()[0].(primary)
	if !ok {
		return fmt.Errorf("service.Controller: the primary (%v) is not in NATS", e.Sources()[0])
	}
	if js := p.JetStream(); js != nil && js.Conn() == c.service.cfg.Conn {
		return errors.New("service.Controller: the controller's client uses the connection of the service: a caller " +
			"could have the service's answers written to whatever subject the controller may write to. Give the " +
			"service a connection of its own, of another user")
	}
	if c.service.hasAnother(c, e.Name()) {
		return fmt.Errorf("service.Controller: there are two controllers with the name %q, which a request could not "+
			"tell apart", e.Name())
	}
	c.joined = e
	return nil
}

// Serves is given the controller of the engine that joined, once New has made it, and before it runs. Not before is it
// served: a New that fails leaves nothing behind.
func (c *served) Serves(of any) {
	c.of, c.engine = of, c.joined
	c.primary, _ = c.engine.Sources()[0].(primary) // Join has looked
	if s, ok := of.(interface{ Stats() controller.Stats }); ok {
		c.stats = s.Stats
	}
	c.restorer = restorerOf(of)
	c.service.add(c)
}

// Run implements engine.Beside. There is nothing to do: who leads is looked up for each request.
func (c *served) Run(context.Context) {}

// leads reports whether this replica answers.
func (c *served) leads() bool {
	lead := c.engine.Explainer().Lead()
	return lead.Leads && !lead.Stopped
}

// answers reports whether this replica answers the request. Where replicas share the keys, one about a key is for the
// one that works at it, and for the one that leads where none does.
func (r *request) answers() bool {
	key, keyed := r.sharedKey()
	if !keyed {
		return r.leads()
	}
	if r.engine.Explainer().Lead().Stopped {
		return false
	}
	share := r.engine.Explainer().Share(key)
	return share.Here || (share.Member == "" || r.late) && r.leads()
}

// sharedKey is the key that the request is about, where replicas share the keys.
func (r *request) sharedKey() (key string, ok bool) {
	if !r.verb.keyed || !r.engine.Shares() {
		return "", false
	}
	key, err := r.key()
	return key, err == nil // who leads says what is wrong with it
}

// lost reports whether this replica does not answer any more what it has worked at.
func (r *request) lost() bool {
	if _, keyed := r.sharedKey(); keyed {
		return !r.answers()
	}
	return r.engine.LeaseLost()
}

// Rights are what suspend and resume need beside what the controller has.
func (c *served) Rights(opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	return entity.Permissions(c.primary.Config(), entity.RoleWriter, opts...)
}

// RightsOf are those of who asks the service.
func (c *served) RightsOf(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	if role != entity.RoleReader && role != entity.RoleOperator {
		return entity.PermissionSet{}, nil
	}
	return c.service.cfg.CallerPermissions(role, opts...)
}

// SetUp implements source.Prepared: there is nothing to make.
func (c *served) SetUp(context.Context) error { return nil }

// leader is who held the lease when it was read last; "" if that is not known.
func (c *served) leader() string { return c.engine.Explainer().Lead().Holder }

// hasBrake refuses a controller that has none.
func (c *served) hasBrake() error {
	if guard.IsNil(c.engine.Brake()) {
		return refuse(codeNotThere, "controller %q has no brake: it was made WithoutTeardown, and deletes nothing by "+
			"itself", c.name())
	}
	return nil
}

// token is a name as a token of a subject: bytes other than letters, digits, '-' and '_' are '=' and two hexadecimal
// digits.
func token(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
