package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (t *tool) askCommands() []*cobra.Command {
	return []*cobra.Command{t.whyCommand(), t.eventsCommand(), t.topCommand(), t.doctorCommand()}
}

type whyFlags struct {
	namespace, output string
	watch             bool
	most              int
}

func (t *tool) whyCommand() *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why [KIND[/KEY]]",
		Short: "Say why a document waits or fails, and which command helps",
		Long: `why asks each controller of the kind what becomes of a document: why it waits, since when, for what and
until when, and prints the commands that help, the safe ones first. Where no controller answers it prints what the
record says, and exits with 7.

Without KEY, or without KIND, it tells of all that fails, stands still, runs or waits for a worker, grouped by message:
how many keys there are, since when the oldest is so, and one of them. The groups that fail come first. Controllers that
do not answer are named on stderr; the exit code is 7 only if none answers.`,
		Example: `  nagi why websites/shop/blog
  nagi why websites blog -n shop -o json
  nagi why websites
  nagi why`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: t.completeAsked,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			if len(args) == 0 && t.plain.Bucket == "" {
				return s.whyAll(cmd.Context(), nil, f)
			}
			a, err := s.target(cmd.Context(), args, f.namespace)
			if err != nil {
				return err
			}
			if a.key == "" {
				return s.whyAll(cmd.Context(), a.kind, f)
			}
			return s.whyKey(cmd.Context(), a, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the key, or of the keys to tell of; takes the right for that namespace alone")
	flags.BoolVarP(&f.watch, "watch", "w", false,
		"with a KEY: follow, drawn again on a terminal, else a line for each change")
	flags.IntVar(&f.most, "most", 20, "without a KEY: how many groups to show at most; 0 for all")
	oneOf(cmd, &f.output, "text", "json", "yaml")
	return cmd
}

// asked is a controller that is to be asked, and the kind that it looks after.
type asked struct {
	ask.Controller
	kind *kinds.Kind
	of   *registry.Controller // nil if the registry does not have it
}

// askedOf are the controllers of a kind, or of all kinds if it is nil; --controller names one.
func (s *session) askedOf(ctx context.Context, k *kinds.Kind) (all []asked, err error) {
	if k != nil {
		controllers, err := s.controllers(k)
		for _, c := range controllers {
			all = append(all, asked{c, k, published(k, c.Name)})
		}
		return all, err
	}
	found, err := s.kinds(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range found.Entries {
		k := &kinds.Kind{Entry: e, Registered: true}
		for i, c := range e.Controllers {
			if name := s.t.plain.controller; name == "" || name == c.Name {
				all = append(all, asked{s.controller(c.Name), k, &e.Controllers[i]})
			}
		}
	}
	return all, nil
}

func published(k *kinds.Kind, name string) *registry.Controller {
	for i := range k.Controllers {
		if k.Controllers[i].Name == name {
			return &k.Controllers[i]
		}
	}
	return nil
}

// mostAsked is how many controllers are asked at once.
const mostAsked = 16

// eachAsked calls do for each of some controllers, several at once, and returns when all have returned.
func eachAsked(all []asked, do func(i int, c asked)) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, mostAsked)
	for i, c := range all {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			do(i, c)
		})
	}
	wg.Wait()
}

// denied reports whether an error says that the user may not.
func denied(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || apierrors.IsForbidden(err)
}

// tellNamespace says what a user may have the right for who may not ask about all keys.
func (t *tool) tellNamespace(err error, namespace string) {
	if namespace == "" && denied(err) {
		t.Notef("nagi: -n NAMESPACE takes the right for that namespace alone\n")
	}
}

// unanswered is a controller that gave no answer, and why.
type unanswered struct {
	Controller string `json:"controller"`
	Error      string `json:"error"`
	err        error
}

func noAnswerOf(c asked, err error) unanswered {
	return unanswered{c.Name, printable.Message(err.Error()), err}
}

// tellUnanswered says on stderr who did not answer, and returns how the command ends if nobody did: silent, since it is
// said.
func (t *tool) tellUnanswered(ctx context.Context, without []unanswered, answers int) error {
	for _, u := range without {
		t.Notef("nagi: %s\n", u.Error)
	}
	if answers > 0 || len(without) == 0 {
		return nil
	}
	return &coded{code: codeOf(ctx, without[0].err), err: without[0].err, silent: true}
}

// completeAsked completes KIND.
func (t *tool) completeAsked(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return t.completeKinds(cmd, args, typed)
}
