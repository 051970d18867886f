package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/brake"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/record"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
)

// releaseFlags are those of brake release.
type releaseFlags struct {
	expected
	engagement, list, output string
	offline                  bool
}

// released is what came of a release.
type released struct {
	Kind       string `json:"kind"`
	Controller string `json:"controller"`
	Engagement string `json:"engagement"`
	Count      int    `json:"count"`
	// Released is false where the request is stored, and no controller has judged it yet.
	Released bool `json:"released"`
}

func (t *tool) brakeReleaseCommand() *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use:   "release KIND",
		Short: "Let go what a brake holds: this deletes for good",
		Long: `Lets go what the brake of a kind's controller holds. What the listed primaries own is deleted for
good. First put back what should not be missing: nagi restore KIND.

The number of what is held has to be named, by --expect or typed at a terminal, and nothing but what
is listed then is let go. With --list, as nagi brake prints it, it is refused if other keys are held than
you have read, as many as they may be.

With --offline the request is left in the status bucket (_nagi.release), where
no controller answers: the next one that leads judges it, by the number
and the list of --list, and reports one that it refuses. A controller of an earlier version knows no lists.`,
		Example: "  nagi brake release websites --expect 12  # exit code 5: the brake holds nothing\n" +
			"  nagi brake release websites --expect 12 --list 5f1c0b6a9d3e7248  # exit code 5\n" +
			"  nagi brake release websites --expect 12 --engagement wjbTxEHrFHYeLYGVeKQjQU  # exit code 5",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.connect()
			if err != nil {
				return err
			}
			k, err := s.keeper(cmd.Context(), args)
			if err != nil {
				return err
			}
			return t.releaseBrake(cmd.Context(), s, k, f)
		},
	}
	f.flag(cmd, "deletes")
	cmd.Flags().StringVar(&f.engagement, "engagement", "", "the engagement that you have read (nagi brake -o json)")
	cmd.Flags().StringVar(&f.list, "list", "", "the list that you have read (nagi brake prints it)")
	cmd.Flags().BoolVar(&f.offline, "offline", false,
		"leave the request in the status bucket, if no controller answers")
	oneOf(cmd, &f.output, "text", "json", "yaml")
	return cmd
}

func (t *tool) releaseBrake(ctx context.Context, s *session, k keeper, f releaseFlags) error {
	b := &braked{Kind: k.kind.Name(), Controller: k.Name, keeper: k}
	if f.offline {
		state, err := s.keptBrake(ctx, k)
		if err != nil {
			return err
		}
		b.Brake, b.Offline = state, true
	} else if b = s.brakeOf(ctx, k, true); b.Offline {
		return fmt.Errorf("%w; to leave the request in its status bucket add --offline", b.err)
	}
	if err := f.fits(s, b); err != nil {
		return err
	}
	t.willGo(b)
	how := "nagi brake release " + k.typed(s)
	if f.offline {
		how += " --offline"
	}
	if err := t.confirmed(ctx, f.expected, b.Brake.Count, "deletes that are held", how); err != nil {
		return err
	}
	done := released{Kind: b.Kind, Controller: b.Controller, Engagement: b.Brake.Engagement, Count: b.Brake.Count}
	var err error
	if f.offline {
		err = s.leaveRelease(ctx, k, *b.Brake, f.list)
	} else {
		done.Released, err = s.askRelease(ctx, k, b)
	}
	if err != nil {
		return err
	}
	if f.output != "text" {
		return t.as(f.output, done)
	}
	switch {
	case done.Released:
		t.Printf("%d deletes go on: what these primaries owned is being deleted\n", done.Count)
	case f.offline:
		t.Printf("the request for %d deletes is left in bucket %s: the controller that leads next judges it\n",
			done.Count, printable.Text(k.statusBucket()))
	default:
		t.Printf("the request for %d deletes is stored and not judged yet: nagi brake %s tells\n", done.Count,
			k.typed(s))
	}
	return nil
}

// fits refuses a release of a brake that is not as the flags say.
func (f *releaseFlags) fits(s *session, b *braked) error {
	switch {
	case b.Brake == nil && b.err != nil:
		return b.err
	case b.Brake == nil:
		return withCode(CodeRefused, errors.New(b.Says))
	case !b.Brake.Engaged:
		return withCode(CodeRefused, fmt.Errorf("the brake of controller %s holds nothing",
			printable.Quote(b.Controller)))
	case f.engagement != "" && f.engagement != b.Brake.Engagement:
		return withCode(CodeRefused, fmt.Errorf("nothing is done: the brake is in engagement %s now, not %s: look "+
			"again what it holds (nagi brake %s)", b.Brake.Engagement, printable.Quote(f.engagement),
			b.keeper.typed(s)))
	case f.list != "" && f.offline: // the controller that judges the request compares
	case f.list != "" && b.List == "":
		return withCode(CodeRefused, fmt.Errorf("nothing is done: which keys are held is not known, so list %s cannot "+
			"be compared: without --list the number counts", printable.Quote(f.list)))
	case f.list != "" && f.list != b.List:
		return withCode(CodeRefused, fmt.Errorf("nothing is done: the brake holds list %s now, not %s: other keys "+
			"than you have read, look again (nagi brake %s)", printable.Text(b.List), printable.Quote(f.list),
			b.keeper.typed(s)))
	}
	return nil
}

// mostShown is how many keys are shown before a question; the list has all.
const mostShown = 20

