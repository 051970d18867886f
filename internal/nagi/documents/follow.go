package documents

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	// batch is how many messages are asked for at a time, and batchBytes how many bytes.
	batch      = 256
	batchBytes = 4 << 20
	// pullExpires is when the server forgets a request for messages. Until then it sends a sign of life each heartbeat.
	pullExpires = time.Minute
	heartbeat   = 500 * time.Millisecond
	silence     = 3 * heartbeat
	// inactive is when the server drops a consumer that nothing is asked of: readers may not delete any. One that is
	// dropped while the output is held up is made anew where it was.
	inactive = 10 * time.Second
)

// follower reads what a bucket stores, in order. When its consumer is lost it makes another one where it was.
type follower struct {
	b       *bucket
	state   *state
	pattern string // of the keys
	headers bool   // no values
	after   uint64 // the last sequence that came

	name     string // of the consumer, "" if there is none
	received uint64 // by this consumer
	sub      *nats.Subscription
	in       chan *nats.Msg
	denied   *denials.Watch
	batch    int
	bytes    int
	credit   int // messages that were asked for and did not come yet
	lost     int // consumers in a row that brought nothing
}

// errLost says that a consumer is of no use any more.
var errLost = errors.New("the consumer is lost")

// next returns the messages that have come, or none when the server has none now.
func (f *follower) next(ctx context.Context) ([]message, error) {
	for {
		found, err := f.receive(ctx)
		if err == nil {
			f.lost = 0
			return found, nil
		}
		f.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(err, errLost) {
			return nil, f.b.explain(err)
		}
		if f.after > 0 && f.state.history != 1 {
			return nil, fmt.Errorf("reading bucket %q: %w, and with its history of %d no other one goes on: try again",
				f.b.name, err, f.state.history)
		}
		if f.lost++; f.lost > 10 {
			return nil, fmt.Errorf("reading bucket %q: %w again and again: try again", f.b.name, err)
		}
		select {
		case <-time.After(time.Duration(min(f.lost-1, 10)) * 100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *follower) receive(ctx context.Context) ([]message, error) {
	if f.name == "" {
		if err := f.open(ctx); err != nil {
			return nil, err
		}
	}
	var found []message
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for len(found) < batch {
		if err := f.pull(); err != nil {
			return nil, err
		}
		var m *nats.Msg
		if len(found) > 0 && len(f.in) == 0 {
			return found, nil
		}
		select {
		case m = <-f.in:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-quiet.C:
			if err := f.denied.Err(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: it is silent", errLost)
		}
		if m.Header.Get("Status") != "" && !strings.HasPrefix(m.Reply, "$JS.ACK.") {
			beat, err := f.status(m)
			if err != nil || beat {
				return found, err
			}
			continue
		}
		one, err := f.take(m)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func (f *follower) take(m *nats.Msg) (message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return message{}, fmt.Errorf("%w: %w", errLost, err)
	}
	if meta.Sequence.Consumer != f.received+1 {
		return message{}, fmt.Errorf("%w: number %d came after %d", errLost, meta.Sequence.Consumer, f.received)
	}
	f.received++
	f.credit--
	f.after = meta.Sequence.Stream
	one := message{key: strings.TrimPrefix(m.Subject, f.state.prefix), seq: f.after, value: m.Data, header: m.Header,
		at: meta.Timestamp}
	one.judge()
	return one, nil
}

// status handles what is no message; beat says that there are none now.
func (f *follower) status(m *nats.Msg) (beat bool, err error) {
	says := m.Header.Get("Description")
	switch m.Header.Get("Status") {
	case "100":
		return true, nil
	case "404", "408", "409":
		if left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil {
			if left == f.batch && strings.Contains(says, "Exceeds MaxBytes") {
				f.bytes *= 2
			}
			f.credit -= left
			return false, nil
		}
		if _, limit, ok := strings.Cut(says, "MaxRequestBatch of "); ok {
			if n, err := strconv.Atoi(limit); err == nil && n > 0 && n < f.batch {
				f.credit -= f.batch
				f.batch = n
				return false, nil
			}
		}
	}
	return false, fmt.Errorf("%w: %s %s", errLost, m.Header.Get("Status"), says)
}

// pull asks for messages, unless enough were asked for.
func (f *follower) pull() error {
	if f.credit > f.batch/2 {
		return nil
	}
	request := fmt.Sprintf(`{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`,
		f.batch, f.bytes, pullExpires, heartbeat)
	if err := f.b.nc.PublishRequest(f.nextSubject(), f.sub.Subject, []byte(request)); err != nil {
		return err
	}
	f.credit += f.batch
	return nil
}

func (f *follower) nextSubject() string {
	return f.b.api + "CONSUMER.MSG.NEXT." + f.b.stream() + "." + f.name
}

// open makes the consumer. The stream must still be the one that was looked at.
func (f *follower) open(ctx context.Context) (err error) {
	if f.lost > 0 {
		now, err := f.b.state(ctx)
		if err != nil {
			return err
		}
		if !now.created.Equal(f.state.created) || now.last < f.after {
			return fmt.Errorf("the bucket was made anew, or restored, while it was read: try again")
		}
	}
	name := "nagi-" + nuid.Next()
	config := map[string]any{
		"name": name, "deliver_policy": "by_start_sequence", "opt_start_seq": f.after + 1, "ack_policy": "none",
		"replay_policy": "instant", "filter_subject": f.state.prefix + f.pattern,
		"mem_storage": true, "num_replicas": 1, "inactive_threshold": inactive,
	}
	if limit := f.state.inactive; limit > 0 {
		config["inactive_threshold"] = min(inactive, limit)
	}
	if f.after == 0 && f.state.history != 1 {
		config["deliver_policy"] = "last_per_subject"
		delete(config, "opt_start_seq")
	}
	if f.headers {
		config["headers_only"] = true
	}
	var made struct {
		Config struct {
			MaxBatch int `json:"max_batch"`
		} `json:"config"`
	}
	subject := "CONSUMER.CREATE." + f.b.stream() + "." + name + "." + f.state.prefix + f.pattern
	if err := f.b.ask(ctx, subject, map[string]any{"stream_name": f.b.stream(), "config": config}, &made); err != nil {
		return err
	}
	f.in = make(chan *nats.Msg, 4*batch)
	if f.sub, err = f.b.nc.ChanSubscribe(f.b.nc.NewInbox(), f.in); err != nil {
		return err
	}
	f.name, f.received, f.credit, f.batch, f.bytes = name, 0, 0, batch, max(f.bytes, batchBytes)
	if most := made.Config.MaxBatch; most > 0 {
		f.batch = min(f.batch, most)
	}
	f.denied = f.b.denials.Publish(f.nextSubject(), nil)
	return nil
}

// close forgets the consumer, which the server drops.
func (f *follower) close() {
	if f.name == "" {
		return
	}
	_ = f.sub.Unsubscribe()
	f.denied.Stop()
	f.name = ""
}
