package entity

import (
	stdjson "encoding/json"
	"fmt"
	"time"
	"unique"

	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordSchemaVersion is the Record.SchemaVersion that this package writes.
const RecordSchemaVersion = 1

// The condition that the runtime keeps in a record, and its reasons. It is True with ReasonSynced only.
const (
	ConditionReconciled = "Reconciled"
	ReasonSynced        = "Synced"
	ReasonRetrying      = "Retrying"
	ReasonTerminal      = "Terminal"
	ReasonInvalid       = "Invalid"
	ReasonSuspended     = "Suspended"
)

// Record is what a controller keeps about the entity of the same key, in the status bucket: its status, and what is owed
// to it. A record whose Controller is set is a teardown anchor: without a document, it means that a delete is still owed.
type Record struct {
	// SchemaVersion is the shape of the record, RecordSchemaVersion in what is written.
	SchemaVersion int `json:"schemaVersion"`
	// Controller names the controller that reconciled the key or is about to. "" means that none did, and no teardown is owed.
	Controller string `json:"controller,omitempty"`
	// ObservedRevision is the last revision of the document that was reconciled, in the stream that Stream names.
	ObservedRevision uint64 `json:"observedRevision,omitempty"`
	// Stream is the identity of the stream that the revisions belong to, see StreamIdentity.
	Stream string `json:"stream,omitempty"`
	// Conditions hold one of type ConditionReconciled, written on transitions.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Status is the user's part; nil or null means none.
	Status stdjson.RawMessage `json:"status,omitempty"`
	// StatusRevision counts how often UpdateStatus changed Status.
	StatusRevision uint64 `json:"statusRevision,omitempty"`
	// LastDocument is the document of DocumentRevision, as it was about to be reconciled. It is missing, together with
	// DocumentRevision, where it is larger than Config.LastDocumentLimit, and in cached records.
	LastDocument stdjson.RawMessage `json:"lastDocument,omitempty"`
	// DocumentRevision is the revision of LastDocument. Cached records have it.
	DocumentRevision uint64 `json:"documentRevision,omitempty"`

	// DeletionPolicy is the document's annotation "nagi/deletion-policy", kept apart because LastDocument may be missing.
	DeletionPolicy string `json:"deletionPolicy,omitempty"`

	// Revision is the record's own sequence in the status bucket, 0 if it was not read or written yet.
	Revision uint64 `json:"-"`
}

// Anchor tells whether the record makes a teardown owed when the document is gone.
func (r *Record) Anchor() bool { return r.Controller != "" }

// Clone returns a copy with conditions of its own. Status and LastDocument are shared, since they are replaced and never
// changed in place.
func (r *Record) Clone() *Record {
	out := *r
	out.Conditions = append([]metav1.Condition(nil), r.Conditions...)
	return &out
}

// share makes the strings that nearly all records of a bucket have in common one string in memory. It also makes them
// cheap to compare, which is done for each record at each dispatch.
func (r *Record) share() {
	r.Controller, r.Stream = interned(r.Controller), interned(r.Stream)
	for i := range r.Conditions {
		c := &r.Conditions[i]
		c.Type, c.Reason, c.Status = interned(c.Type), interned(c.Reason), interned(c.Status)
	}
}

func interned[S ~string](s S) S { return unique.Make(s).Value() }

// StreamIdentity is the Record.Stream of a stream that was created at this time; "" for the zero time.
func StreamIdentity(created time.Time) string {
	if created.IsZero() {
		return ""
	}
	return created.UTC().Format(time.RFC3339Nano)
}

func encodeRecord(rec *Record) ([]byte, error) { return jsonv1.Marshal(rec) }

func decodeRecord(data []byte, revision uint64) (*Record, error) {
	rec := &Record{}
	if err := jsonv1.Unmarshal(data, rec); err != nil {
		return nil, undecodable(revision, err)
	}
	rec.Revision = revision
	return rec, nil
}

func undecodable(revision uint64, err error) error {
	return fmt.Errorf("record at revision %d does not decode: %w", revision, err)
}
