package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/backup"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/spf13/cobra"
)

func (t *tool) backupCommand() *cobra.Command {
	var to, output string
	cmd := &cobra.Command{
		Use:   "backup KIND --to DIR",
		Short: "Back up documents and records of a kind together",
		Long: `Backs up the streams of a kind's documents and of its controllers' records, records first. DIR
must not exist; it is made under another name, and renamed when all is on the disk. It has a
directory for each stream, as nats backup stream makes it, and manifest.json: when and where it
was made, what the streams are, and the checksum of each file.

Documents have secrets, so the files are for their owner alone. If something is written while the
streams are taken, they are not of one moment, which is told; for a backup of one moment stop the
controllers. What a controller owns is not in it: it makes that again. nagi bootstrap --print has
a role "backup" with the rights that this takes.

nagi restore --from DIR restores it; that is for a user who may use all of JetStream's API.`,
		Example:           "  nagi backup websites --to backup-of-monday",
		Annotations:       map[string]string{"examples": "elsewhere"}, // they make files
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return usage(errors.New("--to is needed: a directory that does not exist"))
			}
			s, err := t.connect()
			if err != nil {
				return err
			}
			a, err := s.target(cmd.Context(), args, "")
			if err == nil && a.key != "" {
				err = usage(errors.New("a backup is of a whole kind: leave the key out"))
			}
			if err != nil {
				return err
			}
			return t.backUp(cmd.Context(), s, a.kind, to, output)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "directory to make")
	oneOf(cmd, &output, "text", "json", "yaml")
	return cmd
}

// backedUp is what a backup of a kind has.
func (s *session) backedUp(k *kinds.Kind) backup.Subject {
	of := backup.Subject{Kind: k.Kind, APIVersion: k.APIVersion, Bucket: k.Bucket, Namespaced: k.Namespaced}
	add := func(bucket string) {
		if bucket != "" && !slices.Contains(of.StatusBuckets, bucket) {
			of.StatusBuckets = append(of.StatusBuckets, bucket)
		}
	}
	add(k.StatusBucket)
	for _, c := range k.Controllers {
		add(c.StatusBucket)
		of.Controllers = append(of.Controllers, c.Name)
	}
	if name := s.t.plain.controller; name != "" && len(of.Controllers) == 0 {
		of.Controllers = []string{name}
	}
	return of
}

func (t *tool) backUp(ctx context.Context, s *session, k *kinds.Kind, dir, output string) error {
	m, err := backup.Make(ctx, s.js, s.backedUp(k), dir, t.bytesTold("backed up"))
	if exists, ok := errors.AsType[*backup.Exists](err); ok {
		return withCode(CodeRefused, exists)
	}
	if err != nil {
		return err
	}
	if !m.Moment.One {
		t.Notef("nagi: documents and records are not of one moment: documents are %.1f s younger; meanwhile "+
			"%d documents and %d keys of the records were written, a lease that is renewed among them. For a backup "+
			"of one moment stop the controllers first.\n", m.Moment.Seconds, m.Moment.Documents, m.Moment.Records)
	}
	if output != "text" {
		return t.as(output, m)
	}
	for _, one := range m.Streams {
		t.Printf("%s: %d %s up to sequence %d\n", one.Name, one.Messages, one.Holds, one.LastSeq)
	}
	t.Printf("%s is backed up in %s\n", printable.Text(k.Name()), dir)
	return nil
}

// bytesTold tells once a second how many bytes were done.
func (t *tool) bytesTold(what string) func(n int) {
	all, told := 0, time.Now()
	return func(n int) {
		if all += n; time.Since(told) > progressAfter {
			told = time.Now()
			t.Notef("nagi: %d MiB are %s\n", all>>20, what)
		}
	}
}

// restoredFrom is what came of a restore.
type restoredFrom struct {
	From    string          `json:"from"`
	Kind    string          `json:"kind"`
	Made    time.Time       `json:"made"`
	Streams []backup.Stream `json:"streams"`
	// Braked are the status buckets whose brake was put on.
	Braked []string `json:"braked"`
}

func (t *tool) restoreBackup(ctx context.Context, s *session, dir string, stopped bool, output string) error {
	m, err := backup.Read(dir, t.bytesTold("compared with their checksums"))
	if errors.Is(err, fs.ErrNotExist) {
		err = withCode(CodeNotFound, err)
	}
	if err != nil {
		return err
	}
	if err := s.mayRestore(ctx, m, stopped); err != nil {
		return err
	}
	if err := backup.Restore(ctx, s.js, dir, m, t.bytesTold("restored")); err != nil {
		return err
	}
	done := restoredFrom{From: dir, Kind: m.Kind, Made: m.Made, Streams: m.Streams, Braked: []string{}}
	for _, one := range m.Streams {
		if one.Holds != backup.Records {
			continue
		}
		// Also after an interrupt: without the brake the next controller may delete because of what is missing.
		if err := s.engage(context.WithoutCancel(ctx), one.Bucket, m); err != nil {
			return err
		}
		done.Braked = append(done.Braked, one.Bucket)
	}
	if output != "table" {
		return t.as(output, done)
	}
	for _, one := range m.Streams {
		t.Printf("%s: %d %s up to sequence %d are restored\n", one.Name, one.Messages, one.Holds, one.LastSeq)
	}
	t.restoredNext(m, done.Braked)
	return nil
}

// restoredNext says what happens next.
func (t *tool) restoredNext(m *backup.Manifest, braked []string) {
	kind := printable.Typed(m.Bucket, "<bucket>")
	if len(braked) == 0 {
		t.Printf("There are no records in this backup, so no brake is on. Start the controllers.\n")
		return
	}
	t.Printf(`The brake is on: no controller deletes what nobody was seen to order to delete, until it is released.
If nothing is missing it goes off by itself after the first sweep. Now:
  # start the controllers
  nagi brake %[1]s    # which deletes it holds: what the records know and the documents lack
  nagi restore %[1]s  # puts vanished documents back from the records
  nagi orphans %[1]s  # what is younger than the backup: put the documents of these owners back
  nagi brake release %[1]s --expect N  # last: deletes for good what they own
`, kind)
}
