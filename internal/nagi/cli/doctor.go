package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
)

// severity is how much a finding matters. An error or a warning makes the exit code 4.
type severity string

const (
	isError   severity = "error"
	isWarning severity = "warning"
	isInfo    severity = "info" // something was not looked at, or is worth knowing
	isOK      severity = "ok"
)

var severities = []severity{isError, isWarning, isInfo, isOK}

// finding is what a doctor has found, and what to do about it.
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"`
	About    string   `json:"about,omitempty"`
	Says     string   `json:"says"`
	Do       string   `json:"do,omitempty"`
}

func (t *tool) doctorCommand() *cobra.Command {
	var output string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "doctor [KIND...]",
		Short: "Look for what is not as it should be, and say what to do",
		Long: `doctor looks at the connection, the rights of the user, the settings of buckets, the registry, the
records and the controllers of all kinds, or of some, and prints one line for each finding, with what to do, the most
severe first. It changes nothing.

It finds: a server that is too old or far away, JetStream that is off or nearly full, a clock that is wrong, rights
that whoever reads needs and the user has not, settings of buckets that would lose data, entries of the registry that
are none, documents that are invalid or have members that are not read, controllers that do not answer or have no
leader, what they say is degraded, an engaged brake, keys that are parked, fail, or wake themselves, orphans, and
replicas of different versions. The exit code is 4 if there is an error or a warning.`,
		Example: `  nagi doctor  # exit code 4
  nagi doctor websites -v  # exit code 4
  nagi doctor -o json  # exit code 4`,
		ValidArgsFunction: t.completeAsked,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			d := &doctor{s: s, seen: map[finding]bool{}}
			if err := d.examine(cmd.Context(), args); err != nil {
				return err
			}
			return d.end(cmd.Context(), output, verbose)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also what is as it should be")
	oneOf(cmd, &output, "table", "json", "yaml")
	return cmd
}

// doctor collects findings. Its methods may be called concurrently.
type doctor struct {
	s        *session
	mu       sync.Mutex
	findings []finding
	seen     map[finding]bool
}

// find notes a finding, once.
func (d *doctor) find(level severity, check, about, says, do string) {
	f := finding{level, check, printable.Text(about), printable.Message(says), printable.Message(do)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.seen[f] {
		d.seen[f] = true
		d.findings = append(d.findings, f)
	}
}

// denied notes a right that is missing, if that is what the error says.
func (d *doctor) denied(level severity, about, wanted string, err error) bool {
	right := denials.RightIn(err)
	if right == "" && !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	do := "grant what is named; nagi bootstrap prints the permissions of each role"
	if denied, ok := errors.AsType[*denials.Error](err); ok {
		do = "grant this user the permission to publish to " + cmp.Or(right, denied.Grant) +
			"; nagi bootstrap prints the permissions of each role"
		if denied.Subscription {
			do = denied.Error()
		}
	}
	d.find(level, "rights", about, wanted+": "+err.Error(), do)
	return true
}

func (d *doctor) examine(ctx context.Context, args []string) error {
	defer d.s.t.TellIfSlow("Looking …")()
	d.connection(ctx)
	all, err := d.kinds(ctx, args)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, mostAsked)
	var controllers []asked
	for _, k := range all {
		for i := range k.Controllers {
			if name := d.s.t.plain.controller; name == "" || name == k.Controllers[i].Name {
				controllers = append(controllers, asked{d.s.controller(k.Controllers[i].Name), k, &k.Controllers[i]})
			}
		}
		if name := d.s.t.plain.controller; name != "" && !k.Registered {
			controllers = append(controllers, asked{d.s.controller(name), k, nil})
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			d.buckets(ctx, k)
		})
	}
	wg.Go(func() { d.controllers(ctx, controllers) })
	wg.Wait()
	return ctx.Err()
}

// kinds are those to look at. A registry that cannot be read is a finding, unless kinds were named.
func (d *doctor) kinds(ctx context.Context, args []string) (all []*kinds.Kind, err error) {
	if d.s.t.plain.Bucket != "" {
		k, err := d.s.ofBucket(ctx)
		return []*kinds.Kind{k}, err
	}
	found, err := d.s.kinds(ctx)
	if err != nil {
		if !d.denied(isError, "registry", "the kinds could not be listed", err) {
			d.find(isError, "registry", "", "the kinds could not be listed: "+err.Error(), "mend that, and look again")
		}
		return nil, nil
	}
	for _, bad := range found.Invalid {
		d.find(isWarning, "registry", bad.Key, bad.Err.Error(), "look who wrote it")
	}
	if found.MoreInvalid > 0 || found.More > 0 {
		d.find(isWarning, "registry", "", "it has more keys than are read", "look who writes there")
	}
	if len(found.Invalid) == 0 {
		d.find(isOK, "registry", "", "each entry can be read", "")
	}
	for _, name := range args {
		k, err := kinds.Of(found.Entries, name)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if len(args) == 0 {
		for _, e := range found.Entries {
			all = append(all, &kinds.Kind{Entry: e, Registered: true})
		}
	}
	if len(all) == 0 {
		d.find(isInfo, "registry", "", "there are no kinds",
			"a controller with the option registry.Publish publishes its own; --bucket names a bucket")
	}
	return all, nil
}

// end prints what was found.
func (d *doctor) end(_ context.Context, output string, verbose bool) error {
	slices.SortStableFunc(d.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			strings.Compare(a.Check, b.Check), strings.Compare(a.About, b.About), strings.Compare(a.Says, b.Says))
	})
	ill := len(d.findings) > 0 && (d.findings[0].Severity == isError || d.findings[0].Severity == isWarning)
	shown := []finding{}
	for _, f := range d.findings {
		if verbose || f.Severity != isOK {
			shown = append(shown, f)
		}
	}
	err := printAs(&d.s.t.Streams, output, shown, func() error { return d.print(shown) })
	if err == nil && ill {
		err = notSo()
	}
	return err
}

// print prints a line for each. What to do must not be cut, so it is no table.
func (d *doctor) print(shown []finding) error {
	tones := map[severity]out.Tone{isError: out.Bad, isWarning: out.Warn, isOK: out.Good}
	const wideSeverity = len(isWarning)
	wideCheck, wideAbout := 0, 0
	for _, f := range shown {
		wideCheck, wideAbout = max(wideCheck, len(f.Check)), max(wideAbout, utf8.RuneCountInString(f.About))
	}
	for _, f := range shown {
		level := d.s.t.Paint(tones[f.Severity], string(f.Severity)) +
			strings.Repeat(" ", wideSeverity-len(f.Severity))
		says := f.Says
		if f.Do != "" {
			says += d.s.t.Paint(out.Bold, " → "+f.Do)
		}
		d.s.t.Printf("%s   %-*s   %-*s   %s\n", level, wideCheck, f.Check, wideAbout, f.About, says)
	}
	if len(shown) == 0 {
		d.s.t.Notef("All is as it should be: nagi doctor -v says what was looked at.\n")
	}
	return nil
}
