package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/setup"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

func (t *tool) adminCommands() []*cobra.Command {
	return []*cobra.Command{t.bootstrapCommand(), t.backupCommand()}
}

// bootstrapFlags define a kind, or say where the definition is.
type bootstrapFlags struct {
	file, print, output string
	owns, watches       []string
	of                  setup.Definition
}

func (t *tool) bootstrapCommand() *cobra.Command {
	var f bootstrapFlags
	cmd := &cobra.Command{
		Use:   "bootstrap {KIND | -f FILE | --kind KIND --bucket BUCKET}",
		Short: "Make the buckets of a kind, and print the permissions of each role",
		Long: `Makes the buckets of a kind and of its controllers that are missing: of its documents and records,
of what it owns and watches in NATS, of the registry, and the stream of events, with the settings
with which a controller would make them. What exists is checked and stays as it is.

The kind is one of the registry, or is defined by a file (YAML or JSON; several with --- between
them) or by flags:

  kind: Website
  apiVersion: example.com/v1
  bucket: websites
  namespaced: true
  replicas: 3
  storage: file
  maxBytes: 1073741824
  controller: websites
  owns:
  - { in: nats, kind: Page, bucket: pages }
  - { in: kubernetes, group: apps, version: v1, resource: deployments }

With --print nothing is made, and with a definition nothing has to run: permissions prints what
each role may publish and subscribe to as JSON, nats as configuration of nats-server, rbac as a
ClusterRole for Kubernetes.`,
		Example: "  nagi bootstrap websites\n" +
			"  nagi bootstrap --kind Shop --bucket shops --namespaced --owns Page=pages --storage memory\n" +
			"  nagi bootstrap websites --print=nats\n" +
			"  nagi bootstrap --kind Shop --bucket shops --owns apps/v1/deployments --print=rbac\n" +
			"  echo '{\"kind\":\"Shop\",\"bucket\":\"shops\"}' | nagi bootstrap -f - --print=permissions",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := t.definitions(cmd.Context(), args, f)
			if err != nil {
				return err
			}
			if f.print != "" {
				return t.printRights(all, f)
			}
			s, err := t.connect()
			if err != nil {
				return err
			}
			return t.makeAll(cmd.Context(), s, all, f.output)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *bootstrapFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "filename", "f", "", "file with definitions; - reads the standard input")
	flags.StringVar(&f.of.Kind, "kind", "", "with --bucket: kind of the documents")
	flags.StringVar(&f.of.APIVersion, "api-version", "", "with --kind: apiVersion of the documents")
	flags.IntVar(&f.of.Replicas, "replicas", 0, "replicas of buckets that are made (default 1)")
	flags.StringVar(&f.of.Storage, "storage", "", "storage of buckets that are made, file or memory (default file)")
	flags.Int64Var(&f.of.MaxBytes, "max-bytes", 0, "size of buckets that are made (default no limit)")
	flags.Int64Var(&f.of.StatusMaxBytes, "status-max-bytes", 0, "size of status buckets (default as --max-bytes)")
	flags.StringSliceVar(&f.owns, "owns", nil,
		"what a controller owns: KIND=BUCKET, GROUP/VERSION/RESOURCE of Kubernetes, external:KIND")
	flags.StringSliceVar(&f.watches, "watches", nil, "what a controller watches, likewise")
	flags.BoolVar(&f.of.NoRegistry, "no-registry", false, "no controller publishes the kind")
	flags.BoolVar(&f.of.NoEvents, "no-events", false, "no controller records events")
	flags.BoolVar(&f.of.NoService, "no-service", false, "no controller can be asked")
	printed := &choice{to: &f.print, of: []string{"permissions", "nats", "rbac"}}
	flags.Var(printed, "print", "make nothing, and print the rights of each role: "+strings.Join(printed.of, ", "))
	_ = cmd.RegisterFlagCompletionFunc("print", cobra.FixedCompletions(printed.of, cobra.ShellCompDirectiveNoFileComp))
	oneOf(cmd, &f.output, "table", "json", "yaml")
}

// definitions are those of the file, of the flags or of the registry.
func (t *tool) definitions(ctx context.Context, args []string, f bootstrapFlags) (all []setup.Definition, err error) {
	byFlags := f.of.Kind != "" || t.plain.Bucket != ""
	switch named := len(args) > 0; {
	case f.file != "" && !byFlags && !named:
		all, err = t.definitionsIn(f.file)
	case byFlags && f.file == "" && !named:
		all, err = t.definedByFlags(f)
	case named && f.file == "" && !byFlags:
		all, err = t.registered(ctx, args[0])
	default:
		err = errors.New("one of these is needed: KIND of the registry, -f FILE, or --kind with --bucket")
		return nil, usage(err)
	}
	for i := range all {
		f.settings(&all[i])
		if all[i].Prefix == "" {
			all[i].Prefix = t.prefix
		}
	}
	return all, err
}

