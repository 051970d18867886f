package controllerruntime

import "github.com/nagi-runtime/nagi/internal/owner"

// RequireInstance has secondaries that name no installation taken for another installation's: HandleSecondary and
// DecomposeKubeSecondaryResource find no owner for them, and GarbageSecondaries leaves them. Without it they count as
// this installation's, because the original Kumori runtime names none. So call it, before Run, where nothing is left
// that the original made: each secondary written since, with SetOwner or a helper, names its installation. A call after
// Run has begun has no effect.
func (r *core[P, S1, S2, S3, S4, T1, T2, T3, T4]) RequireInstance() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strict = true
}

// everywhere is for all sources of this API.
type everywhere struct{}

// AnyNamespace implements owner.AnyNamespace.
func (everywhere) AnyNamespace() bool { return true }

// Resource implements owner.Source. This API wants no proofs.
func (everywhere) Resource() owner.Resource { return owner.Resource{} }
