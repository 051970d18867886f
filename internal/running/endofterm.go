package running

import "fmt"

// EndOfTerm says what a term that is over waits for: reconciles, or else a callback or a write; keys are those that a
// worker has.
func EndOfTerm(controller string, reconciles bool, keys []string) error {
	switch {
	case reconciles:
		return fmt.Errorf("controller %q: the term is over, and the reconciles of %q go on although their context "+
			"was cancelled: nothing is reconciled here before they return", controller, keys)
	case len(keys) > 0:
		return fmt.Errorf("controller %q: the term is over, and a callback has not returned, or a write of a record "+
			"is not answered, for %q: nothing is reconciled here before. A write is given up when nobody has answered "+
			"it for a while; a callback is not", controller, keys)
	}
	return fmt.Errorf("controller %q: the term is over, and a callback has not returned, or a write to the status "+
		"bucket is not answered: nothing is reconciled here before", controller)
}
