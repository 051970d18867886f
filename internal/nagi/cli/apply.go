package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/dryrun"
	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// lastApplied is the annotation that has the names of the members that apply has set, without their values.
	lastApplied = "nagi/last-applied"
	// setLabel names the set that a document is applied with, for --prune.
	setLabel = "nagi/set"
)

// applying is one run of apply, or of create.
type applying struct {
	*session
	files        fileFlags
	output, set  string
	dryRun, diff bool
	createOnly   bool
	prune        bool
	sure         sure
	lasts        ttlFlags
	wait         bool
	waitTimeout  time.Duration
	results      []result
	touched      []*item
}

func (t *tool) applyCommand() *cobra.Command {
	a := &applying{}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make documents what files say",
		Long: `Make documents what files say: those that are not there are created, the others changed.

Files have YAML or JSON, and any number of documents each. A document has a kind, an apiVersion if its kind has one,
metadata.name, and metadata.namespace or -n; with --bucket it needs no kind.

What a file names becomes as the file says, what it named when it was applied last and names no more is removed, and
all else stays as others wrote it. Lists are replaced as a whole. So that apply knows what it named, it keeps the names
of these members, without values, in the annotation nagi/last-applied. A secret that the file shows as (secret) keeps
its value.

All files are read and checked against the schemas before the first document is written. Members that a kind does not
know are told and kept; --strict refuses them. Each document is written by compare-and-set, and one that is as the file
says is not written. Where the file has metadata.resourceVersion, as what nagi get -o yaml prints, it is written only if
the document is at that revision still.

With --ttl the server removes the documents when that time has passed since this apply. Each apply with it sets the
time anew, so it writes also what is unchanged, and tells that as renewed if it had a TTL before. Without --ttl what is
left of a document's TTL stays, and --no-ttl removes it. A TTL above the age limit of the bucket is refused.

--dry-run writes nothing, and refuses what a write would refuse before it is sent, such as a TTL that cannot be.

--set NAME labels the documents with nagi/set: NAME; with --prune, documents with this label that are in no file are
deleted, after they were counted and confirmed.`,
		Example: `  echo '{"kind":"Website","metadata":{"name":"new","namespace":"shop"}}' | nagi apply -f - --wait
  echo '{"metadata":{"name":"shop.mini"},"spec":{"title":"Mini"}}' | nagi apply -f - --bucket pages --dry-run --diff
  echo '{"kind":"Website","metadata":{"name":"demo"},"spec":{"pages":1}}' | nagi apply -f - -n shop --ttl 24h
  echo '{"kind":"Website","metadata":{"name":"demo"},"spec":{"pages":1}}' | nagi apply -f - -n shop --no-ttl
  echo '{"kind":"Website","metadata":{"name":"new"},"spec":{"pages":1000}}' | nagi apply -f - -n shop  # exit code 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), t) },
	}
	a.registerCommon(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&a.diff, "diff", false, "show what changes in each document")
	flags.StringVar(&a.set, "set", "", "the set that these documents are: the label nagi/set of each")
	flags.BoolVar(&a.prune, "prune", false, "with --set: delete documents of the set that are in no file")
	a.sure.register(cmd)
	a.lasts.registerNone(cmd)
	return cmd
}

func (a *applying) registerCommon(cmd *cobra.Command) {
	a.files.registerFiles(cmd)
	a.files.register(cmd)
	a.lasts.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&a.dryRun, "dry-run", false, "say what would happen, and write nothing")
	flags.BoolVar(&a.wait, "wait", false, "wait until the controllers have reconciled the documents")
	flags.DurationVar(&a.waitTimeout, "wait-timeout", 5*time.Minute, "how long to wait for all of them")
	oneOf(cmd, &a.output, "text", "name", "json", "yaml")
}

func (t *tool) createCommand() *cobra.Command {
	a := &applying{createOnly: true}
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create documents of files, and refuse those that there are",
		Long: `Create documents of files, and refuse those that there are. Files are as nagi apply has them.
A metadata.resourceVersion means nothing here. A later apply of the same files takes over what create has written.
With --ttl the documents are there with their TTL from the beginning.`,
		Example: `  echo '{"kind":"Website","metadata":{"name":"fresh"},"spec":{"pages":1}}' | nagi create -f - -n shop
  echo '{"kind":"Website","metadata":{"name":"trial"},"spec":{"pages":1}}' | nagi create -f - -n shop --ttl 90m
  echo '{"kind":"Website","metadata":{"name":"home"}}' | nagi create -f - -n shop  # exit code 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), t) },
	}
	a.registerCommon(cmd)
	return cmd
}

