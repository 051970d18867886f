package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"
)

// registration is the service as the library has it, with the controllers that have endpoints there.
type registration struct {
	micro.Service
	has []*served
}

// register makes the service. It subscribes without a queue group: the server goes on for minutes to give a process
// that hangs, or behind a wire that is half open, its share of the requests to a group. So each replica gets each
// request, and the one that leads answers.
func (s *Service) register(ctx context.Context) (*registration, error) {
	svc, err := micro.AddService(s.cfg.Conn, micro.Config{
		Name: s.cfg.Name, Version: s.cfg.Version, Description: s.cfg.Description,
		Metadata: map[string]string{
			"nagi.service": schemaVersion, "nagi.inboxes": strings.Join(s.cfg.Inboxes, ","),
		},
		QueueGroupDisabled: true,
	})
	if err != nil {
		return nil, err
	}
	return s.addMissing(ctx, &registration{Service: svc})
}

// update has the service answer for the controllers of now.
func (s *Service) update(ctx context.Context, r *registration) (*registration, error) {
	now := s.controllers()
	if slices.ContainsFunc(r.has, func(c *served) bool { return !slices.Contains(now, c) }) {
		if err := r.Stop(); err != nil {
			return nil, err
		}
		return s.register(ctx)
	}
	return s.addMissing(ctx, r)
}

// addMissing adds the controllers that it does not have yet.
func (s *Service) addMissing(ctx context.Context, r *registration) (*registration, error) {
	for _, c := range s.controllers() {
		if slices.Contains(r.has, c) {
			continue
		}
		group := r.AddGroup(s.cfg.Prefix + "." + token(c.name()))
		for _, v := range verbs() {
			if err := s.addEndpoints(ctx, group, c, v); err != nil {
				return nil, errors.Join(err, r.Stop())
			}
		}
		r.has = append(r.has, c)
	}
	return r, nil
}

// What waits at one endpoint: more is dropped, so that who sends much cannot fill the memory. As many acts may have
// their turn, or wait for it.
const (
	mostWaiting      = 256
	mostWaitingBytes = 4 << 20
)

func (s *Service) addEndpoints(ctx context.Context, group micro.Group, c *served, v *verb) error {
	subjects := map[string]bool{v.access + "." + v.name: false}
	if !v.whole && c.primary.Config().Namespaced {
		subjects[v.access+"."+v.name+".*"] = true
	}
	for subject, confined := range subjects {
		err := group.AddEndpoint(v.name, s.handler(ctx, c, v, confined), micro.WithEndpointSubject(subject),
			micro.WithEndpointMetadata(map[string]string{"controller": c.name(), "access": v.access}),
			micro.WithEndpointPendingLimits(mostWaiting, mostWaitingBytes))
		if err != nil {
			return fmt.Errorf("endpoint %s of controller %q: %w", subject, c.name(), err)
		}
	}
	return nil
}
