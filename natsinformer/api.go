package natsinformer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
)

// How long a request may stay unanswered before that is reported, by what it costs the server at a million keys, and
// where values are large. The time begins again with each answer to another request of the same subject. Meanwhile
// unanswered requests are sent again (resendAfter).
const (
	quickRequest = 2 * time.Second
	largeRequest = 5 * time.Second
	slowRequest  = 30 * time.Second
	// placedRequest is for a consumer whose place a cluster chooses, the first placedTries times. Where one replica of
	// three is dead, one time of 81 none of these places is alive. More tries would delay a stream that needs longer to
	// make a consumer, and would leave more consumers to delete.
	placedRequest = 2 * time.Second
	placedTries   = 4

	// inactiveThreshold is when the server drops a consumer of ours that we could not delete, unless the stream has a
	// lower limit.
	inactiveThreshold = 30 * time.Second
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

// streamInfo holds the fields of a STREAM.INFO answer that we use.
type streamInfo struct {
	Created time.Time `json:"created"`
	Time    time.Time `json:"ts"` // by the server's clock; zero before nats-server 2.10
	Config  struct {
		kvstream.Stream
		MaxAge      time.Duration `json:"max_age"`
		History     int           `json:"max_msgs_per_subject"`
		AllowMsgTTL bool          `json:"allow_msg_ttl"`
		MarkerTTL   time.Duration `json:"subject_delete_marker_ttl"` // of what a limit removes; zero for no markers
		Limits      struct {
			Inactive time.Duration `json:"inactive_threshold"` // that a consumer may ask for; zero for any
		} `json:"consumer_limits"`
	} `json:"config"`
	State struct {
		Messages    uint64            `json:"messages"`
		FirstSeq    uint64            `json:"first_seq"`
		LastSeq     uint64            `json:"last_seq"`
		NumSubjects int               `json:"num_subjects"`
		Subjects    map[string]uint64 `json:"subjects"`
	} `json:"state"`
	Total   int          `json:"total"` // how many subjects match the query
	Cluster *clusterInfo `json:"cluster"`
	Error   *apiError    `json:"error"`
}

type clusterInfo struct {
	Leader string `json:"leader"`
	// LeaderSince is set by a leader that has applied what came before it. Older servers never send it; all that do
	// send TrafficAccount, too.
	LeaderSince    *time.Time `json:"leader_since"`
	TrafficAccount string     `json:"traffic_account"`
	Replicas       []struct {
		Name    string        `json:"name"`
		Offline bool          `json:"offline"`
		Active  time.Duration `json:"active"` // time since the leader heard of it
	} `json:"replicas"` // without the member that answers
}

// freshPeer is how recently a leader must have heard of a member to count it for its majority. Members that hear
// nothing of their leader elect another one after four seconds at the earliest, so nothing is written elsewhere before.
const freshPeer = 3500 * time.Millisecond

// led reports whether a leader with a majority answered. While a stream has no leader, the server lets any member
// answer, which may be long behind. When it writes down its answer there may be a new leader: another member, which is
// then named as a replica, too, or the member itself, which is not yet leading since any time. A leader that was cut
// off does not know of its successor.
func (c *clusterInfo) led() bool {
	switch {
	case c == nil:
		return true
	case c.Leader == "":
		return false
	}
	if len(c.Replicas) > 0 && c.TrafficAccount != "" && c.LeaderSince == nil {
		return false
	}
	fresh := 1
	for _, peer := range c.Replicas {
		if peer.Name == c.Leader {
			return false
		}
		if !peer.Offline && peer.Active < freshPeer {
			fresh++
		}
	}
	return 2*fresh > len(c.Replicas)+1
}

// alone reports whether one server of a cluster has the only replica.
func (c *clusterInfo) alone() bool { return c != nil && len(c.Replicas) == 0 }

// codeNoLeader is the API's error code while the stream or the cluster has no leader.
const codeNoLeader jetstream.ErrorCode = 10008

// leaderless reports whether an answer does not count, because no leader with a majority gave it.
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
	c := &call{timeout: quickRequest}
	if q.Filter != "" {
		c.payload, _ = json.Marshal(q) // strings and numbers only
		c.timeout, c.once, c.counts = slowRequest, true, true
	}
	s.askStream(c, done)
}

