package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// getting is one run of get.
type getting struct {
	namespace, selector, output string
	allNamespaces, watch, notOK bool
	selects                     labels.Selector
}

func (t *tool) getCommand() *cobra.Command {
	var g getting
	cmd := &cobra.Command{
		Use:   "get KIND [KEY…] | get KIND/KEY… | get --not-ok [KIND]",
		Short: "List documents, or show some, or all that is not well",
		Long: `Get lists the documents of a kind in the columns that the registry has for it, as they stream by: however
many there are, they are not held. Of kinds with namespaces it lists all of them, or one with -n.

With keys it shows these. Those that are not there are named at the end, with exit code 3. With -o json or yaml one key
gives the document, and several, or none, a list as kubectl prints it. The status is that of the record, and fields
that are marked as secret are hidden. With -o jsonpath a template that is one {range .items[*]}…{end} is applied
as documents come; for any other all are held. It is in kubectl's dialect.

Documents with a TTL say when they end, in the annotation nagi/expires-at, which none of them has itself, and with
-o wide in how long.

With -w it goes on with what changes until it is interrupted: documents that are written or deleted, and what
controllers record about them.

With --not-ok it shows what is not well, of all kinds or of one, that which has been so longest first. The
controllers are asked, and where none answers the records are read. The exit code is 4 if there is anything.`,
		Example: `  nagi get websites
  nagi get websites -n shop -l tier=gold -o wide
  nagi get websites shop/home -o yaml
  nagi get websites/shop/home websites/lab/old -o name
  nagi get websites -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}'
  nagi get websites shop/nosuch  # exit code 3
  nagi get --not-ok              # exit code 4
  nagi get --bucket pages --namespaced --status-bucket -`,
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			if g.allNamespaces && g.namespace != "" {
				return usage(errors.New("-n names a namespace and -A asks for all: give one of them"))
			}
			if g.selects, err = labels.Parse(g.selector); err != nil {
				return usage(fmt.Errorf("-l: %w", err))
			}
			err = s.get(cmd.Context(), &g, args)
			if g.watch && cmd.Context().Err() != nil {
				return nil // who watches ends it so
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&g.namespace, "namespace", "n", "", "only documents of this namespace")
	flags.BoolVarP(&g.allNamespaces, "all-namespaces", "A", false, "documents of all namespaces, as without -n")
	flags.StringVarP(&g.selector, "selector", "l", "", "only documents with these labels: tier=gold,zone!=west,owner")
	flags.BoolVarP(&g.watch, "watch", "w", false, "go on with what changes")
	flags.BoolVar(&g.notOK, "not-ok", false, "what is not well, of all kinds or of KIND")
	oneOf(cmd, &g.output, "table", "wide", "yaml", "json", "jsonpath=", "name")
	return cmd
}

// kindKeys are keys of one kind; none means all.
type kindKeys struct {
	kind *kinds.Kind
	keys []string
}

// byKind reads "KIND", "KIND KEY…" and "KIND/KEY…", and with --bucket "KEY…". Keys of one kind that follow each other
// are together.
func (s *session) byKind(ctx context.Context, args []string, namespace string) (all []kindKeys, err error) {
	add := func(a target) {
		if len(all) == 0 || all[len(all)-1].kind.Name() != a.kind.Name() {
			all = append(all, kindKeys{kind: a.kind})
		}
		if a.key != "" {
			all[len(all)-1].keys = append(all[len(all)-1].keys, a.key)
		}
	}
	kind, each := "", args
	if s.t.plain.Bucket == "" && len(args) > 1 && !strings.Contains(args[0], "/") {
		kind, each = args[0], args[1:]
	}
	if len(each) == 0 {
		each = []string{""}
	}
	for _, one := range each {
		of := []string{one}
		switch {
		case kind != "":
			of = []string{kind, one}
		case one == "":
			of = nil
		case len(args) > 1 && s.t.plain.Bucket == "" && !strings.Contains(one, "/"):
			return nil, usage(fmt.Errorf("%s has no key: if one argument is KIND/KEY, all are", printable.Quote(one)))
		}
		a, err := s.target(ctx, of, namespace)
		if err != nil {
			return nil, err
		}
		add(a)
	}
	return all, nil
}

func (s *session) get(ctx context.Context, g *getting, args []string) error {
	if g.notOK {
		return s.getNotOK(ctx, g, args)
	}
	all, err := s.byKind(ctx, args, g.namespace)
	if err != nil {
		return err
	}
	if g.namespace != "" && !all[0].kind.Namespaced {
		return hasNoNamespaces(all[0].kind)
	}
	single := len(all) == 1 && len(all[0].keys) == 1
	if g.watch && len(all) > 1 {
		return usage(errors.New("-w watches documents of one kind"))
	}
	p, err := s.t.newPrinter(g, len(all) > 1, single)
	if err != nil {
		return err
	}
	var missing error
	for _, one := range all {
		if err := p.begin(one.kind); err != nil {
			return err
		}
		switch {
		case g.watch:
			err = s.watch(ctx, g, one, p)
		case len(one.keys) > 0:
			err = s.getKeys(ctx, g, one, p, &missing)
		default:
			err = s.list(ctx, g, one.kind, p)
		}
		if err != nil {
			return errors.Join(p.flush(), err)
		}
	}
	if single && missing != nil {
		return missing
	}
	if err := p.end(); err != nil {
		return err
	}
	if p.count() == 0 && missing == nil && !g.watch {
		s.t.Notef("There are no documents%s.\n", g.where())
	}
	return missing
}

// where says what was looked for.
func (g *getting) where() (says string) {
	if g.namespace != "" {
		says = " in namespace " + printable.Text(g.namespace)
	}
	if g.selector != "" {
		says += " with labels " + printable.Text(g.selector)
	}
	return says
}

func (s *session) reader(k *kinds.Kind) *documents.Reader {
	return documents.New(s.js, k, s.t.flags.Timeout)
}

// getKeys shows those of the keys that are there; the others are named one by one, and missing is what to end with.
func (s *session) getKeys(ctx context.Context, g *getting, of kindKeys, p printer, missing *error) error {
	r := s.reader(of.kind)
	for _, key := range of.keys {
		d, err := r.Get(ctx, key)
		if apierrors.IsNotFound(err) {
			if *missing != nil {
				s.t.Notef("nagi: %s\n", printable.Message((*missing).Error()))
			}
			*missing = err
			continue
		}
		if err != nil {
			return err
		}
		if view := of.kind.View(d); g.selected(view) {
			of.kind.Hide(view)
			if err := p.show(documents.Change{Document: d}, view); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *getting) query() documents.Query {
	q := documents.Query{Namespace: g.namespace}
	if g.output == "name" {
		q.WithoutRecords, q.KeysOnly = true, g.selects.Empty()
	}
	return q
}

func (s *session) list(ctx context.Context, g *getting, k *kinds.Kind, p printer) error {
	for d, err := range s.reader(k).List(ctx, g.query()) {
		if err != nil {
			return err
		}
		view := k.View(d)
		if !g.selected(view) {
			continue
		}
		k.Hide(view)
		if err := p.show(documents.Change{Document: d}, view); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) watch(ctx context.Context, g *getting, of kindKeys, p printer) error {
	var flushed error
	changes := s.reader(of.kind).Watch(ctx, g.query(), func() { flushed = p.flush() })
	for c, err := range changes {
		if err = errors.Join(err, flushed); err != nil {
			return err
		}
		if len(of.keys) > 0 && !slices.Contains(of.keys, c.Key) {
			continue
		}
		view := of.kind.View(c.Document)
		if c.Value != nil && !g.selected(view) {
			continue
		}
		of.kind.Hide(view)
		if err := p.show(c, view); err != nil {
			return err
		}
		if c.What != documents.Listed {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// selected reports whether a document has the labels that are asked for.
func (g *getting) selected(view map[string]any) bool {
	if g.selects.Empty() {
		return true
	}
	set := labels.Set{}
	if meta, ok := view["metadata"].(map[string]any); ok {
		of, _ := meta["labels"].(map[string]any)
		for name, value := range of {
			if value, ok := value.(string); ok {
				set[name] = value
			}
		}
	}
	return g.selects.Matches(set)
}
