package external

import "github.com/nagi-runtime/nagi/internal/dryrun"

// planned notes what an intent would do, in place of the call of the API. What comes after the call is not known, so
// the resource is pending.
func (r *run[Desired, Observed]) planned(
	plan *dryrun.Plan, intent *Intent, observed *Observed, changes []Change,
) Result[Observed] {
	of := dryrun.Object{System: dryrun.External, Kind: r.driver.Kind(), Key: r.name}
	fields := make([]dryrun.Field, len(changes))
	for i, change := range changes {
		fields[i] = dryrun.Field{Path: change.Field, From: change.From, To: change.To}
		if r.quiet {
			fields[i].From, fields[i].To = dryrun.Hidden, dryrun.Hidden
		}
	}
	if intent.Action == ActionCreate {
		fields = dryrun.FieldsOf(intent.Desired) // without its secret fields
	}
	plan.Would(of, dryrun.Action(intent.Action), fields, "")
	return r.pending(observed, "the "+string(intent.Action)+" that is planned", 0)
}