// settings takes over what flags say of all definitions.
func (f *bootstrapFlags) settings(d *setup.Definition) {
	if f.of.Replicas != 0 {
		d.Replicas = f.of.Replicas
	}
	if f.of.Storage != "" {
		d.Storage = f.of.Storage
	}
	if f.of.MaxBytes != 0 {
		d.MaxBytes = f.of.MaxBytes
	}
	if f.of.StatusMaxBytes != 0 {
		d.StatusMaxBytes = f.of.StatusMaxBytes
	}
	d.NoRegistry = d.NoRegistry || f.of.NoRegistry
	d.NoEvents = d.NoEvents || f.of.NoEvents
	d.NoService = d.NoService || f.of.NoService
}

func (t *tool) definitionsIn(path string) ([]setup.Definition, error) {
	from := io.Reader(t.In)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usage(err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	all, err := setup.ReadAll(from)
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", path, err))
	}
	return all, nil
}

func (t *tool) definedByFlags(f bootstrapFlags) ([]setup.Definition, error) {
	d := f.of
	d.Bucket, d.StatusBucket, d.Namespaced = t.plain.Bucket, t.plain.StatusBucket, t.plain.Namespaced
	d.Controller = t.plain.controller
	if d.Kind == "" || d.Bucket == "" {
		return nil, usage(errors.New("--kind and --bucket are both needed: what documents are called, and where"))
	}
	var errs []error
	for _, text := range f.owns {
		r, err := setup.Resource(text)
		d.Owns, errs = append(d.Owns, r), append(errs, err)
	}
	for _, text := range f.watches {
		r, err := setup.Resource(text)
		d.Watches, errs = append(d.Watches, r), append(errs, err)
	}
	err := errors.Join(errs...)
	if err == nil {
		err = d.Check()
	}
	return []setup.Definition{d}, usage(err)
}

func (t *tool) registered(ctx context.Context, name string) (all []setup.Definition, err error) {
	s, err := t.connect()
	if err != nil {
		return nil, err
	}
	k, err := s.kind(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, c := range k.Controllers {
		all = append(all, setup.Of(k.Entry, c))
	}
	if len(all) == 0 {
		return nil, usage(fmt.Errorf("the registry names no controller of %s: define it by -f or flags",
			printable.Quote(k.Name())))
	}
	return all, nil
}

func (t *tool) printRights(all []setup.Definition, f bootstrapFlags) error {
	var js jetstream.JetStream
	if t.flags.Domain != "" || t.flags.APIPrefix != "" { // the subjects are below it
		if _, err := t.connect(); err != nil {
			return err
		}
	}
	if t.session != nil {
		js = t.session.js
	}
	rights, err := setup.RightsOf(all, js)
	if err != nil {
		return usage(err)
	}
	for _, unknown := range rights.Unknown {
		t.Notef("nagi: of %s in Kubernetes the resource is not known: add what its controller needs there\n",
			printable.Text(unknown))
	}
	switch f.print {
	case "nats":
		t.Printf("%s", rights.NATS())
	case "rbac":
		manifest := rights.RBAC(all[0].Controller)
		if manifest == "" {
			t.Notef("Nothing in Kubernetes is owned or watched, so no role is needed there.\n")
		}
		t.Printf("%s", manifest)
	default:
		if f.output == "yaml" {
			return t.YAML(rights)
		}
		return t.JSON(rights)
	}
	return nil
}

func (t *tool) makeAll(ctx context.Context, s *session, all []setup.Definition, output string) error {
	var made []setup.Made
	var failed error
	for i := range all {
		bounded, cancel := s.within(ctx)
		some, err := all[i].Make(bounded, s.js)
		cancel()
		for _, one := range some {
			if !slices.ContainsFunc(made, func(m setup.Made) bool { return m.Stream == one.Stream }) {
				made = append(made, one)
			}
		}
		if failed = err; err != nil {
			break
		}
	}
	for _, one := range made {
		for _, warning := range one.Warnings {
			t.Notef("nagi: %s\n", printable.Message(warning))
		}
	}
	if output != "table" {
		if err := t.as(output, made); err != nil {
			return err
		}
		return failed
	}
	table := t.NewTable("stream", "holds", "was")
	for _, one := range made {
		was := out.Cell{Text: "there"}
		if one.Made {
			was = out.Cell{Text: "made", Tone: out.Good}
		}
		if err := table.Cells(out.Cell{Text: one.Stream}, out.Cell{Text: one.Holds}, was); err != nil {
			return err
		}
	}
	return errors.Join(table.Flush(), failed)
}
