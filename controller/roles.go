package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/source"
)

// PermissionsOf returns what a user of NATS needs who has a role towards this controller. It sends nothing.
//
//   - entity.RoleWriter puts documents of the primaries, and no others.
//   - entity.RoleReader reads those, and all that the controller owns and watches in NATS.
//   - entity.RoleOperator reads the same, changes documents of the primaries, and releases the brake.
//   - entity.RoleBootstrap makes the buckets of all of them, and what SetUp makes.
//   - entity.RoleController is what Permissions has for NATS.
//
// What runs beside the reconciles is included, such as the registry of kinds, and what may be asked of a service. Give
// people who work with the nats command line entity.WithCommandLine. The default inbox is "_INBOX_" and the role, as
// that of entity.Permissions.
func (c *Controller[T]) PermissionsOf(
	role entity.Role, opts ...entity.PermissionOption,
) (entity.PermissionSet, error) {
	if role == entity.RoleController {
		all, err := c.Permissions(opts...)
		return all.PermissionSet, err
	}
	opts = append([]entity.PermissionOption{entity.WithInboxPrefix("_INBOX_" + string(role))}, opts...)
	if js := c.client.EnginePort().JetStream(); js != nil {
		opts = append([]entity.PermissionOption{entity.WithAPIOf(js)}, opts...)
	}
	all, err := entity.Permissions(c.client.Config(), role, opts...)
	errs := []error{err}
	add := func(of any, set entity.PermissionSet, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", of, err))
		}
		all = all.Join(set)
	}
	others := role // an operator reads what is not the primary, and changes nothing of it
	if role == entity.RoleOperator {
		others = entity.RoleReader
	}
	for _, s := range c.engine.Sources()[1:] {
		if from, ok := s.(interface{ Config() entity.Config }); ok && role != entity.RoleWriter {
			set, err := entity.Permissions(from.Config(), others, opts...)
			add(s, set, err)
		}
	}
	for _, beside := range c.engine.Beside() {
		if prepared, ok := beside.(source.Prepared); ok {
			set, err := prepared.RightsOf(role, opts...)
			add(beside, set, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return entity.PermissionSet{}, err
	}
	return all, nil
}

// SetUp makes what the controller needs beside the buckets of its clients, which entity.NewClient makes, and which is
// missing: the bucket of the registry, if it publishes its kind. It is for whoever prepares a server for controllers
// that may not, as their clients are BindOnly, with the permissions of entity.RoleBootstrap. What exists stays as it
// is.
func (c *Controller[T]) SetUp(ctx context.Context) error {
	var errs []error
	for _, beside := range c.engine.Beside() {
		if prepared, ok := beside.(source.Prepared); ok {
			errs = append(errs, prepared.SetUp(ctx))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("setting up for controller %q: %w", c.name, err)
	}
	return nil
}
