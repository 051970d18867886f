package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (t *tool) waitCommand() *cobra.Command {
	var until, namespace, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait KIND/KEY",
		Short: "Wait until a document is reconciled, deleted, or as you say",
		Long: `Wait until a document is as --for says:

  reconciled               the revision that is there now is reconciled, or a later one; fails at once if that was
                           given up, is invalid or suspended, or if the document goes
  deleted                  the document is gone, and so is all that it owned
  condition=TYPE[=STATUS]  its record, or its status, has a condition with this status; without one, True
  jsonpath=PATH[=VALUE]    a path finds something, or this value, in the document with its status and its record
                           (see docs/kinds.md): '{.status.url}' as kubectl has it, or '$.status.url'

It ends with the exit code 4 at the end of --wait-timeout, or where waiting is in vain, and says why.`,
		Example: `  nagi wait websites/shop/home
  nagi wait websites/shop/home --for=condition=Reconciled
  nagi wait websites/shop/home --for='jsonpath={.status.url}=https://home.example'
  nagi wait websites/shop/cart --wait-timeout 1s -o json  # exit code 4
  nagi wait websites/shop/blog  # exit code 4
  nagi wait websites/shop/none --for=deleted`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, a, err := t.keyed(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if cmd.Flag("timeout").Changed && !cmd.Flag("wait-timeout").Changed {
				t.Notef("nagi: --timeout is for one answer, as in each command; --wait-timeout says how long to wait "+
					"for the document, which is %v now\n", timeout)
			}
			err = s.waitFor(ctx, a, until)
			return t.tellWaited(cmd.Context(), a, until, output, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&until, "for", "reconciled",
		"reconciled, deleted, condition=TYPE[=STATUS] or jsonpath=PATH[=VALUE]")
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the document")
	flags.DurationVar(&timeout, "wait-timeout", 5*time.Minute, "how long to wait")
	oneOf(cmd, &output, "text", "json", "yaml")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(
		[]string{"reconciled", "deleted", "condition=", "jsonpath="}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// waited is how a wait ended.
type waited struct {
	Kind   string `json:"kind"`
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	For    string `json:"for"`
	Is     bool   `json:"is"`             // false with exit code 4
	Says   string `json:"says,omitempty"` // why not
}

func (t *tool) tellWaited(ctx context.Context, a target, until, output string, err error) error {
	if err != nil && codeOf(ctx, err) != CodeNotSo {
		return err
	}
	if output == "text" && err == nil {
		t.Printf("%s %s\n", a, printable.Text(until))
	}
	w := waited{Kind: a.kind.Name(), Bucket: a.kind.Bucket, Key: a.key, For: until, Is: err == nil}
	if err != nil {
		w.Says = err.Error()
	}
	if printed := t.as(output, w); printed != nil {
		return printed
	}
	return err
}

// waitFor waits for what --for says.
func (s *session) waitFor(ctx context.Context, a target, until string) error {
	what, of, _ := strings.Cut(until, "=")
	switch what {
	case "reconciled":
		return s.waitReconciled(ctx, a, 0)
	case "deleted", "delete": // kubectl has the second
		return s.waitDeleted(ctx, a)
	case "condition":
		return s.waitCondition(ctx, a, of)
	case "jsonpath":
		return s.waitPath(ctx, a, of)
	}
	return usage(fmt.Errorf("--for is %s: it is reconciled, deleted, condition=TYPE[=STATUS] or jsonpath=PATH[=VALUE]",
		printable.Quote(until)))
}

// watched is the kind with the records of the controller that --controller names, if it does.
func (s *session) watched(k *kinds.Kind) (*kinds.Kind, error) {
	name := s.t.plain.controller
	if name == "" || !k.Registered {
		return k, nil
	}
	for _, c := range k.Controllers {
		if c.Name == name {
			entry := *k.Entry
			entry.StatusBucket = c.StatusBucket
			return &kinds.Kind{Entry: &entry, Registered: true}, nil
		}
	}
	return nil, withCode(CodeNotFound, fmt.Errorf("the registry has no controller %s of %s", printable.Quote(name),
		printable.Text(k.Name())))
}

// waiting makes a client for a wait that reads records.
func (s *session) waiting(ctx context.Context, a target) (*client, error) {
	k, err := s.watched(a.kind)
	if err != nil {
		return nil, err
	}
	if k.StatusBucket == "" {
		return nil, usage(fmt.Errorf("nobody keeps records of %s, so there is nothing to wait for",
			printable.Text(k.Bucket)))
	}
	return s.client(ctx, k)
}

// waitReconciled waits until a revision is reconciled; 0 is the one that is there now.
func (s *session) waitReconciled(ctx context.Context, a target, revision uint64) error {
	c, err := s.waiting(ctx, a)
	if err != nil {
		return err
	}
	if revision == 0 {
		now, err := s.existing(ctx, c, a)
		if err != nil {
			return err
		}
		revision = now.revision
	}
	return notYet(ctx, entity.WaitReconciled(ctx, c, a.key, revision))
}

func (s *session) waitDeleted(ctx context.Context, a target) error {
	k, err := s.watched(a.kind)
	if err != nil {
		return err
	}
	c, err := s.client(ctx, k)
	if err != nil {
		return err
	}
	return notYet(ctx, entity.WaitDeleted(ctx, c, a.key))
}

func (s *session) waitCondition(ctx context.Context, a target, of string) error {
	kind, status, _ := strings.Cut(of, "=")
	if kind == "" {
		return usage(errors.New("--for=condition=TYPE names a condition: Reconciled"))
	}
	switch strings.ToLower(status) {
	case "", "true":
		status = string(metav1.ConditionTrue)
	case "false":
		status = string(metav1.ConditionFalse)
	case "unknown":
		status = string(metav1.ConditionUnknown)
	default:
		return usage(fmt.Errorf("the status of a condition is True, False or Unknown, and not %s",
			printable.Quote(status)))
	}
	c, err := s.waiting(ctx, a)
	if err != nil {
		return err
	}
	if _, err := c.Record(ctx, a.key); apierrors.IsNotFound(err) {
		if _, err := s.existing(ctx, c, a); err != nil {
			return err
		}
	}
	return notYet(ctx, entity.WaitForCondition(ctx, c, a.key, kind, metav1.ConditionStatus(status)))
}

// notYet gives the error of a wait its exit code: the time is over, or waiting is in vain.
func notYet(ctx context.Context, err error) error {
	_, vain := errors.AsType[*entity.NotReconciledError](err)
	if vain {
		return withCode(CodeNotSo, err)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		says := strings.TrimSuffix(err.Error(), ": "+context.DeadlineExceeded.Error())
		return withCode(CodeNotSo, fmt.Errorf("%s: the time is up", says))
	}
	return err
}
