package controller

import "github.com/nagi-runtime/nagi/internal/current"

// ReasonDrifted is the reason of the event about an external resource that has drifted and is not repaired.
const ReasonDrifted = current.ReasonDrifted
