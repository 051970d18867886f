package cli

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
)

func (t *tool) treeCommands() []*cobra.Command {
	return []*cobra.Command{t.treeCommand(), t.traceCommand()}
}

func (t *tool) treeCommand() *cobra.Command {
	var namespace, output string
	var ascii, watch bool
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "tree KIND/KEY",
		Short: "Show all that a document owns, down to the leaves, with the state of each",
		Long: `tree shows a document, what it owns, what that owns, and so on: documents in NATS by the marks that name
their owner, objects in Kubernetes by the same marks in their labels, and what Kubernetes makes for these (ReplicaSets,
Pods, Jobs and the like) by ownerReferences. What is behind other APIs its controller knows, and says: what it listed
last for the document and when, what goes on there, what a teardown still owes, and which API is away since when.

Kubernetes is looked at with --kubeconfig or --kube-context, with $KUBECONFIG, or in a Pod of the cluster. Who may not
list a resource in all namespaces sees that of the document's namespace, and of those of --kube-namespace or else of the
kubeconfig's context; what could not be looked at is named, with the kubectl auth can-i that tells about the right.`,
		Example:           "  nagi tree websites/shop/home\n  nagi tree websites home -n shop -o json",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: t.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, a, err := t.keyed(cmd.Context(), args, namespace)
			if err != nil {
				return err
			}
			show := func(b *tree.Builder, to *out.Streams) error {
				root, err := b.Tree(cmd.Context(), a.kind, a.key)
				if err != nil {
					return err
				}
				if err := printTree(to, root, output, ascii); err != nil {
					return err
				}
				if below := tree.Unsought(root); len(below) > 0 && !cluster.deep && !watch {
					t.Notef("nagi: what these own in Kubernetes is looked for with --deep only: %s\n",
						printable.Text(strings.Join(below, ", ")))
				}
				return nil
			}
			if watch {
				return s.watchTree(cmd.Context(), &cluster, show)
			}
			b, err := s.builder(cmd.Context(), &cluster, nil)
			if err != nil {
				return err
			}
			defer t.TellIfSlow("Reading the buckets of what it owns …")()
			return show(b, &t.Streams)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the key")
	flags.BoolVarP(&watch, "watch", "w", false, "show it again when something changes, until you stop it")
	flags.BoolVar(&ascii, "ascii", false, "draw with plain ASCII")
	cluster.register(cmd, true)
	oneOf(cmd, &output, "tree", "json", "yaml")
	return cmd
}

func printTree(to *out.Streams, root *tree.Node, output string, ascii bool) error {
	switch output {
	case "json":
		return to.JSON(root)
	case "yaml":
		return to.YAML(root)
	}
	table := to.NewTable("object", "state", "message")
	for _, line := range tree.Lines(root, ascii) {
		if err := table.Cells(cellsOf(line.Prefix, line.Node)...); err != nil {
			return err
		}
	}
	return table.Flush()
}

// cellsOf are a node's: its name behind what is drawn, its state, and what there is to say of it.
func cellsOf(prefix string, n *tree.Node) []out.Cell {
	state, message := n.State, n.Message
	if state == "" && n.Key != "" {
		state = "-"
	}
	if n.Note != "" {
		message = strings.Trim(message+" ("+n.Note+")", " ")
		if n.Key == "" || n.Message == "" {
			message = n.Note
		}
	}
	name := n.Argument()
	if n.Key == "" || n.In == registry.InExternal {
		name = places[n.In] + ": " + name
	}
	return []out.Cell{{Text: prefix + name}, {Text: state, Tone: toneOfHealth(n.Health)}, {Text: message}}
}

var places = map[string]string{
	registry.InNATS: "NATS", registry.InKubernetes: "Kubernetes", registry.InExternal: "Outside",
}

func toneOfHealth(h tree.Health) out.Tone {
	switch h {
	case tree.Good:
		return out.Good
	case tree.Bad:
		return out.Bad
	case tree.Waiting:
		return out.Warn
	}
	return out.Plain
}

// watchTree shows a tree or a trace again whenever something in it changes: in NATS at once, elsewhere within seconds.
func (s *session) watchTree(
	ctx context.Context, flags *clusterFlags, show func(*tree.Builder, *out.Streams) error,
) error {
	changed := make(chan struct{}, 1)
	b, err := s.builder(ctx, flags, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for last := ""; ; {
		var text, besides bytes.Buffer
		to := s.t.Streams
		to.Out, to.Err = &text, &besides
		switch err := show(b, &to); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case text.String() != last:
			s.redraw(last == "", text.String())
			s.t.Notef("%s", besides.String())
			last = text.String()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			// What changes together is shown together.
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(gatherTime):
			}
		case <-look.C:
		}
	}
}

// lookInterval is how often Kubernetes is looked at for changes, and controllers are asked what is behind APIs.
const lookInterval = 5 * time.Second

// gatherTime is for how long changes are gathered before they are shown.
const gatherTime = 200 * time.Millisecond

// redraw shows a text in the place of the last one; where that cannot be, below it.
func (s *session) redraw(first bool, text string) {
	switch {
	case s.t.Terminal:
		s.t.Printf("\x1b[H\x1b[2J\x1b[3J%s", text)
	case first:
		s.t.Printf("%s", text)
	default:
		s.t.Printf("\n%s", text)
	}
}
