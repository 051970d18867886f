package secondary

import (
	"errors"
	"fmt"

	"github.com/nagi-runtime/nagi/internal/owner"
)

// Options are what a write may take over, and how long what it writes lasts. The zero value takes over nothing, and
// leaves the TTL.
type Options struct {
	adopt, handOver   bool
	fromKind, fromKey string
	lasts             *lasting // nil leaves the TTL
}

// Option changes Options.
type Option func(*Options) error

// WithAdopt is that of package controller.
func WithAdopt() Option {
	return func(o *Options) error {
		o.adopt = true
		return nil
	}
}

// WithHandOverFrom is that of package controller.
func WithHandOverFrom(kind, key string) Option {
	return func(o *Options) error {
		if kind == "" || key == "" {
			return fmt.Errorf("WithHandOverFrom(%q, %q): the kind and the key of the owner are needed", kind, key)
		}
		if o.handOver {
			return errors.New("WithHandOverFrom is given twice: an object has one owner")
		}
		o.handOver, o.fromKind, o.fromKey = true, kind, key
		return nil
	}
}

// OptionsOf applies options, and returns all that is wrong with them in one error.
func OptionsOf[O ~func(*Options) error](opts ...O) (o Options, err error) {
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("write option %d is nil: leave it away", i+1))
			continue
		}
		errs = append(errs, opt(&o))
	}
	return o, errors.Join(errs...)
}

// Takes reports whether the options give an object to an owner that does not own it yet: named is whom it names. An
// object whose marks contradict each other, or name an owner in part, is not to be taken.
func (o Options) Takes(named owner.Named, to owner.Owner) bool {
	if named.IsNone() {
		return o.adopt && !named.Denies(to)
	}
	from := owner.Owner{Kind: o.fromKind, Key: o.fromKey, Instance: to.Instance}
	return o.handOver && named.Allows(from) && !named.Contradicts()
}

// Allow reports whether an owner may write an object: it is its own, or the options give it to it.
func (o Options) Allow(named owner.Named, to owner.Owner) bool {
	return named.Allows(to) || o.Takes(named, to)
}
