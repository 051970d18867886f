package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/project"
	"github.com/spf13/cobra"
)

func (t *tool) projectCommands() []*cobra.Command { return []*cobra.Command{t.initCommand()} }

// kindFlags say what kind is added to a project.
type kindFlags struct{ project.Kind }

func (f *kindFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.APIVersion, "api-version", "", "apiVersion of its documents, as example.com/v1")
	cmd.Flags().StringVar(&f.Kind.Bucket, "in", "", "bucket of its documents (default: the kind in the plural)")
	cmd.Flags().BoolVar(&f.Namespaced, "with-namespaces", false, "its keys are NAMESPACE/NAME")
}

// named is the kind, with the defaults filled in.
func (f *kindFlags) named(kind string) project.Kind {
	k := f.Kind
	k.Kind = kind
	k.Bucket = cmp.Or(k.Bucket, strings.ToLower(kind)+"s")
	return k
}

func (t *tool) initCommand() *cobra.Command {
	p, kind, of, tidy, output := project.Project{}, "", kindFlags{}, true, ""
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make a project: a controller that builds, runs and passes its tests at once",
		Long: `Make a project: a program with a controller for one kind, its tests, the permissions that it needs, and
what a repository has beside. It builds, runs and passes its tests at once. Nothing is written into a directory that is
not empty.`,
		Example:     "  nagi init websites --kind Website --module example.com/websites",
		Annotations: map[string]string{"examples": "elsewhere"}, // it writes files, and runs go
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Dir = args[0]
			base, err := filepath.Abs(p.Dir)
			if err != nil {
				return err
			}
			p.Module = cmp.Or(p.Module, "example.com/"+filepath.Base(base))
			if err := nagiSource(&p); err != nil {
				return usage(err)
			}
			names, err := p.Init(of.named(kind))
			if err != nil {
				return usage(err)
			}
			if err := t.made(output, p.Dir, names); err != nil {
				return err
			}
			if tidy {
				if err := t.tidy(cmd.Context(), p.Dir); err != nil {
					return err
				}
			}
			first := ""
			if !tidy {
				first = "go mod tidy && make manifests && "
			}
			t.Notef("\nNext: cd %s && %smake test && make dev\n", p.Dir, first)
			return nil
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "Website", "the kind of its documents")
	of.register(cmd)
	cmd.Flags().StringVar(&p.Module, "module", "",
		"path of its Go module (default: example.com/ and the directory's name)")
	cmd.Flags().StringVar(&p.Version, "nagi-version", "",
		"version of Nagi that it requires (default: that of this tool)")
	cmd.Flags().StringVar(&p.Source, "nagi-source", "", "directory with the source of Nagi that it takes instead")
	cmd.Flags().BoolVar(&tidy, "tidy", true, "run go mod tidy, and make deploy/roles.conf")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

// createKindCommand is a command below "create".
func (t *tool) createKindCommand() *cobra.Command {
	of, dir, output := kindFlags{}, ".", ""
	cmd := &cobra.Command{
		Use:         "kind NAME",
		Short:       "Add a kind to a project that nagi init made",
		Example:     "  nagi create kind Theme --api-version example.com/v1",
		Annotations: map[string]string{"examples": "elsewhere"},
		Args:        cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			module, err := project.Module(dir)
			if err != nil {
				return usage(err)
			}
			names, err := project.Project{Dir: dir, Module: module}.AddKind(of.named(args[0]))
			if err != nil {
				return usage(err)
			}
			if err := t.made(output, dir, names); err != nil {
				return err
			}
			t.Notef("\nNext: make test, and make manifests for the permissions that it needs\n")
			return nil
		},
	}
	of.register(cmd)
	cmd.Flags().StringVar(&dir, "dir", ".", "directory of the project")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

// madeFiles are those that a command has made, with the directory before their names.
type madeFiles struct {
	Directory string   `json:"directory"`
	Files     []string `json:"files"`
}

func (t *tool) made(output, dir string, names []string) error {
	made := madeFiles{Directory: dir}
	for _, name := range names {
		made.Files = append(made.Files, filepath.Join(dir, name))
	}
	return printAs(&t.Streams, output, made, func() error {
		for _, name := range made.Files {
			t.Printf("%s\n", name)
		}
		return nil
	})
}

// nagiSource says which Nagi the project takes, where no flag does.
func nagiSource(p *project.Project) error {
	if p.Source != "" {
		dir, err := filepath.Abs(p.Source)
		if err != nil {
			return err
		}
		if module, err := project.Module(dir); err != nil || module != "github.com/nagi-runtime/nagi" {
			return fmt.Errorf("--nagi-source %s is not the source of Nagi", p.Source)
		}
		p.Source = dir
		return nil
	}
	if p.Version == "" {
		p.Version = version()
	}
	if !strings.HasPrefix(p.Version, "v") || strings.Contains(p.Version, "+dirty") {
		return errors.New("this tool was not built from a release, so say which Nagi the project takes: " +
			"--nagi-version v1.2.3, or --nagi-source with the directory of its source")
	}
	return nil
}

// tidy finds the modules that the project needs, and prints the permissions of its users.
func (t *tool) tidy(ctx context.Context, dir string) error {
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Stderr = dir, t.Err
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s in %s: %w: the files are made; run it again by hand",
				strings.Join(args, " "), dir, err)
		}
		return out, nil
	}
	t.Notef("Running go mod tidy, which may take a minute the first time …\n")
	if _, err := run("mod", "tidy"); err != nil {
		return err
	}
	roles, err := run("run", ".", "-only=permissions")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "deploy", "roles.conf"), roles, 0o644)
}
