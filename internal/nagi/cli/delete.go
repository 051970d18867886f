package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
)

// deleting is one run of delete.
type deleting struct {
	*session
	files            fileFlags
	selector, output string
	all, show, wait  bool
	ignoreMissing    bool
	waitTimeout      time.Duration
	sure             sure
}

func (t *tool) deleteCommand() *cobra.Command {
	d := &deleting{}
	cmd := &cobra.Command{
		Use:   "delete KIND/KEY…",
		Short: "Delete documents, and say first what goes with them",
		Long: `Delete documents: those that are named, those of files (-f), or those of a kind that a selector
(-l) or --all names, of a namespace with -n. What their controllers delete with them is counted and told first; --show
does nothing else.

One document that is named is deleted at once. For more there is a question, or --yes, or --expect N, which goes on
only if it is that many. A document that has changed since it was counted stays.`,
		Example: `  nagi delete websites/shop/home --show
  nagi delete websites/shop/home --wait
  nagi delete websites -n shop -l tier=tin --expect 1
  nagi delete websites -n shop -l tier=tin --expect 7  # exit code 5`,
		ValidArgsFunction: t.completeTargets,
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), t, args) },
	}
	d.files.registerFiles(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&d.selector, "selector", "l", "", "delete those whose labels are so: tier=gold,!old")
	flags.BoolVar(&d.all, "all", false, "delete all documents of the kind; with -n, of the namespace")
	flags.BoolVar(&d.show, "show", false, "show what would go, and delete nothing")
	flags.BoolVar(&d.ignoreMissing, "ignore-not-found", false, "it is no error if a document is not there")
	flags.BoolVar(&d.wait, "wait", false, "wait until what the documents owned is gone, too")
	flags.DurationVar(&d.waitTimeout, "wait-timeout", 5*time.Minute, "how long to wait for all of them")
	d.sure.register(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if flags.Changed("namespace") && d.files.namespace == "" {
			return usage(errors.New("-n names no namespace: leave it out if documents of all are meant"))
		}
		return nil
	}
	oneOf(cmd, &d.output, "text", "name", "json", "yaml")
	return cmd
}

func (d *deleting) run(ctx context.Context, t *tool, args []string) (err error) {
	if d.session, err = t.connect(); err != nil {
		return err
	}
	gone, err := d.find(ctx, args)
	if err != nil {
		return err
	}
	if d.show {
		return d.showAll(ctx, gone)
	}
	if len(gone) == 0 && d.sure.expect <= 0 {
		t.Notef("There is nothing to delete.\n")
		return nil
	}
	if err := d.announce(ctx, gone); err != nil {
		return err
	}
	byKey := d.selector == "" && !d.all && len(gone) == 1
	if !byKey || d.sure.expect >= 0 {
		t.noteDoomed(d.sure, gone)
		if err := t.confirm(ctx, d.sure, len(gone), count(len(gone), "document")); err != nil {
			return err
		}
	}
	var results []result
	err = t.each(ctx, len(gone), func(ctx context.Context, i int) error {
		if err := d.remove(ctx, gone[i]); err != nil {
			return err
		}
		of := gone[i].target
		results = append(results, result{Kind: of.kind.Name(), Bucket: of.kind.Bucket, Key: of.key, Result: "deleted"})
		switch d.output {
		case "text":
			t.Printf("%s deleted\n", of.String())
		case "name":
			t.Printf("%s\n", of.String())
		}
		return nil
	})
	if d.output == "json" || d.output == "yaml" {
		if printed := d.printAs(d.output, results); printed != nil {
			return printed
		}
	}
	if err == nil && d.wait {
		err = d.waitAllDeleted(ctx, gone)
	}
	return err
}

// printAs prints a value as JSON or YAML.
func (s *session) printAs(format string, v any) error {
	if format == "yaml" {
		return s.t.YAML(v)
	}
	return s.t.JSON(v)
}

func (d *deleting) waitAllDeleted(ctx context.Context, gone []doomed) error {
	ctx, cancel := context.WithTimeout(ctx, d.waitTimeout)
	defer cancel()
	for _, one := range gone {
		if err := d.waitDeleted(ctx, one.target); err != nil {
			return err
		}
	}
	return nil
}

