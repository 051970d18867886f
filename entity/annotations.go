package entity

// Annotations of a document, by which its writer asks something of the runtime.
const (
	// SuspendAnnotation with the value "true" keeps the runtime from reconciling the document until it is taken away. A
	// suspended primary that is deleted is torn down like any other: with the document its suspension is gone too.
	SuspendAnnotation = "nagi/suspend"
	// DeletionPolicyAnnotation with the value DeletionPolicyOrphan leaves what the primary owns when it goes.
	DeletionPolicyAnnotation = "nagi/deletion-policy"
	DeletionPolicyOrphan     = "orphan"
)
