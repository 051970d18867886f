package controller

import (
	"github.com/nagi-runtime/nagi/internal/reconcilectx"
	"github.com/nagi-runtime/nagi/internal/secondary"
)

// Reasons of events about a primary.
const (
	// ReasonDrifted: an external resource has drifted and is not repaired.
	ReasonDrifted = reconcilectx.ReasonDrifted
	// ReasonResourceExists: what the primary wants to own exists, and no primary owns it; see ResourceExistsError.
	ReasonResourceExists = secondary.ReasonResourceExists
	// ReasonAlreadyOwned: another primary owns what this one wants; see AlreadyOwnedError.
	ReasonAlreadyOwned = secondary.ReasonAlreadyOwned
	// ReasonNoOwner: the primary's reconcile has written an entity of a source of Owns that names no owner, with the
	// reconcile's context and by its client's Create, Update or Patch. It is told once for each source.
	ReasonNoOwner = reconcilectx.ReasonNoOwner
)
