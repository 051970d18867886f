package kube

import "fmt"

// Option configures a Handle. See New.
type Option func(*handleOptions) error

type handleOptions struct {
	kind    string
	manager string
	delete  []DeleteOption
}

// WithKind sets the kind of the objects. It is needed where the kind is not the name of their Go type. The default is
// that name; unstructured objects bring their own kind.
func WithKind(kind string) Option {
	return func(o *handleOptions) error {
		o.kind = kind
		return nil
	}
}

// WithFieldManager sets the name under which the API server keeps which fields the handle manages: 1 to 128 characters.
// It must stay the same over restarts. The default is the name of the controller whose reconcile writes.
func WithFieldManager(name string) Option {
	return func(o *handleOptions) error {
		if name == "" || len(name) > maxFieldManager {
			return fmt.Errorf("WithFieldManager(%q): a name of 1 to %d characters is needed", name, maxFieldManager)
		}
		o.manager = name
		return nil
	}
}

// maxFieldManager is the API server's limit (FieldManagerMaxLength in its validation).
const maxFieldManager = 128

// WithDeletes says how the handle deletes: by Delete, and for cascade and sweep.
func WithDeletes(opts ...DeleteOption) Option {
	return func(o *handleOptions) error {
		o.delete = append(o.delete, opts...)
		return nil
	}
}
