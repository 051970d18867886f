package service

import (
	"context"
	"errors"
	"strings"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"k8s.io/klog/v2"
)

// looks is what is left to look at, of what the server lets the service do. That takes a server that is there.
type looks struct{ rights, subscriptions bool }

func (l looks) pending() bool { return l.rights || l.subscriptions }

// look looks at what is left, if the server is there. The subscriptions come first: the server's last word is kept.
func (s *Service) look(ctx context.Context, left looks) looks {
	if left.subscriptions {
		left.subscriptions = !s.lookAtSubscriptions(ctx)
	}
	if left.rights {
		left.rights = !s.lookAtRights(ctx)
	}
	return left
}

// lookAtRights warns of a connection that may publish elsewhere than to inboxes: the library answers PING, INFO and
// STATS to whatever subject is named. It sends messages without a receiver, which the server should refuse. A right to
// single subjects, such as those of one bucket, is not found out: to try that, it would have to write there.
func (s *Service) lookAtRights(ctx context.Context) (looked bool) {
	denied := denials.Of(s.cfg.Conn)
	for _, probe := range s.probes() {
		denied.Expect(probe)
		if !s.cfg.Conn.IsConnected() || s.cfg.Conn.Publish(probe, nil) != nil || !s.flushed(ctx) {
			return false
		}
		if !s.denied(" for Publish to ", probe) {
			s.tell(ctx, "The user of the service's connection may publish to other subjects than inboxes (it may to "+
				probe+"): who may ask the services API can have answers written anywhere, to a bucket for instance. "+
				"Confine the user")
			return true
		}
	}
	return true
}

// probes are subjects without a receiver: of the service, of a bucket, of JetStream's API, and any other.
func (s *Service) probes() []string {
	nobodys := nuid.Next() + ".probe"
	return []string{s.cfg.Prefix + "." + nobodys, "$KV." + nobodys, "$JS.API." + nobodys, nobodys}
}

// lookAtSubscriptions tells of one that the server refuses: no other code would.
func (s *Service) lookAtSubscriptions(ctx context.Context) (looked bool) {
	if !s.flushed(ctx) {
		return false
	}
	if s.denied(" for Subscription to ", "") {
		s.tell(ctx, "The server refuses subscriptions of the service, so some requests are not answered. Grant the "+
			"user what is missing: "+s.cfg.Conn.LastError().Error())
	}
	return true
}

func (s *Service) tell(ctx context.Context, what string) {
	set, _ := s.cfg.Permissions()
	klog.FromContext(ctx).Error(nil, what, "permissions", set.NATS())
}

// flushed waits until the server has seen all that was sent; false if it is away.
func (s *Service) flushed(ctx context.Context) bool {
	if !s.cfg.Conn.IsConnected() {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.cfg.Conn.FlushWithContext(bounded) == nil
}

// denied reports whether the last that the server has said is that it denies something.
func (s *Service) denied(what, subject string) bool {
	err := s.cfg.Conn.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), what) &&
		strings.Contains(err.Error(), subject)
}
