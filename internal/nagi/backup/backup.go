// Package backup keeps the documents and the records of a kind in files, and makes their streams again from them, as
// docs/restoring.md says.
//
// The rules:
//
//   - Records are taken first, documents last: a record that is older than its document costs a reconcile, the other
//     way round the brake engages.
//   - A directory is a backup if it has its name: it is written under another one, and renamed when all is on the disk.
//   - Nothing is made of a backup before each of its files has the size and the checksum of the manifest, and nothing
//     is written over.
//   - What a restore has made goes again if the rest fails, unless it was written to meanwhile.
//
// The files of a stream are those of `nats backup stream`, which can restore them.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
)

// Subject is what is backed up.
type Subject struct {
	Kind, APIVersion, Bucket string
	Namespaced               bool
	// StatusBuckets are those of its controllers.
	StatusBuckets []string
	Controllers   []string
}

// Make writes a backup into a directory that does not exist. progress is told of bytes.
func Make(
	ctx context.Context, js jetstream.JetStream, of Subject, dir string, progress func(n int),
) (m *Manifest, err error) {
	if _, err := os.Lstat(dir); err == nil {
		return nil, &Exists{dir}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	parent, name := filepath.Split(filepath.Clean(dir))
	if parent == "" {
		parent = "."
	}
	partial, err := os.MkdirTemp(parent, "."+name+".partial-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if m, err = take(ctx, js, of, partial, progress); err != nil {
		return nil, err
	}
	if err := write(filepath.Join(partial, manifestFile), m); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(dir); err == nil { // a rename would take the place of an empty directory
		return nil, &Exists{dir}
	}
	return m, os.Rename(partial, dir)
}

// Exists is the error where the directory exists.
type Exists struct{ Dir string }

func (e *Exists) Error() string {
	return e.Dir + " exists, and nothing is written over: name another directory"
}

func take(
	ctx context.Context, js jetstream.JetStream, of Subject, dir string, progress func(n int),
) (*Manifest, error) {
	nc := js.Conn()
	m := &Manifest{
		SchemaVersion: schemaVersion, Made: time.Now().UTC(), Server: nc.ConnectedServerName(),
		Version: nc.ConnectedServerVersion(), Kind: of.Kind, APIVersion: of.APIVersion, Bucket: of.Bucket,
		Namespaced: of.Namespaced, Controllers: of.Controllers,
	}
	for _, bucket := range of.StatusBuckets {
		m.Streams = append(m.Streams, Stream{Name: "KV_" + bucket, Bucket: bucket, Holds: Records})
	}
	m.Streams = append(m.Streams, Stream{Name: "KV_" + of.Bucket, Bucket: of.Bucket, Holds: Documents})
	before, err := lastSequences(ctx, js, m)
	if err != nil {
		return nil, err
	}
	for i := range m.Streams {
		if err := m.Streams[i].take(ctx, js, dir, m.Version, progress); err != nil {
			return nil, fmt.Errorf("back up stream %s: %w", m.Streams[i].Name, err)
		}
	}
	after, err := lastSequences(ctx, js, m)
	if err != nil {
		return nil, err
	}
	last := m.Streams[len(m.Streams)-1]
	m.Moment.Seconds = last.Taken.Sub(m.Streams[0].Taken).Seconds()
	for i, s := range m.Streams {
		if s.Holds == Documents {
			m.Moment.Documents += s.LastSeq - min(before[i], s.LastSeq)
		} else {
			m.Moment.Records += after[i] - min(s.LastSeq, after[i])
		}
	}
	m.Moment.One = m.Moment.Documents == 0 && m.Moment.Records == 0
	return m, nil
}

// lastSequences are how far the streams are.
func lastSequences(ctx context.Context, js jetstream.JetStream, m *Manifest) (all []uint64, err error) {
	for i := range m.Streams {
		info, err := streamInfo(ctx, js, m.Streams[i].Name)
		if err != nil {
			return nil, err
		}
		m.Streams[i].Created = info.Created
		all = append(all, info.State.LastSeq)
	}
	return all, nil
}

func streamInfo(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("look at stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// take writes the files of a stream.
func (s *Stream) take(
	ctx context.Context, js jetstream.JetStream, dir, version string, progress func(n int),
) error {
	dir = filepath.Join(dir, s.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// As the nats command line names them: servers of 2.15 and later have another format.
	name := "stream.arc.s2"
	if kvstream.VersionBefore(version, "2.15") {
		name = "stream.tar.s2"
	}
	data, err := create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	s.Taken = time.Now().UTC()
	of, err := apiOf(js).take(ctx, s.Name, data, progress)
	file, finished := data.finish()
	if err := errors.Join(err, finished); err != nil {
		return err
	}
	var is state
	if err := json.Unmarshal(of.State, &is); err != nil {
		return fmt.Errorf("the state that the server tells: %w", err)
	}
	s.Messages, s.Bytes, s.FirstSeq, s.LastSeq = is.Messages, is.Bytes, is.FirstSeq, is.LastSeq
	s.Files = []File{file}
	told, err := create(filepath.Join(dir, contentFile))
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(told)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(of)
	file, finished = told.finish()
	s.Files = append(s.Files, file)
	return errors.Join(err, finished)
}

func write(path string, v any) error {
	file, err := create(path)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(v)
	_, finished := file.finish()
	return errors.Join(err, finished)
}
