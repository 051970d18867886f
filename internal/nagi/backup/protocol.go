package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// patience is how long to wait for one answer of the server, which itself gives up after five seconds without a
	// chunk or an acknowledgement.
	patience = 15 * time.Second
	// restoreTakes is how long the server may take for a stream whose last chunk it has.
	restoreTakes = time.Hour
	// chunkSize is that of the server's own chunks.
	chunkSize = 128 << 10
)

// content is a stream as the server tells of it beside a snapshot: what a restore has to name. It is the file
// backup.json of the nats command line.
type content struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// state is what of a stream's state is read here.
type state struct {
	Messages uint64    `json:"messages"`
	Bytes    uint64    `json:"bytes"`
	FirstSeq uint64    `json:"first_seq"`
	LastSeq  uint64    `json:"last_seq"`
	LastTime time.Time `json:"last_ts"`
}

// api is JetStream's API, where a context says that it is.
type api struct {
	nc     *nats.Conn
	prefix string
}

func apiOf(js jetstream.JetStream) api {
	a := api{js.Conn(), jetstream.DefaultAPIPrefix}
	switch opts := js.Options(); {
	case opts.Domain != "":
		a.prefix = "$JS." + opts.Domain + ".API."
	case opts.APIPrefix != "":
		a.prefix = opts.APIPrefix
	}
	if a.prefix[len(a.prefix)-1] != '.' {
		a.prefix += "."
	}
	return a
}

// take writes a snapshot of a stream as the server sends it, chunk by chunk, without its consumers. What is written to
// the stream after the server began is not in it.
func (a api) take(ctx context.Context, stream string, to io.Writer, progress func(n int)) (of content, err error) {
	inbox := a.nc.NewInbox()
	chunks, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return of, err
	}
	defer func() { _ = chunks.Unsubscribe() }() // the server stops to send
	request := map[string]any{"deliver_subject": inbox, "no_consumers": true}
	if err := a.ask(ctx, a.prefix+"STREAM.SNAPSHOT."+stream, request, patience, &of); err != nil {
		return of, err
	}
	for {
		chunk, err := next(ctx, chunks)
		if err != nil {
			return of, err
		}
		if len(chunk.Data) == 0 {
			if status := chunk.Header.Get("Status"); status != "" && status != "204" {
				return of, fmt.Errorf("the server gave up: %s %s", status, chunk.Header.Get("Description"))
			}
			return of, nil
		}
		if _, err := to.Write(chunk.Data); err != nil {
			return of, err
		}
		progress(len(chunk.Data))
		if chunk.Reply == "" {
			continue
		}
		if err := chunk.Respond(nil); err != nil { // the server sends more only as these come
			return of, err
		}
	}
}

func next(ctx context.Context, chunks *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return chunks.NextMsgWithContext(ctx)
}

// trace is what a restore has left on the server.
type trace int

const (
	nothing trace = iota // a stream of that name is somebody else's
	perhaps              // the server did not say
	stream               // the server said so
)

// put makes a stream of a snapshot. If it fails after it has begun, it waits until the server has ended it, too: there
// may be a stream then, which had all that it needs before the failure.
func (a api) put(ctx context.Context, name string, of content, from io.Reader, progress func(n int)) (trace, error) {
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	if err := a.ask(ctx, a.prefix+"STREAM.RESTORE."+name, of, patience, &to); err != nil {
		return nothing, err
	}
	err := a.chunks(ctx, to.Subject, from, progress)
	// The answer to an empty chunk says whether the stream is there. Of half a snapshot it says why that is none.
	var ended error
	if err == nil {
		ended = a.send(ctx, to.Subject, nil, restoreTakes, nil)
		err = ended
	} else {
		ended = a.send(context.WithoutCancel(ctx), to.Subject, nil, patience, nil)
	}
	if ended == nil {
		return stream, err
	}
	if _, refused := errors.AsType[*jetstream.APIError](ended); refused {
		return nothing, err
	}
	return perhaps, err
}

func (a api) chunks(ctx context.Context, subject string, from io.Reader, progress func(n int)) error {
	chunk := make([]byte, min(chunkSize, a.nc.MaxPayload()))
	for {
		n, err := io.ReadFull(from, chunk)
		if n > 0 {
			if err := a.send(ctx, subject, chunk[:n], patience, nil); err != nil {
				return err
			}
			progress(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (a api) ask(ctx context.Context, subject string, request any, within time.Duration, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return a.send(ctx, subject, body, within, answer)
}

// send sends a request and waits for the answer, which is empty or JSON. An error in it is returned.
func (a api) send(ctx context.Context, subject string, body []byte, within time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := denials.Of(a.nc).Request(ctx, &nats.Msg{Subject: subject, Data: body})
	if err != nil {
		return fmt.Errorf("request to %s: %w", subject, err)
	}
	if len(reply.Data) == 0 {
		return nil
	}
	var outcome struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &outcome); err != nil {
		return fmt.Errorf("answer from %s: %w", subject, err)
	}
	if outcome.Error != nil {
		return outcome.Error
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(reply.Data, answer)
}
