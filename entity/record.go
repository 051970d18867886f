package entity

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"time"
	"unique"

	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordSchemaVersion is the Record.SchemaVersion that this package writes.
const RecordSchemaVersion = 1

// The condition that the runtime keeps in a record, and its reasons. Its status is True with ReasonSynced only.
const (
	ConditionReconciled = "Reconciled"
	ReasonSynced        = "Synced"
	ReasonRetrying      = "Retrying"
	ReasonTerminal      = "Terminal"
	ReasonInvalid       = "Invalid"
	ReasonSuspended     = "Suspended"
)

// ConditionDeleting is True while the document is gone and the record stands, because the teardown waits for something
// or fails. Its message is that of ConditionReconciled. A teardown that goes through has no such condition.
const ConditionDeleting = "Deleting"

// ReasonDeleted is the reason of a NotReconciledError about a document that is gone. No condition has it.
const ReasonDeleted = "Deleted"

// ExpiresNever is the Record.DocumentExpires of a document that outlives the age limit of its bucket.
const ExpiresNever = "never"

// Record is what a controller keeps about an entity, under the same key in the status bucket: its status, and what is
// owed to it. A record whose Controller is set is a teardown anchor: if the document is gone, a delete is still owed.
type Record struct {
	// SchemaVersion is the shape of the record. This package writes RecordSchemaVersion.
	SchemaVersion int `json:"schemaVersion"`
	// Controller names the controller that reconciled the key or is about to. "" means that there is none, and that no
	// teardown is owed.
	Controller string `json:"controller,omitempty"`
	// ObservedRevision is the last revision of the document that was reconciled, in the stream that Stream names.
	ObservedRevision uint64 `json:"observedRevision,omitempty"`
	// Stream is the identity of the stream that the revisions belong to; see StreamIdentity.
	Stream string `json:"stream,omitempty"`
	// FirstSeen is when a controller saw the primary for the first time, in seconds and UTC. It is kept until the
	// teardown of the primary. In a record that an earlier version wrote it is missing until the next write.
	FirstSeen time.Time `json:"firstSeen,omitzero"`
	// Invalid says why the document is invalid while ConditionReconciled has ReasonInvalid; else it is nil. It must not
	// be modified. A record that an earlier version wrote has none.
	Invalid *InvalidDocument `json:"invalid,omitempty"`
	// Conditions hold one of type ConditionReconciled, written on transitions.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Status is the user's part; nil or null means none.
	Status stdjson.RawMessage `json:"status,omitempty"`
	// StatusRevision counts how often UpdateStatus changed Status.
	StatusRevision uint64 `json:"statusRevision,omitempty"`
	// LastDocument is the document at DocumentRevision, as it was about to be reconciled. It is missing if it is larger
	// than Config.LastDocumentLimit; see Records.Put. Cached records have no LastDocument. Who may read the status
	// bucket reads the documents here; it comes without the fields that are secret, see Config.SecretFields.
	LastDocument stdjson.RawMessage `json:"lastDocument,omitempty"`
	// DocumentRevision is the revision of LastDocument. Cached records have it. A controller writes it also where the
	// document is too large to be kept: it is the revision that the controller began with last.
	DocumentRevision uint64 `json:"documentRevision,omitempty"`
	// DocumentExpires is when the document at DocumentRevision expires by the TTL that its own writer has set
	// (Nats-TTL), as RFC 3339 in UTC; ExpiresNever if the writer has set that it outlives the age limit of the bucket;
	// "" if the writer has set nothing, or an earlier version wrote the record. A document that is restored gets what
	// is left of it.
	DocumentExpires string `json:"documentExpires,omitempty"`

	// DeletionPolicy is the document's DeletionPolicyAnnotation. It has its own field because LastDocument may be
	// missing.
	DeletionPolicy string `json:"deletionPolicy,omitempty"`

	// Revision is the record's own sequence in the status bucket, 0 if it was neither read nor written yet.
	Revision uint64 `json:"-"`
}

// Anchor reports whether a teardown is owed when the document is gone.
func (r *Record) Anchor() bool { return r.Controller != "" }

// Clone returns a copy with its own conditions. The copies share Status, LastDocument and Invalid, which are never
// changed in place.
func (r *Record) Clone() *Record {
	out := *r
	out.Conditions = append([]metav1.Condition(nil), r.Conditions...)
	return &out
}

// share interns the strings that nearly all records of a bucket have in common. It saves memory, and makes them cheap
// to compare: each dispatch compares them.
func (r *Record) share() {
	r.Controller, r.Stream = interned(r.Controller), interned(r.Stream)
	for i := range r.Conditions {
		c := &r.Conditions[i]
		c.Type, c.Reason, c.Status = interned(c.Type), interned(c.Reason), interned(c.Status)
	}
}

func interned[S ~string](s S) S { return unique.Make(s).Value() }

// StreamIdentity returns the Record.Stream of a stream created at this time; "" for the zero time.
func StreamIdentity(created time.Time) string {
	if created.IsZero() {
		return ""
	}
	return created.UTC().Format(time.RFC3339Nano)
}

func encodeRecord(rec *Record) ([]byte, error) {
	return jsonv1.Marshal(encodedRecord{rec, rec.Phase()})
}

func decodeRecord(data []byte, revision uint64) (*Record, error) {
	rec := &Record{}
	if err := unmarshalRecord(data, rec); err != nil {
		return nil, undecodable(revision, err)
	}
	rec.Revision = revision
	return rec, nil
}

// unmarshalRecord decodes into a form of a record.
func unmarshalRecord(data []byte, into any) error {
	if err := checkDepthOf(data, recordDepth); err != nil {
		return err
	}
	if err := jsonv1.Unmarshal(data, into); err != nil {
		return whyUndecodable(data, reflect.TypeFor[Record](), err)
	}
	return nil
}

func undecodable(revision uint64, err error) error {
	return fmt.Errorf("record at revision %d does not decode: %w", revision, err)
}
