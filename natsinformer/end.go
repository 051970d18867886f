package natsinformer

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// How a list knows that it has come to the end, and a watch that no message is still to come for a missing sequence.
//
// Counting messages, their NumPending or the last sequence at the start prove nothing while others write: with one
// message per subject, a write removes the message we wait for and puts another one behind everything else, and the
// server's count of what is pending lags behind both. Nor does what the stream's leader says: the consumer may live on
// a replica that is behind the leader, or under load far ahead of it.
//
// The consumer itself knows. In a watch it sends heartbeats when it looked for the next message and the store had none,
// and from no other place, in line with the messages: one that follows all messages that were sent means that at that
// moment each change up to where it had looked had arrived. A heartbeat is due when nothing was sent to its pull for a
// while; so where a sequence is missing, one more pull is made whose heartbeats are always due.
//
// A list asks with pulls that do not want to wait (no_wait), because the end may be a long way off: when the consumer
// looked for the next message and the store had none, it ends such a pull with status 404, in line with the messages. At
// that moment everything the replica had was delivered, so each key that existed then has arrived, at some revision.
// Two details of the server (v2.15) matter:
//
//   - a no_wait pull without an expiry is answered 404 by the pending count alone, so ours have one. With one, the pull
//     ends only when it has delivered something; if there is nothing for it, it waits, and sends heartbeats. Those come
//     from the same place, so two in a row with nothing between mean the same as a 404;
//   - while another pull waits, one more may be refused at once (408 Requests Pending). Then the other one tells.
//
// What remains is that the replica may be behind the leader: the list is complete when it has come to an end at or
// behind the sequence that the leader said was the last when the list began (see collect).

// listRequest is a pull that finds the end.
func (s *session) listRequest() string {
	beat := ""
	if s.credit <= 0 { // the only one
		beat = fmt.Sprintf(`"idle_heartbeat":%d,`, listBeat)
	}
	return fmt.Sprintf(`{"batch":%d,"expires":%d,"no_wait":true,%s"max_bytes":%d}`, pullBatch, listExpires, beat, s.maxBytes)
}

// takeListStatus handles what the server says about a pull of a list.
func (s *session) takeListStatus(m *nats.Msg) error {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case status == "404":
		s.foundEnd()
	case status == "100":
		s.alive = true
		s.beats++
		all, err := s.readScanned(m)
		if err == nil && all && s.beats >= 2 {
			s.foundEnd()
		}
		return err
	case status == "408" && strings.Contains(description, "Requests Pending"):
		s.credit = max(0, s.credit-pullBatch)
	case status == "408", status == "409":
		return s.pullEnded(m)
	default:
		return statusError(m)
	}
	return nil
}

// foundEnd marks the end behind the messages taken so far. All pulls end there.
func (s *session) foundEnd() {
	s.ended, s.nudged, s.credit, s.beats = true, true, 0, 0
}

// resumeList goes on when an end was not the end.
func (s *session) resumeList() { s.ended = false }

// endList goes on with pulls that wait.
func (s *session) endList() { s.listing, s.ended, s.credit = false, false, 0 }
