package engine

import (
	"context"

	"github.com/nagi-runtime/nagi/internal/owner"
	"github.com/nagi-runtime/nagi/internal/source"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnersIn is the mapper of a source of secondaries: the owner, if it is of our kind, and neither of another
// installation nor in a namespace that it must not be in. Who is named by a hash alone is found while it exists.
func (e *Engine) OwnersIn(s owner.Source) source.Mapper {
	return func(_ context.Context, obj metav1.Object) ([]string, error) {
		claim := e.Claim().In(s)
		named, ours := claim.OwnerOf(obj)
		key := e.hashes.KeyOf(named, e.primary.Keys)
		if !ours || !e.WellFormed(key) {
			return nil, nil
		}
		if claim.IsForeign(named) || claim.Crosses(obj, key) {
			e.stats.Foreign.Add(1)
			return nil, nil
		}
		return []string{key}, nil
	}
}

// Claim says what the runtime may delete. Under the Kumori API, which never deletes by itself, an object that names no
// installation counts too.
func (e *Engine) Claim() owner.Claim {
	return owner.Claim{
		Kind: e.Kind, Instance: e.InstanceID(), Unnamed: e.opts.WithoutCascade, Strict: e.opts.RequireInstance,
		Proofs: e.opts.Proofs,
	}
}

// InstanceID is the id of the installation; "" while it is not known.
func (e *Engine) InstanceID() string {
	if e.claim == nil {
		return ""
	}
	return e.claim.Instance()
}