// find finds the documents that a command line names.
func (d *deleting) find(ctx context.Context, args []string) ([]doomed, error) {
	chosen := d.selector != "" || d.all
	switch {
	case len(d.files.names) > 0 && (len(args) > 0 || chosen):
		return nil, usage(errors.New("-f names the documents: give neither KIND, nor -l or --all"))
	case len(d.files.names) > 0:
		d.files.noValidate = true
		items, err := d.items(ctx, &d.files)
		if err != nil {
			return nil, err
		}
		var of []target
		for _, it := range items {
			of = append(of, it.target)
		}
		return d.named(ctx, of)
	case chosen:
		a, err := d.target(ctx, args, "")
		if err == nil && a.key != "" {
			err = usage(errors.New("a key says which document it is: leave -l and --all out"))
		}
		if err == nil && d.files.namespace != "" && !a.kind.Namespaced {
			err = usage(fmt.Errorf("the keys of %s have no namespace: leave -n out", printable.Text(a.kind.Name())))
		}
		if err != nil {
			return nil, err
		}
		return d.selected(ctx, a.kind)
	}
	of, err := d.targets(ctx, args, d.files.namespace)
	if err != nil {
		return nil, err
	}
	return d.named(ctx, of)
}

// targets reads "KIND/KEY KIND/KEY", "KIND KEY KEY", and with --bucket "KEY KEY".
func (s *session) targets(ctx context.Context, args []string, namespace string) (all []target, err error) {
	prefix := []string{}
	if s.t.plain.Bucket == "" && len(args) > 0 && !strings.Contains(args[0], "/") {
		prefix, args = args[:1], args[1:]
	}
	if len(args) == 0 {
		return nil, usage(errNoKey)
	}
	for _, arg := range args {
		a, err := s.keyed(ctx, append(prefix[:len(prefix):len(prefix)], arg), namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// named reads documents. One that is named twice counts once.
func (d *deleting) named(ctx context.Context, of []target) (gone []doomed, err error) {
	seen := map[string]bool{}
	for _, a := range of {
		if seen[a.String()] {
			continue
		}
		seen[a.String()] = true
		c, err := d.writer(ctx, a.kind)
		if err != nil {
			return nil, err
		}
		now, err := d.existing(ctx, c, a)
		if d.ignoreMissing && codeOf(ctx, err) == CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		gone = append(gone, doomed{a, now.revision, now.value})
	}
	return gone, nil
}

// selected finds the documents of a kind whose labels match.
func (d *deleting) selected(ctx context.Context, k *kinds.Kind) (gone []doomed, err error) {
	selector, err := labels.Parse(d.selector)
	if err != nil {
		return nil, usage(fmt.Errorf("-l: %w", err))
	}
	err = d.scan(ctx, k, d.files.namespace, func(one kinds.Document) error {
		document, _ := manifests.FromJSON(one.Value)
		set := labels.Set{}
		for name, v := range object(object(document["metadata"])["labels"]) {
			if text, ok := v.(string); ok {
				set[name] = text
			}
		}
		if selector.Matches(set) {
			gone = append(gone, doomed{target{k, one.Key}, one.Revision, bytes.Clone(one.Value)})
		}
		return nil
	})
	slices.SortFunc(gone, func(a, b doomed) int { return strings.Compare(a.key, b.key) })
	return gone, err
}

// showAll shows what would go.
func (d *deleting) showAll(ctx context.Context, gone []doomed) error {
	goes, err := d.cascadeOf(ctx, gone)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(gone))
	for _, one := range gone {
		names = append(names, one.String())
	}
	if d.output == "json" || d.output == "yaml" {
		return d.printAs(d.output, map[string]any{"delete": names, "cascade": goes})
	}
	table := d.t.NewTable("document", "goes with")
	for i, one := range gone {
		with := ""
		if one.orphans() {
			with = "alone: what it owns stays (deletion-policy orphan)"
		}
		if err := table.Row(names[i], with); err != nil {
			return err
		}
	}
	for _, one := range goes.Documents {
		if err := table.Row(one.Kind+"/"+one.Key, one.Owner); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	d.t.Notef("%s would be deleted, and %s with them.\n", count(len(gone), "document"),
		count(len(goes.Documents), "document"))
	for _, more := range slices.Concat(goes.MayStay, goes.Elsewhere, goes.NotCounted) {
		d.t.Notef("Not counted: %s\n", more)
	}
	return nil
}
