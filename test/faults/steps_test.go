package faults

import (
	"encoding/json"
	"slices"
	"strings"
)

// step is a durable step: a message that a stream keeps.
type step string

// The steps, in the order of a replica's life and a primary's.
const (
	claimed          step = "claim"            // the status bucket is this controller's
	installed        step = "installation"     // the id of the installation is made
	leaseTaken       step = "lease taken"      // a term begins
	leaseRenewed     step = "lease renewed"    // a term goes on
	streamKept       step = "stream kept"      // the brake keeps which stream the primaries were in, and how far
	anchorWritten    step = "anchor"           // a delete cannot be lost from now on
	secondaryWritten step = "secondary"        // the reconciler creates or updates a page
	statusWritten    step = "status"           // the reconciler's UpdateStatus
	outcomeWritten   step = "outcome"          // the revision is reconciled
	cascaded         step = "cascade"          // a page of a site that is gone is deleted
	anchorGone       step = "anchor gone"      // the teardown is over
	leaseGivenBack   step = "lease given back" // a replica stops
	noStep           step = "no step of interest"
)

// The buckets, and the reserved keys of the status bucket.
const (
	sitesBucket  = "sites"
	pagesBucket  = "pages"
	statusBucket = "sites-status"

	reservedPrefix = "_nagi."
	claimKey       = "_nagi.controller"
	instanceKey    = "_nagi.instance"
	leaseKey       = "_nagi.lease"
	streamKey      = "_nagi.stream"
)

// message is what somebody publishes to a bucket.
type message struct {
	bucket, key string
	marker      bool // of a delete or a purge
	value       []byte
}

func (m message) subject() string { return "$KV." + m.bucket + "." + m.key }

// splitSubject is the inverse of message.subject; ok is false for other subjects.
func splitSubject(subject string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(subject, "$KV.")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ".")
}

// recorded is what the tests read of a record.
type recorded struct {
	ObservedRevision uint64      `json:"observedRevision"`
	DocumentRevision int64       `json:"documentRevision"`
	Conditions       []condition `json:"conditions"`
	Status           struct {
		Note string `json:"note"`
	} `json:"status"`
	LastDocument struct {
		Spec struct {
			Title string `json:"title"`
		} `json:"spec"`
	} `json:"lastDocument"`
}

type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

func parseRecord(value []byte) (r recorded) {
	_ = json.Unmarshal(value, &r) // what is no record has no revisions
	return r
}

// reconciled returns the condition Reconciled.
func (r recorded) reconciled() (c condition, ok bool) {
	i := slices.IndexFunc(r.Conditions, func(c condition) bool { return c.Type == "Reconciled" })
	if i < 0 {
		return condition{}, false
	}
	return r.Conditions[i], true
}

// synced reports whether the record says that a revision is reconciled.
func (r recorded) synced(revision uint64) bool {
	c, _ := r.reconciled()
	return c.Status == "True" && r.ObservedRevision == revision
}

// failing reports whether the record says that the reconcile of a revision has failed.
func (r recorded) failing(revision uint64) bool {
	c, _ := r.reconciled()
	return c.Status == "False" && c.ObservedGeneration == int64(revision)
}

// held is what the tests read of a lease.
type held struct {
	Holder   string `json:"holderIdentity"`
	Duration int    `json:"leaseDurationSeconds"`
}

func parseLease(value []byte) (h held) {
	_ = json.Unmarshal(value, &h) // what is no lease has no holder
	return h
}

// stepOf names the step that a replica's message is. holder is the identity in the lease before it.
func stepOf(m message, holder string) step {
	switch {
	case m.bucket == pagesBucket && m.marker:
		return cascaded
	case m.bucket == pagesBucket:
		return secondaryWritten
	case m.bucket != statusBucket:
		return noStep
	case strings.HasPrefix(m.key, reservedPrefix):
		return reservedStep(m, holder)
	case m.marker:
		return anchorGone
	}
	return recordStep(parseRecord(m.value))
}

func reservedStep(m message, holder string) step {
	if m.marker {
		return noStep
	}
	switch m.key {
	case claimKey:
		return claimed
	case instanceKey:
		return installed
	case streamKey:
		return streamKept
	case leaseKey:
		switch by := parseLease(m.value).Holder; by {
		case "":
			return leaseGivenBack
		case holder:
			return leaseRenewed
		}
		return leaseTaken
	}
	return noStep
}

// recordStep tells the writes of a record apart. Each revision of a document has a title of its own, and the reconciler
// puts it into the status before it ends.
func recordStep(r recorded) step {
	condition, told := r.reconciled()
	told = told && condition.ObservedGeneration == r.DocumentRevision
	noted := r.Status.Note == r.LastDocument.Spec.Title
	switch {
	case told && condition.Status == "True":
		return outcomeWritten
	case noted: // perhaps after a failure
		return statusWritten
	case told:
		return outcomeWritten
	}
	return anchorWritten
}
