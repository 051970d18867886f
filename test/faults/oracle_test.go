package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
)

// The limits of the rules.
const (
	// silent is how long a primary may stand still while nothing is degraded.
	silent = 10 * time.Second
	// recovery is how long after its last word, for another replica's lease may have to run out first.
	recovery = leaseDuration + time.Second
	// sampleEvery is how often the replicas are asked what is degraded.
	sampleEvery = 100 * time.Millisecond
)

// oracle reads a history, and tells each broken rule:
//
//   - A replica writes only while its term lasts, which is from when the stream has its name in the lease until it has
//     another name there, or none. A lease that vanishes stays with its holder. Only the claim may be written without a
//     term. A lease is taken when it is free, or has run out. What was sent in the term, and held on the way, may come
//     later: the server knows no terms, and refuses it only where the next holder has written the key.
//   - No replica deletes a secondary whose owner exists.
//   - Each document that was acknowledged is reconciled within a time, unless it is replaced before. Each one that is
//     gone is torn down.
//   - What is not, while nothing moves for longer than silent, shows as degraded, unless the record says that the
//     reconciler has failed. What moves is the site itself, or that replicas begin.
type oracle struct {
	within time.Duration // for the third rule

	holder  event // the last that took or renewed the lease; the zero event if it is free
	sites   map[string]bool
	owners  map[string]string // of pages
	records map[string]bool
	due     map[string]*debt // by site
	sampled time.Time

	broken []string
}

// debt is a document that is not reconciled yet, or a teardown.
type debt struct {
	revision uint64 // 0 is a teardown
	since    time.Time
	still    time.Duration // that was sampled since the last step
	silent   time.Duration // as much of it as came after the last word of it
	failing  bool          // as the record says
	told     bool          // that it stands still
}

// broken returns what breaks a rule.
func broken(events []event, within time.Duration) []string {
	o := &oracle{
		within: within, sites: map[string]bool{}, owners: map[string]string{}, records: map[string]bool{},
		due: map[string]*debt{},
	}
	for _, e := range events {
		switch {
		case e.kind == sampled:
			o.standstill(e)
			continue
		case e.kind == written && e.by != "":
			o.term(e)
			o.delete(e)
		}
		o.moves(e)
		o.debts(e)
		o.follow(e)
	}
	for key, d := range o.due {
		o.breaks(events[len(events)-1], "site %s is never settled: %s", key, d)
	}
	return o.broken
}

func (d *debt) String() string {
	if d.revision == 0 {
		return "its teardown is owed since " + d.since.Format("05.000")
	}
	return fmt.Sprintf("revision %d is acknowledged since %s", d.revision, d.since.Format("05.000"))
}

func (o *oracle) breaks(e event, format string, args ...any) {
	o.broken = append(o.broken, fmt.Sprintf(format, args...)+"; at "+e.String())
}

// term is the first rule.
func (o *oracle) term(e event) {
	switch {
	case e.bucket == statusBucket && (e.key == claimKey || e.key == instanceKey):
	case e.bucket == statusBucket && e.key == leaseKey:
		free := o.holder.by == "" || o.holder.by == e.by
		lasts := time.Duration(parseLease(o.holder.value).Duration) * time.Second
		// Who takes it has seen it after it was sent, and waited. The history may have heard of it later.
		if age := e.sent.Sub(o.holder.sent); !free && age < lasts {
			o.breaks(e, "%s writes the lease %v after %s has renewed it", e.by, age, o.holder.by)
		}
	case o.holder.by != e.by && e.held != e.by:
		o.breaks(e, "%s writes outside of a term: the lease is %q's", e.by, o.holder.by)
	}
}

// delete is the second rule.
func (o *oracle) delete(e event) {
	if owner := o.owners[e.key]; e.bucket == pagesBucket && e.marker && o.sites[owner] {
		o.breaks(e, "%s deletes the page %s of the site %q, which exists", e.by, e.key, owner)
	}
}

// debts is the third rule.
func (o *oracle) debts(e event) {
	gone := e.marker || e.kind == purged
	switch {
	case e.bucket == sitesBucket && !gone:
		o.due[e.key] = &debt{revision: e.sequence, since: e.at}
	case e.bucket == sitesBucket:
		delete(o.due, e.key)
		if o.records[e.key] {
			o.due[e.key] = &debt{since: e.at}
		}
	case e.bucket == statusBucket && !strings.HasPrefix(e.key, reservedPrefix):
		d := o.due[e.key]
		if d != nil && d.revision > 0 && !gone {
			d.failing = parseRecord(e.value).failing(d.revision)
		}
		if d == nil || d.revision == 0 != gone || !gone && !parseRecord(e.value).synced(d.revision) {
			return
		}
		delete(o.due, e.key)
		if took := e.at.Sub(d.since); took > o.within {
			o.breaks(e, "site %s is settled after %v: %s", e.key, took, d)
		}
	}
}

// moves notes what moves.
func (o *oracle) moves(e event) {
	begins := e.bucket == statusBucket && strings.HasPrefix(e.key, reservedPrefix) &&
		(e.key != leaseKey || e.by != o.holder.by)
	for key, d := range o.due {
		if begins || e.key == key && e.bucket == statusBucket || e.bucket == pagesBucket && o.ownerAfter(e) == key {
			d.still, d.silent = 0, 0
		}
	}
}

// ownerAfter is the site that a page belongs to, or belonged to.
func (o *oracle) ownerAfter(e event) string {
	if e.marker || e.kind == purged {
		return o.owners[e.key]
	}
	return ownerOf(e.value)
}

// standstill is the fourth rule: nothing stands still for long without a word. Time counts where samples were taken
// when they were due: a test that gets no processor stands still, and so does what it tests. What was told and is over
// has recovery to go on.
func (o *oracle) standstill(e event) {
	passed := e.at.Sub(o.sampled)
	o.sampled = e.at
	if passed > sampleEvery*3/2 {
		passed = 0
	}
	for key, d := range o.due {
		d.still, d.silent = d.still+passed, d.silent+passed
		if len(e.degraded) > 0 {
			d.silent = 0
		}
		if d.still > silent && d.silent > recovery && !d.failing && !d.told {
			d.told = true
			o.breaks(e, "site %s stands still, and nothing is degraded: %s", key, d)
		}
	}
}

// follow keeps what the streams hold.
func (o *oracle) follow(e event) {
	there := e.kind == written && !e.marker
	switch e.bucket {
	case sitesBucket:
		o.sites[e.key] = there
	case pagesBucket:
		delete(o.owners, e.key)
		if there {
			o.owners[e.key] = ownerOf(e.value)
		}
	case statusBucket:
		switch {
		case e.key != leaseKey:
			o.records[e.key] = there
		case there && parseLease(e.value).Holder == "":
			o.holder = event{}
		case there:
			o.holder = e
		}
	}
}

// ownerOf returns the owner that a page names.
func ownerOf(page []byte) string {
	var document struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(page, &document) // what is no page has no owner
	return document.Metadata.Annotations[entity.OwnerKeyAnnotation]
}

// story is the events for a log, without renewals of the lease and samples that tell nothing new.
func story(events []event) string {
	var lines []string
	holder, degraded := "", []string(nil)
	for _, e := range events {
		if e.kind == sampled {
			if slices.Equal(e.degraded, degraded) {
				continue
			}
			degraded = e.degraded
		} else if e.key == leaseKey && e.kind == written && !e.marker {
			by := parseLease(e.value).Holder
			if by == holder {
				continue
			}
			holder = by
		}
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}
