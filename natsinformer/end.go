package natsinformer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// How a list knows that it has come to the end, and a watch that no message is still to come for a missing sequence.
//
// While others write, neither a count of messages, nor their NumPending, nor the last sequence at the start proves
// that. With one message per subject, a write removes the message we wait for and puts another one behind everything
// else, and the server's count of pending messages lags behind both. The stream's leader cannot tell either: the
// consumer may live on a replica that is behind the leader, or under load far ahead of it.
//
// The consumer itself knows. In a watch it sends a heartbeat when it looked for the next message and the store had
// none. Heartbeats come in line with the messages. So a heartbeat behind all messages that were sent means that each
// change up to where the consumer had looked has arrived. A heartbeat is due when nothing was sent to its pull for a
// while. Where a sequence is missing, we make one more pull, whose heartbeats are always due.
//
// But the server (v2.15) also sends due heartbeats when a client asks for the consumer's INFO, as tools and
// monitoring do, and when it checks each InactiveThreshold whether a client still waits for the pulls. That may be
// between two messages of a long backlog. So a heartbeat counts only if the message before it said that nothing was
// pending behind it, or if it is the second one of the same pull with nothing between: the consumer has looked for
// messages between the two, unless it was asked twice at that moment.
//
// A list uses pulls that do not wait (no_wait), because the end may be a long way off. When the consumer looked for
// the next message and the store had none, it ends such a pull with status 404, in line with the messages. At that
// moment it has delivered everything its replica had, so each key that existed then has arrived, at some revision.
// Four details of the server matter:
//
//   - The server answers a no_wait pull without an expiry by the pending count alone, so ours have one. Such a pull
//     gets a 404 only after it has delivered something. If there is nothing for it, it waits and sends heartbeats; two
//     in a row with nothing between mean the same as a 404.
//   - Before v2.11 the status is not 404 but 408 (Request Timeout), as for a pull whose time is over. The time that the
//     pull took tells the two apart. While others write without a pause, there are no two heartbeats in a row.
//   - While another pull waits, the server may refuse one more at once (408 Requests Pending). Then the other tells.
//     If the last message fulfilled the pull before it, the other one never does; see urge.
//   - The server also ends these pulls when it checks each InactiveThreshold whether a client waits. We ask a consumer
//     of that age again, with a pull that has delivered nothing yet.
//
// The replica may still be behind the leader. So the list is complete only at an end at or behind the sequence that the
// leader said was the last when the list began (see collect).

// listRequest returns a pull that finds the end; it can do so where it delivers nothing if it is to send heartbeats.
// While another pull waits, that is left to the other one.
func (s *session) listRequest(beats bool) string {
	beat := ""
	if beats {
		beat = fmt.Sprintf(`"idle_heartbeat":%d,`, listBeat)
	}
	return fmt.Sprintf(`{"batch":%d,"expires":%d,"no_wait":true,%s"max_bytes":%d}`,
		s.batch, listExpires, beat, s.maxBytes)
}

// listQuiet is how long the consumer sends nothing to a list before it is asked whether that is the end. It is, where
// one pull was fulfilled by the last message, and the next one waits, has delivered nothing, and sends no heartbeats.
const listQuiet = 100 * time.Millisecond

// urge sends one more pull of a list where that is due, and returns when it may be.
func (s *session) urge(now time.Time) (wake time.Time, err error) {
	wake = s.heard.Add(listQuiet)
	switch {
	case !s.listing, s.ended, s.urged, s.credit > s.batch*3/2:
		return now.Add(time.Minute), nil
	case now.Before(wake):
		return wake, nil
	}
	s.urged = true
	return now.Add(time.Minute), s.sendPull(s.listPull(), s.listRequest(true), s.batch)
}

// listPull returns the token of a pull of a list that is sent now.
func (s *session) listPull() string {
	return listToken + strconv.FormatInt(int64(time.Since(s.made)), 10)
}

