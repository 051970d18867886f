package current

import (
	"context"
	"fmt"
)

// Reason and message of the event about an object that exists and is not the primary's.
const (
	ReasonResourceExists  = "ErrResourceExists"
	MessageResourceExists = "Resource %q already exists and is not managed by this controller"
)

// WarnResourceExists records on the reconciled primary that an object exists and is not its own. Outside of a
// reconcile it does nothing.
func WarnResourceExists(ctx context.Context, object string) {
	if r, ok := Of(ctx); ok {
		r.Warn(ReasonResourceExists, fmt.Sprintf(MessageResourceExists, object))
	}
}