// askStream sends a request for the stream's state.
func (s *session) askStream(c *call, done func(*streamInfo, error)) {
	c.subject = s.src.api("STREAM.INFO.%s")
	c.done = func(answer []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		info := &streamInfo{}
		err = s.src.decodeAnswer(c.subject, answer, info, func() *apiError { return info.Error })
		if err == nil {
			s.src.tellSettings(answer)
			s.src.expires, s.src.marks = info.Config.AllowMsgTTL, info.Config.MarkerTTL > 0
			if !info.Time.IsZero() {
				s.src.ahead = time.Until(info.Time)
			}
		}
		done(info, err)
	}
	s.request(c)
}

// info asks for the stream's state and waits. Only for a session whose consumer does not deliver now.
func (s *session) info(ctx context.Context) (info *streamInfo, err error) {
	answered := false
	s.askInfo(infoQuery{}, func(i *streamInfo, e error) { info, err, answered = i, e, true })
	if werr := s.await(ctx, &answered); werr != nil {
		return nil, werr
	}
	return info, err
}

// confirmStream fails if the stream was made anew since info was told: its last sequence says nothing about the one
// that the consumer lists. Only for a session whose consumer does not deliver yet.
func (s *session) confirmStream(ctx context.Context, info *streamInfo) error {
	now, err := s.info(ctx)
	if err == nil && !now.Created.Equal(info.Created) {
		return errStreamChanged
	}
	return err
}

// messageQuery asks the stream's leader for one message.
type messageQuery struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`

	once bool // it is one of many, and not repeated while no answer comes: the others would have to wait
}

// storedMessage is a message as the leader has it.
type storedMessage struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Header  []byte    `json:"hdrs"`
	Value   []byte    `json:"data"`
}

// askMessage passes the message to done, or nil if the leader has none.
func (s *session) askMessage(q messageQuery, done func(*storedMessage, error)) {
	payload, _ := json.Marshal(q)
	subject := s.src.api("STREAM.MSG.GET.%s")
	c := &call{subject: subject, payload: payload, timeout: largeRequest, large: true}
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

// message asks for a message and waits. Only for a session whose consumer does not deliver now.
func (s *session) message(ctx context.Context, q messageQuery) (*storedMessage, error) {
	m, err := s.messages(ctx, []messageQuery{q})
	if err != nil {
		return nil, err
	}
	return m[0], nil
}

// messages is message for several queries at once.
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

// createConsumer makes a consumer of the given name that delivers every message behind the sequence. A list uses it
// too: in a stream of one message per subject these are the last messages. In a stream with history the server (v2.15)
// stops delivering last messages (last_per_subject) when one of them is deleted meanwhile.
func (s *session) createConsumer(
	ctx context.Context, name string, after uint64, timeout time.Duration, info *streamInfo,
) error {
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
		Filter: s.src.filterSubject(), Inactive: inactiveThreshold, Replicas: 1, Memory: true,
	}
	if limit := info.Config.Limits.Inactive; limit > 0 {
		c.Inactive = min(c.Inactive, limit)
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
	s.ask(subject, payload, timeout, func(a []byte, e error) { answer, failed, answered = a, e, true })
	if err := s.await(ctx, &answered); err != nil {
		if ctx.Err() != nil {
			// The server may be making it now. It would not find it if we asked it to delete it before that.
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
		Error  *apiError `json:"error"`
		Config struct {
			MaxBatch int `json:"max_batch"` // that a pull may ask for, by the server's limits; zero for any
		} `json:"config"`
	}
	err = s.src.decodeAnswer(subject, answer, &r, func() *apiError { return r.Error })
	if limit := r.Config.MaxBatch; limit > 0 {
		s.batch = min(s.batch, limit)
	}
	s.inactive = c.Inactive
	return err
}

// deleteConsumer asks the server to delete a consumer. done learns whether the consumer is certainly gone, and whether
// it was gone already, which only the answer to a first request proves. While it has asked, it does not ask again.
func (s *session) deleteConsumer(name string, done func(gone, already bool, err error)) {
	subject := s.src.api("CONSUMER.DELETE.%s.%s", name)
	if s.isUnderWay(subject) {
		return
	}
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