// cutShort reports whether the server ended a pull of a list long before its time was over.
func (s *session) cutShort(pull string) bool {
	sent, err := strconv.ParseInt(strings.TrimPrefix(pull, listToken), 10, 64)
	return err == nil && time.Since(s.made)-time.Duration(sent) < listExpires/2
}

// takeListStatus handles a status message for a pull of a list.
func (s *session) takeListStatus(m *nats.Msg, pull string) error {
	status, description := m.Header.Get("Status"), m.Header.Get("Description")
	switch {
	case status == "404", status == "408" && description == "Request Timeout" && s.cutShort(pull):
		s.foundEnd()
		s.doubted = time.Since(s.made) >= s.inactive
	case status == "100":
		s.alive = true
		if s.beatOf != pull {
			s.beatOf, s.beats = pull, 0
		}
		s.beats++
		all, err := s.readScanned(m)
		if err == nil && all && s.beats >= 2 {
			s.foundEnd()
		}
		return err
	case status == "408" && strings.Contains(description, "Requests Pending"):
		s.credit = max(0, s.credit-s.batch)
	case status == "408", status == "409":
		return s.pullEnded(m, s.batch)
	default:
		return statusError(m)
	}
	return nil
}

// foundEnd marks the end behind the messages taken so far. All pulls end there.
func (s *session) foundEnd() {
	s.ended, s.nudged, s.credit, s.beats = true, true, 0, 0
}

// resumeList goes on after an end that may not have been the stream's.
func (s *session) resumeList() { s.ended, s.doubted = false, false }

// endList goes on with pulls that wait, as in a watch.
func (s *session) endList() { s.listing, s.ended, s.credit = false, false, 0 }

// beat is a heartbeat: its pull, and how many messages the consumer had sent before it.
type beat struct {
	pull string
	sent uint64
}

// readScanned reads from a heartbeat how far the consumer has looked. It reports whether all it has sent was taken.
func (s *session) readScanned(m *nats.Msg) (all bool, err error) {
	sent, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
	if err != nil {
		return false, nil
	}
	taken := s.consSeq + uint64(len(s.incoming))
	if sent > taken {
		return false, fmt.Errorf("%w: %d were sent and %d have come", errSkipped, sent, taken)
	}
	scanned, err := strconv.ParseUint(m.Header.Get("Nats-Last-Stream"), 10, 64)
	if err != nil || sent < taken {
		return false, nil
	}
	s.scanned = scanned
	return true, nil
}

// conclusive reports whether a heartbeat behind all messages proves that the consumer is at the end (see above).
func (s *session) conclusive(pull string) bool {
	last := s.beat
	s.beat = beat{pull, s.consSeq + uint64(len(s.incoming))}
	return s.beat == last || s.pendingBehind() == 0
}

// pendingBehind returns how many messages the server counted behind the last one taken.
func (s *session) pendingBehind() uint64 {
	n := len(s.incoming)
	if n == 0 {
		return s.pending
	}
	d, err := parseDelivery(s.incoming[n-1].Reply)
	if err != nil {
		return unknownPending
	}
	return d.pending
}

// unknownPending stands for a count that the server has not told.
const unknownPending = math.MaxUint64

func (s *session) probeBatch() int { return min(probeBatch, s.batch) }

// probe makes the consumer report each end at once for the next probeExpires (see above). It returns when to ask again.
func (s *session) probe(now time.Time) (again time.Time, err error) {
	if again = s.probed.Add(probeExpires); now.Before(again) {
		return again, nil
	}
	s.probed = now
	s.probes++
	token := probeToken + strconv.Itoa(s.probes)
	request := fmt.Sprintf(`{"batch":%d,"expires":%d,"idle_heartbeat":1}`, s.probeBatch(), probeExpires)
	return now.Add(probeExpires), s.sendPull(token, request, s.probeBatch())
}
