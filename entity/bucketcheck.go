package entity

import (
	"fmt"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
)

// bucketCheck collects what is wrong with the settings of a bucket: problems, which lose data or break a promise, and
// what works, but not as well as it could. Each says what to change.
type bucketCheck struct {
	jetstream.StreamConfig
	name, stream string
	records      bool   // it is a status bucket
	newer        string // what to add where a newer server is needed
	problems     []string
	warnings     []string
}

// checkBucket checks the settings of a bucket. connected is the version of the server that the client is connected to.
func checkBucket(s jetstream.StreamConfig, cfg Config, name, connected string) (problems, warnings []string) {
	c := bucketCheck{StreamConfig: s, name: name, stream: "KV_" + name, records: name != cfg.Bucket,
		newer: needsTTLs(connected)}
	c.checkSubjects()
	c.checkRemovals()
	c.checkWrites()
	c.checkMarkers()
	return c.problems, c.warnings
}

// needsTTLs is what to add to an advice that needs TTLs of messages; "" if the connected server has them.
func needsTTLs(connected string) string {
	if !kvstream.VersionBefore(connected, kvstream.TTLs) {
		return ""
	}
	return fmt.Sprintf(", which needs nats-server %s or newer: the connected one is %s", kvstream.TTLs, connected)
}

func (c *bucketCheck) bad(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *bucketCheck) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf("bucket %q "+format, append([]any{c.name}, args...)...))
}

// copies reports whether all that the stream has comes from elsewhere.
func (c *bucketCheck) copies() bool {
	return c.Mirror != nil || len(c.Sources) > 0 && len(c.Subjects) == 0
}

func (c *bucketCheck) checkSubjects() {
	subject := subjectsPerBucket + c.name + ".>"
	found, err := kvstream.FindDocuments(c.name, kvstream.StreamOf(c.StreamConfig))
	switch t := c.SubjectTransform; {
	case t != nil && c.Mirror == nil && t.Source != t.Destination:
		c.bad("its subject transform stores what is written to %q as %q, so that no such key is where it was written; "+
			"take it off (nats stream edit %s --no-transform)", t.Source, t.Destination, c.stream)
	case c.copies() && err != nil:
		c.bad("%v", err)
	case c.copies():
	case len(c.Subjects) != 1 || c.Subjects[0] != subject:
		c.bad("stream %s has subjects %q and not %q alone: it is no KV bucket; give it that subject "+
			"(nats stream edit %s --subjects='%s'), or name another bucket",
			c.stream, c.Subjects, subject, c.stream, subject)
	}
	if len(c.Sources) > 0 && found.Others != "" {
		c.bad("its sources bring %s, which are no keys of this bucket: give each source a subject transform to %s",
			found.Others, subject)
	}
}

// checkRemovals checks what removes keys.
func (c *bucketCheck) checkRemovals() {
	if c.Retention != jetstream.LimitsPolicy {
		c.bad("its retention is %s: a key that was read is removed; make it limits", c.Retention)
	}
	if history := c.MaxMsgsPerSubject; history != 1 && (c.MaxAge > 0 || c.AllowMsgTTL) {
		c.bad("it has history %d with TTLs: an expiring revision brings the one before it back, without an event; "+
			"set history to 1 (nats stream edit %s --max-msgs-per-subject=1)", history, c.stream)
	}
	switch {
	case c.MaxAge <= 0:
	case c.copies():
		c.bad("it has a TTL of %v of its own: keys expire here that are still at their origin, without an event; "+
			"take it off (nats stream edit %s --max-age=-1)", c.MaxAge, c.stream)
	case c.SubjectDeleteMarkerTTL <= 0:
		c.bad("it has a TTL of %v and no limit markers: keys expire without an event; "+
			"set no TTL, or markers, which allow rollups "+
			"(nats stream edit %s --allow-msg-ttl --subject-del-markers-ttl=1h)%s", c.MaxAge, c.stream, c.newer)
	case c.records:
		c.bad("it has a TTL of %v: a record that expires takes along what the teardown of its key needs; "+
			"take it off (nats stream edit %s --max-age=-1)", c.MaxAge, c.stream)
	}
	if c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0) {
		c.bad("it discards old messages when it has %d of them or %d bytes: keys disappear; "+
			"set discard to new (nats stream edit %s --discard=new)", c.MaxMsgs, c.MaxBytes, c.stream)
	}
}

// checkWrites checks what keeps documents from being written.
func (c *bucketCheck) checkWrites() {
	if c.DiscardNewPerSubject {
		c.bad("it refuses a new revision of a key that has one (discard_new_per_subject), so that no document can be "+
			"changed or deleted; take that off (nats stream edit %s --no-discard-per-subject)", c.stream)
	}
	if c.NoAck {
		c.bad("it does not acknowledge writes: a lost one could not be told; take no_ack off "+
			"(nats stream edit %s --ack)", c.stream)
	}
	if c.AllowMsgCounter {
		c.bad("it is a stream of counters (allow_msg_counter), which takes no documents and cannot be changed: " +
			"name another bucket")
	}
	if c.Sealed {
		c.warn("is sealed: it can be read, and takes no writes for ever; to write, copy it to another bucket")
	}
	if c.PersistMode == jetstream.AsyncPersistMode {
		c.warn("acknowledges a write before it is stored (persist_mode async): a crash of the server loses " +
			"writes that were told as done; that cannot be changed: copy it to another bucket")
	}
}

// checkMarkers checks whether the markers of deletes go in time.
func (c *bucketCheck) checkMarkers() {
	switch {
	case c.AllowMsgTTL:
	case c.Mirror != nil || len(c.Sources) > 0:
		c.warn("takes no message TTL: what expires at its origin, documents and the markers of deletes, stays here "+
			"for ever; allow it (nats stream edit %s --allow-msg-ttl)%s", c.stream, c.newer)
	default:
		c.warn("takes no message TTL: the markers of deletes stay for ever; allow it "+
			"(nats stream edit %s --allow-msg-ttl)%s", c.stream, c.newer)
	}
}
