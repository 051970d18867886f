package natstest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TakeOldSnapshot takes a snapshot of a stream in the format of older servers, an archive of the stream's files,
// which today's servers still restore. For a watcher it differs in one way: a stream restored from it keeps its old
// time of creation, so that only its contents tell that it went back.
//
// It stops the server and starts it again. The stream has to be stored in files, in the global account.
func (s *Server) TakeOldSnapshot(ctx context.Context, nc *nats.Conn, stream string) (*Snapshot, error) {
	snapshot := &Snapshot{stream: stream}
	if err := s.takeOld(ctx, nc, snapshot); err != nil {
		return nil, fmt.Errorf("take an old snapshot of stream %s: %w", stream, err)
	}
	return snapshot, nil
}

func (s *Server) takeOld(ctx context.Context, nc *nats.Conn, snapshot *Snapshot) error {
	var info struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	if err := ask(ctx, nc, "$JS.API.STREAM.INFO."+snapshot.stream, struct{}{}, &info); err != nil {
		return err
	}
	snapshot.config, snapshot.state = info.Config, info.State
	s.Stop() // now its files are complete
	archive, err := tarOf(filepath.Join(s.dir, "jetstream", server.DEFAULT_GLOBAL_ACCOUNT, "streams", snapshot.stream))
	snapshot.data = s2Stream(archive)
	return errors.Join(err, s.Start())
}

// tarOf archives the files below dir.
func tarOf(dir string) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Name: path, Mode: 0o600, Size: int64(len(content)), Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return archive.Bytes(), errors.Join(err, w.Close())
}

// s2Stream wraps data in the framing of the S2 compression, without compressing it. A frame has a type, a length, a
// masked checksum and the data: https://github.com/google/snappy/blob/main/framing_format.txt.
func s2Stream(data []byte) []byte {
	const uncompressed, most = 1, 64 << 10
	out := []byte("\xff\x06\x00\x00S2sTwO")
	for len(data) > 0 {
		n := min(len(data), most)
		out = binary.LittleEndian.AppendUint32(out, uncompressed|uint32(n+4)<<8)
		sum := crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli))
		out = binary.LittleEndian.AppendUint32(out, (sum>>15|sum<<17)+0xa282ead8)
		out, data = append(out, data[:n]...), data[n:]
	}
	return out
}
