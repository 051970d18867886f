package kube

import "github.com/nagi-runtime/nagi/internal/secondary"

// ApplyOption configures one call of Apply.
type ApplyOption func(*applyOptions)

type applyOptions struct {
	withoutForce bool
	take         secondary.Options
	errs         []error
}

// WithoutForce makes Apply fail with an *ApplyConflictError where it would change a field that another manager has set.
// By default Apply takes the field over, as controllers do: they apply only the fields that they decide about.
func WithoutForce() ApplyOption { return func(o *applyOptions) { o.withoutForce = true } }

// WithAdopt makes Apply take over an object that names no owner, and that no Kubernetes object controls by an
// ownerReference. The fields that obj has are applied, and all others stay. See controller.WithAdopt.
func WithAdopt() ApplyOption { return taking(secondary.WithAdopt()) }

// WithHandOverFrom makes Apply move to the primary what exactly that primary of this installation owns. See
// controller.WithHandOverFrom.
func WithHandOverFrom(ownerKind, ownerKey string) ApplyOption {
	return taking(secondary.WithHandOverFrom(ownerKind, ownerKey))
}

func taking(option secondary.Option) ApplyOption {
	return func(o *applyOptions) { o.errs = append(o.errs, option(&o.take)) }
}