// willGo says what a release deletes.
func (t *tool) willGo(b *braked) {
	if b.Brake.Held+b.Brake.Swept > 0 {
		t.Notef("A release deletes for good what %d primaries owned that are gone, and what is left of %d missing "+
			"owners:\n", b.Brake.Held, b.Brake.Swept)
		t.noteKeys(b.Keys)
	}
	if b.Brake.Pruned > 0 {
		t.Notef("A release deletes for good what %d primaries own and do not want any more:\n", b.Brake.Pruned)
		t.noteKeys(b.Pruned)
	}
}

func (t *tool) noteKeys(keys []string) {
	for i, key := range keys {
		if i == mostShown {
			t.Notef("  and %d more\n", len(keys)-i)
			return
		}
		t.Notef("  %s\n", printable.Text(key))
	}
}

// releaseTakes is how long the brake may take to judge a release.
const releaseTakes = 10 * time.Second

// askRelease asks for a release of what was listed.
func (s *session) askRelease(ctx context.Context, k keeper, b *braked) (bool, error) {
	var done service.BrakeReleased
	err := k.Patient(releaseTakes).Do(ctx, ask.Act, "brake-release", "", service.BrakeReleaseRequest{
		Engagement: b.Brake.Engagement, Count: &b.Brake.Count, List: b.List,
	}, &done)
	return done.Released, err
}

// keptBrake is the brake as the status bucket has it.
func (s *session) keptBrake(ctx context.Context, k keeper) (*service.Brake, error) {
	kv, err := s.statusBucket(ctx, k)
	if err != nil {
		return nil, err
	}
	entry, err := s.reserved(ctx, kv, record.KeyBrake)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return &service.Brake{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key %s of bucket %s: %w", record.KeyBrake, printable.Quote(kv.Bucket()), err)
	}
	var kept brake.State
	if err := json.Unmarshal(entry.Value(), &kept); err != nil || kvstream.IsReply(nil, entry.Value()) {
		return nil, fmt.Errorf("key %s of bucket %s holds no state of a brake: a controller that leads takes it for "+
			"engaged", record.KeyBrake, printable.Quote(kv.Bucket()))
	}
	return &service.Brake{
		Engaged: kept.Engaged, Engagement: printable.Text(kept.Engagement), Count: kept.Count(), Since: kept.Since,
		Reason: printable.Message(kept.Reason), Held: kept.Held, Swept: kept.Swept, Pruned: kept.Pruned,
		Released: kept.Released,
	}, nil
}

func (s *session) statusBucket(ctx context.Context, k keeper) (jetstream.KeyValue, error) {
	bucket := k.statusBucket()
	if bucket == "" {
		return nil, fmt.Errorf("controller %s has no status bucket, and so no brake: --bucket and --status-bucket "+
			"name another", printable.Quote(k.Name))
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	kv, err := s.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", printable.Quote(bucket), err)
	}
	return kv, s.isStatusBucketOf(ctx, kv, k.Name)
}

// reserved reads a key that no document has. A right that is missing is told at once.
func (s *session) reserved(ctx context.Context, kv jetstream.KeyValue, key string) (
	entry jetstream.KeyValueEntry, err error,
) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	subject := s.api("DIRECT.GET.KV_" + kv.Bucket() + ".$KV." + kv.Bucket() + "." + key)
	err = denials.Of(s.nc).Call(ctx, subject, func(ctx context.Context) (err error) {
		entry, err = kv.Get(ctx, key)
		return err
	})
	return entry, err
}

// isStatusBucketOf refuses a bucket that no controller of this name has taken for its own: whoever writes the registry
// may name any.
func (s *session) isStatusBucketOf(ctx context.Context, kv jetstream.KeyValue, controller string) error {
	entry, err := s.reserved(ctx, kv, record.KeyController)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("read key %s of bucket %s: %w", record.KeyController, printable.Quote(kv.Bucket()), err)
	}
	holds := "it has no key " + record.KeyController
	if err == nil {
		name := strings.TrimSpace(string(entry.Value()))
		if name == controller {
			return nil
		}
		holds = fmt.Sprintf("its key %s names %s", record.KeyController, printable.Quote(name))
	}
	return withCode(CodeRefused, fmt.Errorf("bucket %s is not the status bucket of controller %s, whatever the "+
		"registry says: %s. Nothing is written there; --bucket, --status-bucket and --controller name others",
		printable.Quote(kv.Bucket()), printable.Quote(controller), holds))
}

// leaveRelease puts the request for a release where the controller finds it.
func (s *session) leaveRelease(ctx context.Context, k keeper, b service.Brake, list string) error {
	if b.Engagement == "" {
		return withCode(CodeRefused, fmt.Errorf("the brake in bucket %s has no engagement yet, which a release has to "+
			"name: a controller of this version gives it one when it leads", printable.Quote(k.statusBucket())))
	}
	by := "nagi"
	if u, err := user.Current(); err == nil {
		by += ": " + u.Username
	}
	request, err := json.Marshal(record.Release{
		At: time.Now().UTC().Format(time.RFC3339), By: by, Engagement: b.Engagement, Count: b.Count,
		List: list,
	})
	if err != nil {
		return err
	}
	kv, err := s.statusBucket(ctx, k)
	if err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	// The whole key is the request, whatever an earlier one said.
	subject := "$KV." + kv.Bucket() + "." + record.KeyRelease
	if err = denials.Of(s.nc).Call(ctx, subject, func(ctx context.Context) error {
		_, err := kv.Put(ctx, record.KeyRelease, request)
		return err
	}); err != nil {
		return fmt.Errorf("write key %s of bucket %s: %w", record.KeyRelease, printable.Quote(k.statusBucket()), err)
	}
	return nil
}
