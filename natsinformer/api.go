package natsinformer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Times within which a request must be answered, by what it costs the server at a million keys; they begin again with each
// answer to another one. Unanswered ones are sent again meanwhile, so these only say when to report a problem.
const (
	quickRequest = 2 * time.Second
	slowRequest  = 30 * time.Second

	inactiveThreshold = 30 * time.Second // when the server drops a consumer of ours that we could not delete
)

// api is the subject of a JetStream API request for our stream.
func (src *source) api(format string, more ...any) string {
	return src.apiPrefix + fmt.Sprintf(format, append([]any{src.cfg.stream()}, more...)...)
}

func apiPrefixOf(js jetstream.JetStream) string {
	o := js.Options()
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return "$JS.API."
}

// streamInfo is what we need of STREAM.INFO.
type streamInfo struct {
	Created time.Time `json:"created"`
	State   struct {
		LastSeq     uint64            `json:"last_seq"`
		NumSubjects int               `json:"num_subjects"`
		Subjects    map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Total   int          `json:"total"` // of the subjects asked for
	Cluster *clusterInfo `json:"cluster"`
	Error   *apiError    `json:"error"`
}

type clusterInfo struct {
	Leader   string `json:"leader"`
	Replicas []struct {
		Offline bool          `json:"offline"`
		Active  time.Duration `json:"active"` // since it was heard of
	} `json:"replicas"` // without the one that answers
}

// freshPeer is how long a leader may not have heard of a member that counts for its majority. Members that hear nothing
// of their leader elect another one after four seconds at the earliest, so nothing is written elsewhere before.
const freshPeer = 3500 * time.Millisecond

// led tells whether a leader with a majority answered. While a stream has no leader, the server lets any member tell what
// it has, and that may be long behind; and a leader that was cut off does not know of its successor.
func (c *clusterInfo) led() bool {
	switch {
	case c == nil:
		return true
	case c.Leader == "":
		return false
	}
	fresh := 1
	for _, peer := range c.Replicas {
		if !peer.Offline && peer.Active < freshPeer {
			fresh++
		}
	}
	return 2*fresh > len(c.Replicas)+1
}

// alone tells whether one server of a cluster has the only replica.
func (c *clusterInfo) alone() bool { return c != nil && len(c.Replicas) == 0 }

// codeNoLeader is the API's error while the stream or the cluster has no leader.
const codeNoLeader jetstream.ErrorCode = 10008

// leaderless tells whether an answer says, in one way or another, that there is no leader to answer.
func leaderless(answer []byte) bool {
	var r struct {
		Cluster *clusterInfo `json:"cluster"`
		Error   *apiError    `json:"error"`
	}
	return json.Unmarshal(answer, &r) == nil && (r.Error.is(codeNoLeader) || !r.Cluster.led())
}

type infoQuery struct {
	Filter string `json:"subjects_filter,omitempty"`
	Offset int    `json:"offset,omitempty"`
}

// askInfo asks for the stream's state and, with a query, for a page of its subjects.
func (s *session) askInfo(q infoQuery, done func(*streamInfo, error)) {
	subject := s.src.api("STREAM.INFO.%s")
	c := &call{subject: subject, timeout: quickRequest}
	if q.Filter != "" {
		c.payload, _ = json.Marshal(q) // strings and numbers only
		c.timeout, c.once, c.counts = slowRequest, true, true
	}
	c.done = func(answer []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		info := &streamInfo{}
		done(info, s.src.decodeAnswer(subject, answer, info, func() *apiError { return info.Error }))
	}
	s.request(c)
}

// info asks and waits, while no consumer delivers.
func (s *session) info(ctx context.Context) (info *streamInfo, err error) {
	answered := false
	s.askInfo(infoQuery{}, func(i *streamInfo, e error) { info, err, answered = i, e, true })
	if werr := s.await(ctx, &answered); werr != nil {
		return nil, werr
	}
	return info, err
}

// messageQuery asks the stream's leader for one message.
type messageQuery struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`

	once bool // one of many: another of each would only make more of them wait
}

// storedMessage identifies a message; its value is not read.
type storedMessage struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
}

// askMessage gives done the message, or nil if the leader has none.
func (s *session) askMessage(q messageQuery, done func(*storedMessage, error)) {
	payload, _ := json.Marshal(q)
	subject := s.src.api("STREAM.MSG.GET.%s")
	c := &call{subject: subject, payload: payload, timeout: slowRequest, large: true}
	if q.once {
		c.timeout, c.once = quickRequest, true
	}
	c.done = func(answer []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var r struct {
			Error   *apiError      `json:"error"`
			Message *storedMessage `json:"message"`
		}
		err = s.src.decodeAnswer(subject, answer, &r, func() *apiError {
			if r.Error.is(jetstream.JSErrCodeMessageNotFound) {
				return nil
			}
			return r.Error
		})
		done(r.Message, err)
	}
	s.request(c)
}

// message asks and waits, while no consumer delivers.
func (s *session) message(ctx context.Context, q messageQuery) (*storedMessage, error) {
	m, err := s.messages(ctx, []messageQuery{q})
	if err != nil {
		return nil, err
	}
	return m[0], nil
}

// messages is message for several at once.
func (s *session) messages(ctx context.Context, queries []messageQuery) (found []*storedMessage, err error) {
	found = make([]*storedMessage, len(queries))
	left, answered := len(queries), false
	for i, q := range queries {
		s.askMessage(q, func(m *storedMessage, e error) {
			found[i] = m
			if err == nil {
				err = e
			}
			left--
			answered = left == 0
		})
	}
	if werr := s.await(ctx, &answered); werr != nil {
		return nil, werr
	}
	return found, err
}

// createConsumer makes a consumer of the given name that delivers every message behind the sequence. Also for a list: in
// a stream of one message per subject that is the last message of each subject, and in another one the server (v2.15)
// stops delivering last messages when one of them is deleted meanwhile.
func (s *session) createConsumer(ctx context.Context, name string, after uint64) error {
	type config struct {
		Name          string        `json:"name"`
		DeliverPolicy string        `json:"deliver_policy"`
		StartSeq      uint64        `json:"opt_start_seq"`
		AckPolicy     string        `json:"ack_policy"`
		ReplayPolicy  string        `json:"replay_policy"`
		Filter        string        `json:"filter_subject"`
		Inactive      time.Duration `json:"inactive_threshold"`
		Replicas      int           `json:"num_replicas"`
		Memory        bool          `json:"mem_storage"`
	}
	c := config{
		Name: name, DeliverPolicy: "by_start_sequence", StartSeq: after + 1, AckPolicy: "none", ReplayPolicy: "instant",
		Filter: s.src.cfg.filterSubject(), Inactive: inactiveThreshold, Replicas: 1, Memory: true,
	}
	payload, err := json.Marshal(map[string]any{"stream_name": s.src.cfg.stream(), "config": c})
	if err != nil {
		return fmt.Errorf("building the consumer's configuration: %w", err)
	}
	subject := s.src.api("CONSUMER.CREATE.%s.%s.%s", name, c.Filter)
	var answer []byte
	var failed error
	answered := false
	s.made = time.Now()
	s.ask(subject, payload, slowRequest, func(a []byte, e error) { answer, failed, answered = a, e, true })
	if err := s.await(ctx, &answered); err != nil {
		if ctx.Err() != nil {
			// The server may be making it now, and would not find it if it were asked to delete it before.
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			_ = s.await(grace, &answered)
		}
		return err
	}
	if failed != nil {
		return failed
	}
	var r struct {
		Error *apiError `json:"error"`
	}
	return s.src.decodeAnswer(subject, answer, &r, func() *apiError { return r.Error })
}

// deleteConsumer asks for a consumer's deletion; done is told whether it is certainly gone, and whether it was before: not by an
// answer that may be to a second request.
func (s *session) deleteConsumer(name string, done func(gone, already bool, err error)) {
	subject := s.src.api("CONSUMER.DELETE.%s.%s", name)
	already := false
	c := &call{subject: subject, timeout: quickRequest}
	c.done = func(answer []byte, err error) {
		if err == nil {
			var r struct {
				Error *apiError `json:"error"`
			}
			err = s.src.decodeAnswer(subject, answer, &r, func() *apiError {
				if r.Error.is(jetstream.JSErrCodeConsumerNotFound) {
					already = c.sent == 1
					return nil
				}
				return r.Error
			})
		}
		done(err == nil || errors.Is(err, jetstream.ErrBucketNotFound), already, err)
	}
	s.request(c)
}