func (a *applying) run(ctx context.Context, t *tool) (err error) {
	if a.prune && a.set == "" {
		return usage(errors.New("--prune needs --set NAME, which says of what the files are all"))
	}
	if wrong := validation.IsValidLabelValue(a.set); len(wrong) > 0 {
		return usage(fmt.Errorf("--set %s is no value of a label: %s", printable.Quote(a.set),
			strings.Join(wrong, "; ")))
	}
	if err := a.lasts.check(); err != nil {
		return err
	}
	if a.session, err = t.connect(); err != nil {
		return err
	}
	items, err := a.items(ctx, &a.files)
	if err != nil {
		return err
	}
	err = t.each(ctx, len(items), func(ctx context.Context, i int) error { return a.one(ctx, items[i]) })
	if err == nil && a.prune {
		err = a.pruneSet(ctx, items)
	}
	if printed := a.print(); printed != nil {
		return printed
	}
	if err == nil && a.wait && !a.dryRun {
		err = a.waitAll(ctx)
	}
	return err
}

// one applies one document.
func (a *applying) one(ctx context.Context, it *item) error {
	c, err := a.writer(ctx, it.kind)
	if err != nil {
		return err
	}
	if a.dryRun {
		ctx = context.WithValue(ctx, dryrun.Key{}, dryrun.New())
	}
	says := ""
	was, is, err := a.change(ctx, c, it.target, func(now *current) (map[string]any, error) {
		if err := a.isAsNamed(it, now); err != nil {
			return nil, err
		}
		wanted, err := a.wanted(it, now)
		if err != nil {
			return nil, err
		}
		if a.createOnly && now.exists() {
			return nil, withCode(CodeRefused, fmt.Errorf("it is there already, at revision %d: apply changes it",
				now.revision))
		}
		switch {
		case !now.exists():
			says = "created"
		case now.object == nil && a.lasts.ttl > 0:
			return nil, withCode(CodeRefused, errNoObject)
		case now.object == nil || len(threeway.Diff(now.object, wanted)) > 0:
			says = "configured"
		default:
			if says, err = a.unchanged(ctx, c, it.key); err != nil {
				return nil, err
			}
		}
		if a.diff {
			a.t.showDiff(a.t.besides(a.output), it.target, now.object, wanted)
		}
		if says == "unchanged" {
			return nil, nil
		}
		return wanted, nil
	}, a.lasts.options()...)
	if err != nil {
		return fmt.Errorf("%s: %w", it.String(), err)
	}
	revision := was.revision
	if is != nil && !a.dryRun && (a.wait || a.output == "json" || a.output == "yaml") {
		now, err := a.read(ctx, c, it.key)
		if err != nil {
			return err
		}
		revision = now.revision
	}
	a.touched = append(a.touched, it)
	return a.tell(it.target, says, revision)
}

// wanted is what a document becomes.
func (a *applying) wanted(it *item, now *current) (map[string]any, error) {
	document := deepCopy(it.document)
	if err := unhide(it.kind, document, now); err != nil {
		return nil, err
	}
	if a.createOnly {
		return document, nil
	}
	meta := object(document["metadata"])
	if meta == nil {
		meta = map[string]any{}
		document["metadata"] = meta
	}
	if a.set != "" {
		labels := object(meta["labels"])
		if labels == nil {
			labels = map[string]any{}
			meta["labels"] = labels
		}
		labels[setLabel] = a.set
	}
	names, err := manifests.JSON(threeway.Names(document))
	if err != nil {
		return nil, err
	}
	wanted := threeway.Apply(appliedLast(now.object), document, now.object)
	annotate(wanted, lastApplied, string(names))
	return wanted, nil
}

// appliedLast are the names of what was applied last; nil if nothing was, or that is not known.
func appliedLast(document map[string]any) map[string]any {
	text, _ := object(object(document["metadata"])["annotations"])[lastApplied].(string)
	names, err := manifests.FromJSON([]byte(text))
	if err != nil {
		return nil
	}
	return names
}

// annotate sets an annotation of a document, in copies of the objects above it.
func annotate(document map[string]any, name, value string) {
	meta := deepCopy(object(document["metadata"]))
	annotations := object(meta["annotations"])
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[name] = value
	meta["annotations"] = annotations
	document["metadata"] = meta
}

// waitAll waits until all documents are reconciled.
func (a *applying) waitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.waitTimeout)
	defer cancel()
	for i, it := range a.touched {
		if it.kind.StatusBucket == "" {
			a.t.Notef("%s: nobody keeps records of %s, so there is nothing to wait for\n", it.String(),
				printable.Text(it.kind.Bucket))
			continue
		}
		if err := a.waitReconciled(ctx, it.target, a.results[i].Revision); err != nil {
			return err
		}
	}
	return nil
}
