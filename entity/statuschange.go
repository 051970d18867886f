package entity

import (
	stdjson "encoding/json"
	"fmt"
)

// StatusChange is the status of an entity on its way into a record. A caller that writes the record anyway puts the
// status into the same write. A nil *StatusChange changes nothing.
type StatusChange struct {
	kind, bucket, key string

	status stdjson.RawMessage
	// read is the StatusRevision that the entity was read with, if conditional.
	read        uint64
	conditional bool
}

// StatusChange implements EnginePort.
func (c enginePort[T]) StatusChange(obj T) (*StatusChange, error) {
	key, err := c.keys.of(obj)
	if err != nil {
		return nil, err
	}
	if c.records == nil {
		return nil, c.noStatus(key)
	}
	change := &StatusChange{kind: c.cfg.Kind, bucket: c.cfg.StatusBucket, key: key}
	if change.status, err = c.codec.statusJSON(obj); err != nil {
		return nil, newInvalid(c.cfg.Kind, c.cfg.StatusBucket, key, "status", err.Error())
	}
	if len(change.status) > c.records.limit {
		return nil, newTooLarge(c.cfg.Kind, c.cfg.StatusBucket, key, len(change.status), c.records.limit, "the status")
	}
	change.read, change.conditional = statusRevisionOf(obj)
	return change, nil
}

// Apply puts the status into the key's record and reports whether that changed it. As in UpdateStatus, it conflicts,
// and leaves the record as it is, if the status was updated since the entity was read.
func (s *StatusChange) Apply(rec *Record) (changed bool, err error) {
	if s == nil {
		return false, nil
	}
	if !s.isFor(rec) {
		return false, newConflict("status of "+s.kind, s.bucket, s.key,
			fmt.Sprintf("somebody has updated it since it was read (update %d, not %d)", rec.StatusRevision, s.read))
	}
	if s.IsIn(rec) {
		return false, nil
	}
	rec.Status = s.status
	rec.StatusRevision++
	return true, nil
}

// IsIn reports whether a record has the status already, no matter who wrote it.
func (s *StatusChange) IsIn(rec *Record) bool { return s == nil || sameStatus(rec.Status, s.status) }

// isFor reports whether the record has the status that the entity was read with.
func (s *StatusChange) isFor(rec *Record) bool { return !s.conditional || rec.StatusRevision == s.read }

// isFirst reports whether the entity was read without a status, and gets one.
func (s *StatusChange) isFirst() bool {
	return s.conditional && s.read == 0 && !isEmptyStatus(s.status)
}
