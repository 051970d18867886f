package cli

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/source"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
)

const bySelf = `A controller writes the annotation nagi/suspend into the document. Where none answers, or none may
write there, it is written with your own rights, which the output says.`

func (t *tool) suspendCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "suspend KIND/KEY...",
		Short: "Have documents not reconciled until they are resumed",
		Long: `Has documents not reconciled until they are resumed. What they own stays as it is. A delete of a
suspended document is carried out.

` + bySelf + " The reason is for people: the document\nkeeps it in nagi/suspend-reason.\n\n" + keysHelp,
		Example: "  nagi suspend websites/shop/home --reason 'moves to the new region'\n" +
			"  echo 'websites/shop/cart' | nagi suspend - --reason INC-7",
	}
	k := &onKeys{
		one: func(ctx context.Context, s *session, a target) acted {
			return s.setSuspended(ctx, a, true, reason)
		},
		says: func(r acted) string { return suspension(r, "is suspended", "was suspended already") },
	}
	k.flags(t, cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people")
	return cmd
}

func (t *tool) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume KIND/KEY...",
		Short:   "Have documents reconciled again that were suspended",
		Long:    "Has documents reconciled again that were suspended.\n\n" + bySelf + "\n\n" + keysHelp,
		Example: "  nagi resume websites/lab/old\n  nagi resume websites old -n lab -o json",
	}
	k := &onKeys{
		one: func(ctx context.Context, s *session, a target) acted {
			return s.setSuspended(ctx, a, false, "")
		},
		says: func(r acted) string { return suspension(r, "is resumed", "was not suspended") },
	}
	k.flags(t, cmd)
	return cmd
}

func suspension(r acted, done, already string) string {
	if !r.Changed {
		done = already
	}
	if r.Says != "" {
		done += " (" + printable.Message(r.Says) + ")"
	}
	return done
}

// setSuspended asks the first controller that answers, for there is one document, and else writes it by itself.
func (s *session) setSuspended(ctx context.Context, a target, suspended bool, reason string) acted {
	why := "the registry names no controller"
	all, err := s.controllers(a.kind)
	if err != nil {
		all = nil // no controller is needed to write a document
	}
	var refused *acted
	for _, c := range all {
		r := acted{Controller: c.Name}
		var done service.Done
		verb, about := "resume", any(service.KeyRequest{Key: a.key})
		if suspended {
			verb, about = "suspend", service.SuspendRequest{Key: a.key, Reason: reason}
		}
		r.err = c.ActOn(ctx, verb, a.namespace(), about, &done)
		r.Changed = done.Changed
		if r.err == nil || ctx.Err() != nil {
			return r
		}
		if !mayHelpMyself(r.err, reason) && refused == nil { // another one may look after the key
			refused = &r
		}
		why = r.err.Error()
	}
	if refused != nil {
		return *refused
	}
	return s.suspendByMyself(ctx, a, suspended, reason, why)
}

// mayHelpMyself reports whether a controller did not suspend for a reason of its own: it does not answer, may not be
// asked, may not write, or is of a version that takes no reason.
func mayHelpMyself(err error, reason string) bool {
	if refused, ok := errors.AsType[*ask.Refused](err); ok {
		switch refused.Body.Code {
		case http.StatusBadRequest:
			return reason != "" && strings.Contains(refused.Body.Description, "reason")
		case http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusNotImplemented:
			return true
		}
		return false
	}
	_, unanswered := errors.AsType[*ask.NoAnswer](err)
	return unanswered || errors.Is(err, nats.ErrPermissionViolation)
}

func (s *session) suspendByMyself(
	ctx context.Context, a target, suspended bool, reason, why string,
) (r acted) {
	client, err := s.client(ctx, a.kind)
	if err == nil {
		bounded, cancel := s.within(ctx)
		defer cancel()
		r.Changed, err = source.SetSuspended(bounded, client, a.key, suspended, reason)
	}
	if r.err = err; r.Changed {
		r.Says = "written with your own rights, as no controller did it: " + why
	}
	return r
}
