package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// snapshotPatience is how long to wait for one answer of the server. The server itself gives up after five seconds
	// without a chunk or an acknowledgement.
	snapshotPatience = 10 * time.Second
	// snapshotChunk is the size of the chunks that are sent back. The server's own chunks have the same size.
	snapshotChunk = 128 << 10
)

// Snapshot is a stream at one moment, taken and restored through the JetStream API as a backup tool does it. It may be
// restored several times, and on another server.
//
// A restored stream is one of the cruellest things that can happen to a watcher: sequences go back, deleted keys
// reappear and others vanish, and no message tells.
type Snapshot struct {
	stream string
	config json.RawMessage
	state  json.RawMessage
	data   []byte
}

// TakeSnapshot reads a snapshot of a stream, consumers included. Writers go on meanwhile; their writes after the server
// began are not in it. A bucket's stream is named "KV_" and the bucket.
func TakeSnapshot(ctx context.Context, nc *nats.Conn, stream string) (*Snapshot, error) {
	s := &Snapshot{stream: stream}
	if err := s.take(ctx, nc); err != nil {
		return nil, fmt.Errorf("take a snapshot of stream %s: %w", stream, err)
	}
	return s, nil
}

func (s *Snapshot) take(ctx context.Context, nc *nats.Conn) error {
	inbox := nc.NewInbox()
	chunks, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = chunks.Unsubscribe() }()
	var answer struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	if err := ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+s.stream,
		map[string]string{"deliver_subject": inbox}, &answer); err != nil {
		return err
	}
	s.config, s.state = answer.Config, answer.State
	for {
		chunk, err := nextChunk(ctx, chunks)
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", len(s.data), err)
		}
		if len(chunk.Data) == 0 {
			if status := chunk.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("the server gave up after %d bytes: %s %s",
					len(s.data), status, chunk.Header.Get("Description"))
			}
			return nil
		}
		s.data = append(s.data, chunk.Data...)
		if chunk.Reply == "" {
			continue
		}
		if err := chunk.Respond(nil); err != nil { // the server sends more only as these come
			return err
		}
	}
}

func nextChunk(ctx context.Context, chunks *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotPatience)
	defer cancel()
	return chunks.NextMsgWithContext(ctx)
}

// Configure has the stream restored with another configuration, such as the one that it had before it was sealed.
func (s *Snapshot) Configure(cfg jetstream.StreamConfig) (err error) {
	s.config, err = json.Marshal(cfg)
	return err
}

// Restore makes the stream again as it was: its configuration, its messages and their sequences. Its time of creation
// is a new one. Restore fails if the stream exists: delete it first, as an operator has to.
func (s *Snapshot) Restore(ctx context.Context, nc *nats.Conn) error {
	err := s.restore(ctx, nc)
	// With the last stream of an account the server also removes the account's directories. It does so after it has
	// answered the delete, and may remove them while a restore uses them.
	for deadline := time.Now().Add(time.Second); err != nil && directoryWasRemoved(err) &&
		time.Now().Before(deadline); {
		err = s.restore(ctx, nc)
	}
	if err != nil {
		return fmt.Errorf("restore stream %s from its snapshot: %w", s.stream, err)
	}
	return nil
}

func directoryWasRemoved(err error) bool {
	return strings.Contains(err.Error(), syscall.ENOENT.Error())
}

func (s *Snapshot) restore(ctx context.Context, nc *nats.Conn) error {
	var answer struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	request := map[string]json.RawMessage{"config": s.config, "state": s.state}
	if err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+s.stream, request, &answer); err != nil {
		return err
	}
	size := min(snapshotChunk, int(nc.MaxPayload()))
	for sent := 0; ; sent += size {
		chunk := s.data[min(sent, len(s.data)):min(sent+size, len(s.data))]
		if err := send(ctx, nc, answer.DeliverSubject, chunk, nil); err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", min(sent, len(s.data)), len(s.data), err)
		}
		if len(chunk) == 0 { // the end, and the answer to it says whether the stream is there
			return nil
		}
	}
}

// ask sends a request of the JetStream API and decodes the answer.
func ask(ctx context.Context, nc *nats.Conn, subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return send(ctx, nc, subject, body, answer)
}

// send sends a request and waits for the answer, which is empty or JSON. An error in it is returned.
func send(ctx context.Context, nc *nats.Conn, subject string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotPatience)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("request to %s: %w", subject, err)
	}
	if len(reply.Data) == 0 {
		return nil
	}
	var outcome struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &outcome); err != nil {
		return fmt.Errorf("answer from %s: %w", subject, err)
	}
	if outcome.Error != nil {
		return errors.New(outcome.Error.Description)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(reply.Data, answer)
}
