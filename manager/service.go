package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/engine"
	"github.com/nats-io/nats.go"
)

// Service is a service of package service, whose For makes one.
type Service interface {
	Runnable
	// Connect gives it its connection, once, before anything else.
	Connect(conn *nats.Conn) error
	// Controller is the option of a controller that is asked over it.
	Controller() controller.Option
	// Permissions are those of the connection's user.
	Permissions() (entity.PermissionSet, error)
}

// User says who connects, as the fields of Config with these names.
type User struct{ User, Password, Token, Creds, NKey string }

// Controller is an option for each controller of the process: it is asked over Config.Service, and records events with
// the recorder of Config.Events. Without both it changes nothing.
func (m *Manager) Controller() controller.Option {
	return func(o *engine.Options) error {
		var options []controller.Option
		if m.cfg.Service != nil {
			options = append(options, m.cfg.Service.Controller())
		}
		if m.cfg.Events != nil {
			options = append(options, controller.WithEventRecorder(m.events))
		}
		for _, option := range options {
			if err := option(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// openParts makes what Config.Service and Config.Events say.
func (m *Manager) openParts(ctx context.Context) error {
	if m.cfg.Events != nil {
		events := *m.cfg.Events
		events.Component = cmp.Or(events.Component, m.cfg.Name)
		var err error
		if m.events, err = m.NewRecorder(events); err != nil {
			return fmt.Errorf("recorder of Config.Events: %w", err)
		}
	}
	if m.cfg.Service == nil {
		return nil
	}
	conn, err := connectService(ctx, m.cfg)
	if err != nil {
		return fmt.Errorf("connection of Config.Service: %w", err)
	}
	m.serviceConn = conn
	if err := m.cfg.Service.Connect(conn); err != nil {
		return err
	}
	return m.Add(m.cfg.Service)
}

// connectService connects as the manager does, but for the user.
func connectService(ctx context.Context, cfg Config) (*nats.Conn, error) {
	if cfg.Conn != nil {
		return nil, errors.New("Config.Conn is set, and does not say how to connect as another user: make it " +
			"with service.New, and Add it")
	}
	if as := cfg.ServiceAs; as != (User{}) {
		cfg.User, cfg.Password, cfg.Token, cfg.Creds, cfg.NKey = as.User, as.Password, as.Token, as.Creds, as.NKey
	}
	cfg.Name += " service"
	if cfg.Only != "" { // nothing is asked
		cfg.Only = OnlyPermissions
	}
	conn, _, err := connect(ctx, cfg)
	return conn, err
}
