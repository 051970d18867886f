package apisource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/internal/source"
)

// LeftOpen says what is known of the intents that the reconciler of a delete did not settle.
type LeftOpen struct {
	Conclusive bool           // the caches show what came of those intents for which a list can show it
	Err        error          // of the other intents, which need a person
	Held       []source.Owned // where an operation goes on: nothing there is to be deleted
}

// IntentsLeft looks at the intents of a primary that is gone. A call that was sent before a crash may arrive after it.
func (s *Set) IntentsLeft(ctx context.Context, key string) (left LeftOpen, err error) {
	left.Conclusive = true
	if !s.mayHaveIntents(key) {
		return left, nil
	}
	kept, _, err := s.readIntents(ctx, key)
	if err != nil {
		return left, err
	}
	name, bucket := record.IntentsKey(key), s.shared.Bucket
	for _, resource := range slices.Sorted(maps.Keys(kept.Resources)) { // the same text each time
		entry := kept.Resources[resource]
		from := s.Source(kindOf(resource))
		switch {
		case entry.Intent == nil && (from == nil || entry.ObserveOnly):
		case from == nil:
			left.Err = errors.Join(left.Err, fmt.Errorf(
				"%s of external %s, for %s %q, was begun and not seen to be done, "+
					"and this controller has no client that could list it: "+
					"call external.ReconcileAbsent in the reconcile of the delete, "+
					"or give it the client (OwnsExternal); or delete %s in bucket %s if nothing is left",
				entry.Intent.Action, resource, s.shared.Kind, key, name, bucket))
		case entry.Intent != nil && entry.Intent.Operation != "":
			left.Held = append(left.Held, from)
			left.Err = errors.Join(left.Err, fmt.Errorf(
				"operation %q (%s) of external %s, for %s %q, was begun and not seen to be over; "+
					"only its driver can ask for it: call external.ReconcileAbsent in the reconcile of the delete; "+
					"or delete %s in bucket %s if nothing is left",
				entry.Intent.Operation, entry.Intent.Action, resource, s.shared.Kind, key, name, bucket))
		default:
			entry = s.intents.meet(key, resource, entry)
			if !from.listedFor(key, entry.Settled(from.config.Timeout, from.config.Settle)) {
				left.Conclusive = false
			}
		}
	}
	return left, nil
}

// Spared returns the sources whose resources stay when a primary goes, because its reconciler only observed them. owned
// is what the primary owns in each source. It fails where the lists do not tell which resources were only observed.
func (s *Set) Spared(ctx context.Context, key string, owned map[source.Owned]int) (map[source.Owned]bool, error) {
	if len(s.sources()) == 0 || !s.mayHaveIntents(key) {
		return nil, nil
	}
	kept, _, err := s.readIntents(ctx, key)
	if err != nil {
		return nil, err
	}
	observed, managed := map[string]int{}, map[string]string{}
	for resource, entry := range kept.Resources {
		if kind := kindOf(resource); entry.ObserveOnly {
			observed[kind]++
		} else {
			managed[kind] = resource
		}
	}
	spared := map[source.Owned]bool{}
	for _, from := range s.sources() {
		kind, n := from.kind, owned[from]
		if n == 0 || observed[kind] == 0 {
			continue
		}
		if managed[kind] != "" && n > observed[kind] {
			return nil, fmt.Errorf("%s %q has several external %s, of which some are only observed, "+
				"and the list does not tell which: call external.ReconcileAbsent for %s in the reconcile of the delete",
				s.shared.Kind, key, kind, managed[kind])
		}
		spared[from] = true
	}
	return spared, nil
}
