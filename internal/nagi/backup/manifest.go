package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

const (
	manifestFile  = "manifest.json"
	contentFile   = "backup.json"
	schemaVersion = 1
)

// Manifest is what a backup says of itself, in manifest.json.
type Manifest struct {
	SchemaVersion int       `json:"schemaVersion"`
	Made          time.Time `json:"made"`
	// Server is the one that the backup was made over, and Version its version.
	Server  string `json:"server"`
	Version string `json:"version"`
	// Kind and what follows is of what it is a backup.
	Kind        string   `json:"kind"`
	APIVersion  string   `json:"apiVersion,omitempty"`
	Bucket      string   `json:"bucket"`
	Namespaced  bool     `json:"namespaced"`
	Controllers []string `json:"controllers,omitempty"`
	// Streams are in the order in which they were taken: records first, documents last.
	Streams []Stream `json:"streams"`
	Moment  Moment   `json:"moment"`
}

// Stream is one of the streams.
type Stream struct {
	Name   string `json:"name"`
	Bucket string `json:"bucket"`
	// Holds is "documents" or "records".
	Holds string `json:"holds"`
	// Created is its identity: records and secondaries name it.
	Created time.Time `json:"created"`
	// Taken is when the snapshot began.
	Taken    time.Time `json:"taken"`
	Messages uint64    `json:"messages"`
	Bytes    uint64    `json:"bytes"`
	FirstSeq uint64    `json:"firstSequence"`
	LastSeq  uint64    `json:"lastSequence"`
	Files    []File    `json:"files"`
}

// The values of Stream.Holds.
const (
	Documents = "documents"
	Records   = "records"
)

// Moment tells whether the streams are of one moment.
type Moment struct {
	// One is true if nothing was written to any of them from the first snapshot to the last.
	One bool `json:"one"`
	// Seconds is how long that took. Documents and Records are how often these were written meanwhile; a lease that is
	// renewed counts among the records.
	Seconds   float64 `json:"seconds"`
	Documents uint64  `json:"documentsWritten"`
	Records   uint64  `json:"recordsWritten"`
}

// File is a file of a stream, below a directory of the stream's name.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

var streamName = regexp.MustCompile(`^KV_[a-zA-Z0-9_-]+$`)
var fileName = regexp.MustCompile(`^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$`)

// Read reads the manifest of a backup, and compares the size and the checksum of each file with it.
func Read(dir string, progress func(n int)) (*Manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is no backup of nagi: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s is no manifest of a backup: %w", filepath.Join(dir, manifestFile), err)
	}
	switch {
	case m.SchemaVersion > schemaVersion:
		return nil, fmt.Errorf("the backup %s is of a later version of nagi (schemaVersion %d): use that", dir,
			m.SchemaVersion)
	case m.SchemaVersion < 1 || len(m.Streams) == 0:
		return nil, fmt.Errorf("%s is no manifest of a backup: it names no stream", filepath.Join(dir, manifestFile))
	}
	for _, s := range m.Streams {
		if !streamName.MatchString(s.Name) || s.Name != "KV_"+s.Bucket || len(s.Files) != 2 {
			return nil, fmt.Errorf("the manifest of %s has a stream that is none of a bucket: %q", dir, s.Name)
		}
		for _, f := range s.Files {
			if err := f.check(filepath.Join(dir, s.Name), progress); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// check compares a file with what the manifest says of it.
func (f File) check(dir string, progress func(n int)) error {
	path := filepath.Join(dir, f.Name)
	if !fileName.MatchString(f.Name) {
		return fmt.Errorf("the manifest names a file %q, which no backup has", f.Name)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the backup is not whole: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, reader{file, progress})
	if err != nil {
		return err
	}
	if size != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s is not the file that was backed up: it has %d bytes, of %d, or another checksum: "+
			"nothing is restored", path, size, f.Size)
	}
	return nil
}

// reader tells how much was read.
type reader struct {
	io.Reader
	progress func(n int)
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.progress(n)
	return n, err
}

// writer is a file whose checksum is counted as it is written.
type writer struct {
	*os.File
	sum  interface{ Sum([]byte) []byte }
	both io.Writer
	size int64
}

func create(path string) (*writer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	return &writer{File: file, sum: sum, both: io.MultiWriter(file, sum)}, nil
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.both.Write(p)
	w.size += int64(n)
	return n, err
}

// finish has the file on the disk, and says what it is.
func (w *writer) finish() (File, error) {
	err := w.Sync()
	return File{filepath.Base(w.Name()), w.size, hex.EncodeToString(w.sum.Sum(nil))}, errors.Join(err, w.Close())
}
