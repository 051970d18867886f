package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type eventFlags struct {
	recorder.Query
	namespace, output string
	follow, warnings  bool
	since             time.Duration
}

func (t *tool) eventsCommand() *cobra.Command {
	var f eventFlags
	cmd := &cobra.Command{
		Use:   "events [KIND[/KEY]]",
		Short: "Show what controllers reported, oldest first",
		Long: `events shows the events that controllers with an event recorder keep in a stream of NATS: of all
documents, of a kind, or of one. A repeat of an event counts and is no event of its own.

Who reads events needs the rights that package recorder names: to publish to $JS.API.STREAM.INFO.NAGI_EVENTS,
$JS.API.CONSUMER.CREATE.NAGI_EVENTS.>, and CONSUMER.MSG.NEXT, CONSUMER.INFO and CONSUMER.DELETE of that stream.`,
		Example: `  nagi events
  nagi events websites/shop/blog
  nagi events websites -n shop --warnings --since 10m
  nagi events websites -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: t.completeAsked,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			if err := s.queryOf(cmd.Context(), args, &f); err != nil {
				return err
			}
			return s.events(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "events about documents of this namespace alone")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with those that come, each repeat once, until Ctrl-C")
	flags.BoolVar(&f.warnings, "warnings", false, "warnings alone")
	flags.DurationVar(&f.since, "since", 0, "those that were seen in this time, as 10m")
	flags.StringVar(&f.Stream, "stream", recorder.DefaultStream, "the stream of the events")
	flags.StringVar(&f.SubjectPrefix, "subject-prefix", recorder.DefaultSubjectPrefix,
		"what the subjects of the events begin with")
	oneOf(cmd, &f.output, "table", "json", "yaml")
	return cmd
}

// queryOf reads the arguments. A kind that the registry does not have is taken as it is written.
func (s *session) queryOf(ctx context.Context, args []string, f *eventFlags) error {
	if len(args) == 0 && s.t.plain.Bucket == "" {
		return nil
	}
	a, err := s.target(ctx, args, f.namespace)
	if apierrors.IsNotFound(err) {
		f.Kind, f.Key, _ = strings.Cut(strings.Join(args, "/"), "/")
		s.t.Notef("The registry has no kind %s: these are the events, if any, about one that is named so.\n",
			printable.Quote(f.Kind))
		return nil
	}
	if err != nil {
		return err
	}
	if f.Key = a.key; a.kind.Registered {
		f.Kind = a.kind.Kind
	}
	return nil
}

// wants reports whether an event is one of those that are asked for.
func (f *eventFlags) wants(e *corev1.Event, now time.Time) bool {
	return (!f.warnings || e.Type == corev1.EventTypeWarning) &&
		(f.namespace == "" || e.InvolvedObject.Namespace == f.namespace) &&
		(f.since <= 0 || now.Sub(seenAt(e)) <= f.since)
}

// seenAt is when an event was seen last.
func seenAt(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

func (s *session) events(ctx context.Context, f eventFlags) error {
	within, cancel := context.WithTimeout(ctx, max(s.t.flags.Timeout, time.Minute))
	defer cancel()
	done := s.t.TellIfSlow("Reading the events …")
	all, err := recorder.List(within, s.js, f.Query)
	done()
	if err != nil {
		return s.unlisted(err, f)
	}
	last := uint64(0)
	for i := range all {
		if n, err := strconv.ParseUint(all[i].ResourceVersion, 10, 64); err == nil {
			last = max(last, n)
		}
	}
	now := time.Now()
	all = slices.DeleteFunc(all, func(e corev1.Event) bool { return !f.wants(&e, now) })
	if f.follow {
		return s.follow(ctx, f, all, last)
	}
	switch f.output {
	case "json":
		return s.t.JSON(append([]corev1.Event{}, all...))
	case "yaml":
		return s.t.YAML(append([]corev1.Event{}, all...))
	}
	table := s.t.NewTable("last seen", "type", "reason", "object", "count", "message")
	for i := range all {
		if err := s.eventRow(ctx, table, &all[i], out.Age(now.Sub(seenAt(&all[i])))); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		s.t.Notef("There are no such events. They are kept for an hour, unless the stream says otherwise.\n")
	}
	return table.Flush()
}

// unlisted says what to do about events that could not be read.
func (s *session) unlisted(err error, f eventFlags) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return withCode(CodeNotFound, fmt.Errorf("there is no stream %s, so no controller keeps events: give one "+
			"controller.WithEventRecorder with a recorder of package recorder, or name its stream with --stream",
			printable.Quote(f.Stream)))
	}
	if errors.Is(err, nats.ErrPermissionViolation) {
		cfg := recorder.Config{JetStream: s.js, Stream: f.Stream, SubjectPrefix: f.SubjectPrefix}
		return fmt.Errorf("%w; who reads events needs to publish to %s", err, strings.Join(cfg.ListSubjects(), ", "))
	}
	return err
}

func (s *session) eventRow(ctx context.Context, table *out.Table, e *corev1.Event, when string) error {
	tone := out.Plain
	if e.Type == corev1.EventTypeWarning {
		tone = out.Warn
	}
	object := s.called(ctx, e.InvolvedObject.Kind) + "/"
	if e.InvolvedObject.Namespace != "" {
		object += e.InvolvedObject.Namespace + "/"
	}
	return table.Cells(out.Cell{Text: when}, out.Cell{Text: e.Type, Tone: tone}, out.Cell{Text: e.Reason},
		out.Cell{Text: object + e.InvolvedObject.Name}, out.Cell{Text: strconv.Itoa(int(max(e.Count, 1)))},
		out.Cell{Text: e.Message})
}

// follow prints the events that are there, and then each that comes after the last of them, until the context ends.
func (s *session) follow(ctx context.Context, f eventFlags, before []corev1.Event, last uint64) error {
	table := s.t.NewTable("time", "type", "reason", "object", "count", "message")
	print := func(e *corev1.Event) error {
		switch f.output {
		case "json":
			return s.t.JSON(e)
		case "yaml":
			s.t.Printf("---\n")
			return s.t.YAML(e)
		}
		return s.eventRow(ctx, table, e, clockTime(seenAt(e)))
	}
	for i := range before {
		if err := print(&before[i]); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	consumer, err := s.ordered(ctx, f, last)
	if err != nil {
		return s.unlisted(err, f)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return s.unlisted(err, f)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		msg, err := messages.Next()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return s.unlisted(err, f)
		}
		var e corev1.Event
		if err := json.Unmarshal(msg.Data(), &e); err != nil {
			s.t.Notef("nagi: a message on %s is no event\n", printable.Quote(msg.Subject()))
			continue
		}
		if !f.wants(&e, time.Now()) {
			continue
		}
		if err := errors.Join(print(&e), table.Flush()); err != nil {
			return err
		}
	}
}

// ordered makes a consumer for what comes after a message of the stream.
func (s *session) ordered(ctx context.Context, f eventFlags, last uint64) (jetstream.Consumer, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	filter := recorder.Subject(f.SubjectPrefix, f.Kind, f.Key)
	return s.js.OrderedConsumer(ctx, f.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: last + 1,
	})
}
