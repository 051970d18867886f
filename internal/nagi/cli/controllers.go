package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// controllersOf are those of the kind that the arguments name, with --bucket without them.
func (s *session) controllersOf(ctx context.Context, args []string) (*kinds.Kind, []ask.Controller, error) {
	a, err := s.target(ctx, args, "")
	if err != nil {
		return nil, nil, err
	}
	if a.key != "" {
		return nil, nil, usage(fmt.Errorf("%s names a key, and this is about a kind: leave the key out", a))
	}
	all, err := s.controllers(a.kind)
	return a.kind, all, err
}

// keeper is a controller, and the kind that it looks after.
type keeper struct {
	ask.Controller
	kind *kinds.Kind
}

// statusBucket is where the controller keeps its records; "" if that is not known.
func (k keeper) statusBucket() string {
	for _, c := range k.kind.Controllers {
		if c.Name == k.Name {
			return c.StatusBucket
		}
	}
	return k.kind.StatusBucket
}

// keepers are the controllers of a kind, or of all kinds of the registry if the arguments name none.
func (s *session) keepers(ctx context.Context, args []string) (all []keeper, err error) {
	if len(args) > 0 || s.t.plain.Bucket != "" {
		kind, controllers, err := s.controllersOf(ctx, args)
		for _, c := range controllers {
			all = append(all, keeper{c, kind})
		}
		return all, err
	}
	found, err := s.kinds(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range found.Entries {
		for _, c := range e.Controllers {
			if name := s.t.plain.controller; name != "" && name != c.Name {
				continue
			}
			all = append(all, keeper{s.controller(c.Name), &kinds.Kind{Entry: e, Registered: true}})
		}
	}
	if len(all) == 0 {
		return nil, s.nothingToAsk(ctx)
	}
	return all, nil
}

// nothingToAsk is the error where the registry has nothing that a command is about, so that nobody who asks the wrong
// server is told that all is well.
func (s *session) nothingToAsk(ctx context.Context) error {
	found, err := s.kinds(ctx)
	if err != nil {
		return err
	}
	says := "of the kinds in the registry of this server none is meant"
	switch name := s.t.plain.controller; {
	case len(found.Entries) == 0:
		says = "no kinds are registered on this server (bucket " + registry.Bucket + "), so nothing was looked at: " +
			"is it the right one? --context and --server name another"
	case name != "":
		says = "the registry of this server has no controller " + printable.Quote(name)
	}
	return withCode(CodeNotFound, fmt.Errorf("%s. --bucket BUCKET (with --namespaced where keys are NAMESPACE/NAME) "+
		"and --controller NAME name what is not registered", says))
}

// keeper is the one controller of a kind that an act is about.
func (s *session) keeper(ctx context.Context, args []string) (keeper, error) {
	all, err := s.keepers(ctx, args)
	switch {
	case err != nil:
		return keeper{}, err
	case len(all) == 1:
		return all[0], nil
	}
	var names []string
	for _, k := range all {
		names = append(names, printable.Quote(k.Name))
	}
	return keeper{}, usage(fmt.Errorf("%s has several controllers, and each holds what is its own: name one with "+
		"--controller: %s", printable.Text(all[0].kind.Name()), strings.Join(names, ", ")))
}

// typed is how a command for a kind begins, with the flags that it needs.
func (k keeper) typed(s *session) string {
	words := printable.Typed(k.kind.Name(), "<kind>")
	if !k.kind.Registered {
		words = "--bucket " + printable.Typed(k.kind.Bucket, "<bucket>")
	}
	if len(k.kind.Controllers) != 1 || s.t.plain.controller != "" {
		words += " --controller " + printable.Typed(k.Name, "<controller>")
	}
	if s.t.prefix != "" {
		words += " --prefix " + printable.Typed(s.t.prefix, "<prefix>")
	}
	return words
}
