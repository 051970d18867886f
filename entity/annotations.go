package entity

// Annotations that users set on a document to instruct the runtime.
const (
	// SuspendAnnotation with the value "true" stops the runtime from reconciling the document until the annotation is
	// removed. A suspended primary that is deleted is torn down like any other: its suspension goes with its document.
	SuspendAnnotation = "nagi/suspend"
	// SuspendReasonAnnotation says for people why a document is suspended. It has no effect, and goes with a resume.
	SuspendReasonAnnotation = "nagi/suspend-reason"
	// DeletionPolicyAnnotation with the value DeletionPolicyOrphan keeps the secondaries of a deleted primary.
	DeletionPolicyAnnotation = "nagi/deletion-policy"
	DeletionPolicyOrphan     = "orphan"
)
