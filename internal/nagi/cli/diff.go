package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/manifests"
	"github.com/nagi-runtime/nagi/internal/nagi/threeway"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// differing is one run of diff.
type differing struct {
	*session
	files    fileFlags
	revision uint64
	output   string
	found    []difference
}

// difference is how a document differs, as a merge patch from what it is or was.
type difference struct {
	Bucket string         `json:"bucket"`
	Key    string         `json:"key"`
	Patch  map[string]any `json:"patch"`
}

func (t *tool) diffCommand() *cobra.Command {
	d := &differing{}
	cmd := &cobra.Command{
		Use:   "diff -f FILE | KIND/KEY",
		Short: "Show what apply would change, or what has changed",
		Long: `Show what nagi apply would change with these files, as a unified diff. With KIND/KEY it shows how the
document differs from what it was at --revision N, if its bucket still has that, and else from the one that the
controller began with last, which its record has, without secrets. The exit code is 4 if there is a difference.`,
		Example: `  echo '{"kind":"Website","metadata":{"name":"home"},"spec":{}}' | nagi diff -f - -n shop
  echo '{"kind":"Website","metadata":{"name":"new"}}' | nagi diff -f - -n shop  # exit code 4
  nagi diff websites/shop/home
  nagi diff websites/shop/home --revision 999999  # exit code 3`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: t.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if d.session, err = t.connect(); err != nil {
				return err
			}
			if len(args) > 0 || t.plain.Bucket != "" && len(d.files.names) == 0 {
				err = d.key(cmd.Context(), args)
			} else {
				err = d.ofFiles(cmd.Context())
			}
			if err == nil && (d.output == "json" || d.output == "yaml") {
				err = d.printAs(d.output, append([]difference{}, d.found...))
			}
			if err == nil && len(d.found) > 0 {
				err = notSo()
			}
			return err
		},
	}
	d.files.registerFiles(cmd)
	d.files.register(cmd)
	cmd.Flags().Uint64Var(&d.revision, "revision", 0, "what the document was at this revision")
	oneOf(cmd, &d.output, "text", "json", "yaml")
	return cmd
}

// tell prints a difference, if there is one.
func (d *differing) tell(a target, from, to map[string]any, names ...string) {
	patch := threeway.Diff(from, to)
	if len(patch) == 0 && from != nil {
		return
	}
	_, shownTo := shown(a.kind, from, to)
	shownFrom, _ := shown(a.kind, from, nil)
	visible := threeway.Diff(shownFrom, shownTo)
	if len(visible) == 0 && from != nil {
		return // what apply notes alone
	}
	d.found = append(d.found, difference{a.kind.Bucket, a.key, visible})
	if d.output == "text" {
		d.t.showDiff(d.t.Out, a, from, to, names...)
	}
}

func (d *differing) ofFiles(ctx context.Context) error {
	items, err := d.items(ctx, &d.files)
	if err != nil {
		return err
	}
	a := &applying{session: d.session}
	for _, it := range items {
		c, err := d.writer(ctx, it.kind)
		if err != nil {
			return err
		}
		now, err := d.read(ctx, c, it.key)
		if err != nil {
			return err
		}
		wanted, err := a.wanted(it, now)
		if err != nil {
			return fmt.Errorf("%s: %w", it.String(), err)
		}
		d.tell(it.target, now.object, wanted)
	}
	return nil
}

// key compares a document with one of its past.
func (d *differing) key(ctx context.Context, args []string) error {
	if len(d.files.names) > 0 {
		return usage(errors.New("give files (-f), or KIND/KEY, and not both"))
	}
	a, err := d.keyed(ctx, args, d.files.namespace)
	if err != nil {
		return err
	}
	c, err := d.writer(ctx, a.kind)
	if err != nil {
		return err
	}
	now, err := d.session.read(ctx, c, a.key)
	if err != nil {
		return err
	}
	is := fmt.Sprintf("revision %d", now.revision)
	if !now.exists() {
		is = "gone"
	}
	if d.revision != 0 {
		was, err := d.at(ctx, a)
		if err != nil {
			return err
		}
		d.tell(a, was, now.object, fmt.Sprintf("revision %d", d.revision), is)
		return nil
	}
	was, revision, err := d.recorded(ctx, a)
	if err != nil {
		return err
	}
	// A record has no secrets; what it shows of them is no difference.
	hidden := now.object
	if hidden != nil {
		hidden = deepCopy(hidden)
		a.kind.Hide(hidden)
		hidden, _ = withoutHidden(hidden).(map[string]any)
		hidden = documentOf(hidden)
	}
	d.tell(a, documentOf(was), hidden, fmt.Sprintf("record of revision %d", revision), is)
	return nil
}

// at is what a document was at a revision, if its stream still has it.
func (d *differing) at(ctx context.Context, a target) (map[string]any, error) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	kv, err := d.js.KeyValue(ctx, a.kind.Bucket)
	if err != nil {
		return nil, err
	}
	natsKey := a.key
	if a.kind.Namespaced {
		natsKey = strings.Replace(a.key, "/", ".", 1)
	}
	entry, err := kv.GetRevision(ctx, natsKey, d.revision)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		status, statusErr := kv.Status(ctx)
		keeps := ""
		if statusErr == nil {
			keeps = fmt.Sprintf(": the bucket keeps %s of each key", count(int(status.History()), "revision"))
		}
		return nil, withCode(CodeNotFound, fmt.Errorf("bucket %s does not have %s at revision %d%s",
			printable.Text(a.kind.Bucket), a.String(), d.revision, keeps))
	}
	if err != nil {
		return nil, err
	}
	if entry.Operation() != jetstream.KeyValuePut {
		return nil, nil
	}
	was, err := manifests.FromJSON(entry.Value())
	if err != nil {
		return nil, fmt.Errorf("%s at revision %d: %w", a.String(), d.revision, err)
	}
	return was, nil
}

// recorded is the document that the controller began with last.
func (d *differing) recorded(ctx context.Context, a target) (map[string]any, uint64, error) {
	c, err := d.waiting(ctx, a)
	if err != nil {
		return nil, 0, err
	}
	within, cancel := d.within(ctx)
	defer cancel()
	rec, err := c.Record(within, a.key)
	if apierrors.IsNotFound(err) || err == nil && len(rec.LastDocument) == 0 {
		return nil, 0, withCode(CodeNotFound, fmt.Errorf("no record has a document of %s: --revision names one of the "+
			"bucket", a.String()))
	}
	if err != nil {
		return nil, 0, err
	}
	was, err := manifests.FromJSON(rec.LastDocument)
	return was, rec.DocumentRevision, err
}
