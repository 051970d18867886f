package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/tree"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (t *tool) traceCommand() *cobra.Command {
	var namespace, output string
	var kubernetes, watch bool
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "trace OBJECT",
		Short: "Show what caused an object, up to the document that a person wrote",
		Long: `trace shows an object, what owns it, what owns that, and so on, each with its state. OBJECT is a document
(KIND/KEY), or an object in Kubernetes (RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME where there are no namespaces), which
is looked up where tree looks. A name that is both means the document, unless --kubernetes says otherwise.`,
		Example:           "  nagi trace pages/shop/home-0\n  nagi trace pages/shop/home-0 -o json",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: t.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			show := func(b *tree.Builder, to *out.Streams) error {
				of, err := s.traced(cmd.Context(), b, args, namespace, kubernetes)
				if err != nil {
					return err
				}
				steps, err := b.Trace(cmd.Context(), of)
				if err != nil {
					return err
				}
				return printTrace(to, steps, output)
			}
			if watch {
				return s.watchTree(cmd.Context(), &cluster, show)
			}
			b, err := s.builder(cmd.Context(), &cluster, nil)
			if err != nil {
				return err
			}
			defer t.TellIfSlow("Reading the buckets of what owns it …")()
			return show(b, &t.Streams)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the key")
	flags.BoolVarP(&watch, "watch", "w", false, "show it again when something changes, until you stop it")
	flags.BoolVar(&kubernetes, "kubernetes", false, "OBJECT is in Kubernetes")
	cluster.register(cmd, false)
	oneOf(cmd, &output, "table", "json", "yaml")
	return cmd
}

func printTrace(to *out.Streams, steps []*tree.Node, output string) error {
	switch output {
	case "json":
		return to.JSON(steps)
	case "yaml":
		return to.YAML(steps)
	}
	table := to.NewTable("object", "in", "state", "message")
	for _, n := range steps {
		cells := cellsOf("", n)
		if err := table.Cells(cells[0], out.Cell{Text: places[n.In]}, cells[1], cells[2]); err != nil {
			return err
		}
	}
	return table.Flush()
}

// traced reads what a trace begins with.
func (s *session) traced(
	ctx context.Context, b *tree.Builder, args []string, namespace string, kubernetes bool,
) (tree.Of, error) {
	name, key, _ := strings.Cut(strings.Join(args, "/"), "/")
	if namespace != "" && !strings.Contains(key, "/") {
		key = namespace + "/" + key
	}
	if key == "" && s.t.plain.Bucket == "" {
		return tree.Of{}, usage(errors.New("a key is needed: KIND/KEY, or RESOURCE/NAMESPACE/NAME"))
	}
	if !kubernetes {
		a, err := s.keyed(ctx, args, namespace)
		switch {
		case err == nil:
			return tree.Of{Kind: a.kind, Key: a.key}, nil
		case !apierrors.IsNotFound(err):
			return tree.Of{}, err
		}
		if kind := ownedKind(b.Kinds, name, strings.Contains(key, "/")); kind != nil {
			return tree.Of{Kind: kind, Key: key}, nil
		}
		if b.Cluster == nil {
			return tree.Of{}, fmt.Errorf("%w; for an object in Kubernetes, --kubeconfig names the cluster", err)
		}
	}
	if b.Cluster == nil {
		return tree.Of{}, usage(errors.New("which cluster? --kubeconfig or --kube-context names one"))
	}
	resource, namespaced, err := b.Cluster.Resource(name)
	if err == nil && namespaced && !strings.Contains(key, "/") {
		err = usage(fmt.Errorf("%s has a namespace: name it, as in %s/NAMESPACE/%s", resource.GroupResource(),
			printable.Text(name), printable.Text(key)))
	}
	return tree.Of{Resource: resource, Key: key}, err
}

// ownedKind finds a kind that the registry has not, but that a controller of another kind owns.
func ownedKind(all []*registry.Entry, name string, namespaced bool) *kinds.Kind {
	for _, e := range all {
		for _, c := range e.Controllers {
			for _, r := range c.Owns {
				if r.In == registry.InNATS && (strings.EqualFold(r.Bucket, name) || strings.EqualFold(r.Kind, name)) {
					return &kinds.Kind{Entry: &registry.Entry{
						Kind: r.Kind, APIVersion: r.APIVersion, Bucket: r.Bucket, StatusBucket: r.StatusBucket,
						Namespaced: namespaced,
					}}
				}
			}
		}
	}
	return nil
}
