package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Existing returns which of the streams exist. A restore makes streams, and changes none.
func Existing(ctx context.Context, js jetstream.JetStream, m *Manifest) (names []string, err error) {
	for _, s := range m.Streams {
		_, err := streamInfo(ctx, js, s.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names = append(names, s.Name)
	}
	return names, nil
}

// Restore makes the streams of a backup that Read has checked: documents first. If one fails, those that it has made go
// again, but for one that was written to meanwhile, which the error names.
func Restore(ctx context.Context, js jetstream.JetStream, dir string, m *Manifest, progress func(n int)) error {
	made := map[int]trace{}
	for i := range m.Streams {
		s := m.Streams[len(m.Streams)-1-i]
		left, err := s.restore(ctx, js, dir, progress)
		if left != nothing {
			made[i] = left
		}
		if err == nil {
			err = s.compare(ctx, js)
		}
		if err != nil {
			err = fmt.Errorf("restore stream %s: %w", s.Name, err)
			for _, i := range slices.Sorted(maps.Keys(made)) {
				before := m.Streams[len(m.Streams)-1-i]
				err = errors.Join(err, before.remove(context.WithoutCancel(ctx), js, made[i]))
			}
			return err
		}
	}
	return nil
}

func (s Stream) restore(
	ctx context.Context, js jetstream.JetStream, dir string, progress func(n int),
) (trace, error) {
	dir = filepath.Join(dir, s.Name)
	told, err := os.ReadFile(filepath.Join(dir, contentFile))
	if err != nil {
		return nothing, err
	}
	var of content
	if err := json.Unmarshal(told, &of); err != nil {
		return nothing, fmt.Errorf("%s: %w", filepath.Join(dir, contentFile), err)
	}
	for _, f := range s.Files {
		if f.Name == contentFile {
			continue
		}
		file, err := os.Open(filepath.Join(dir, f.Name))
		if err != nil {
			return nothing, err
		}
		defer func() { _ = file.Close() }()
		return apiOf(js).put(ctx, s.Name, of, file, progress)
	}
	return nothing, errors.New("the manifest names no file of its messages")
}

// compare compares the restored stream with what was backed up. Messages with a TTL may have gone since.
func (s Stream) compare(ctx context.Context, js jetstream.JetStream) error {
	info, err := streamInfo(ctx, js, s.Name)
	if err != nil {
		return err
	}
	if info.State.LastSeq < s.LastSeq || info.State.Msgs > s.Messages && info.State.LastSeq == s.LastSeq {
		return fmt.Errorf("it has %d messages up to sequence %d now, and the backup has %d up to %d", info.State.Msgs,
			info.State.LastSeq, s.Messages, s.LastSeq)
	}
	return nil
}

// remove takes a stream away that was made a moment ago, and no other.
func (s Stream) remove(ctx context.Context, js jetstream.JetStream, left trace) error {
	info, err := streamInfo(ctx, js, s.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	// A stream keeps when it was created, so one with another time was made by somebody else while this one was sent. A
	// cluster gives a restored stream a new time, and there this errs towards what stays.
	if err == nil && left == perhaps && !info.Created.Equal(s.Created) {
		return fmt.Errorf("the server did not say whether it restored stream %s, and the one that is there may be "+
			"somebody else's, so it stays: look at it (nats stream info %s) before you begin again", s.Name, s.Name)
	}
	if err == nil && info.State.LastSeq > s.LastSeq {
		return fmt.Errorf("stream %s was restored and is written to already, so it stays: who writes there? Stop that "+
			"before you begin again", s.Name)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err = js.DeleteStream(ctx, s.Name)
	}
	if err != nil {
		return fmt.Errorf("stream %s was restored, and could not be taken away again: %w: start no controller before "+
			"all is restored", s.Name, err)
	}
	return fmt.Errorf("stream %s, which was restored, is taken away again", s.Name)
}
