package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// tale is a fabricated history.
type tale struct {
	now    time.Time
	last   map[string]uint64 // sequence by bucket
	events []event
}

func newTale() *tale {
	return &tale{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), last: map[string]uint64{}}
}

func (l *tale) after(d time.Duration) *tale {
	l.now = l.now.Add(d)
	return l
}

func (l *tale) write(by, bucket, key, value string) *tale {
	l.last[bucket]++
	l.events = append(l.events, event{
		at: l.now, sent: l.now, kind: written, by: by, sequence: l.last[bucket],
		message: message{bucket: bucket, key: key, marker: value == "", value: []byte(value)},
	})
	return l
}

func (l *tale) purge(bucket, key string) *tale {
	l.events = append(l.events, event{at: l.now, kind: purged, message: message{bucket: bucket, key: key}})
	return l
}

// passes is time in which the replicas are asked what is degraded.
func (l *tale) passes(d time.Duration, degraded ...string) *tale {
	for end := l.now.Add(d); l.now.Before(end); l.now = l.now.Add(sampleEvery) {
		l.events = append(l.events, event{at: l.now, kind: sampled, degraded: degraded})
	}
	return l
}

// sentIn says whose term it was when the last message was sent.
func (l *tale) sentIn(holder string) *tale {
	l.events[len(l.events)-1].held = holder
	return l
}

// heardLate says that the history heard of the last message long after it was sent.
func (l *tale) heardLate(by time.Duration) *tale {
	l.now = l.now.Add(by)
	l.events[len(l.events)-1].at = l.now
	return l
}

func (l *tale) lease(by string) *tale {
	return l.write(by, statusBucket, leaseKey, fmt.Sprintf(
		`{"holderIdentity":%q,"leaseDurationSeconds":%d}`, by, leaseDuration/time.Second))
}

func (l *tale) freeLease(by string) *tale {
	return l.write(by, statusBucket, leaseKey, `{"holderIdentity":"","leaseDurationSeconds":1}`)
}

func (l *tale) site() *tale   { return l.write("", sitesBucket, "home", `{"spec":{"title":"one"}}`) }
func (l *tale) delete() *tale { return l.write("", sitesBucket, "home", "") }

func (l *tale) page(by string) *tale {
	return l.write(by, pagesBucket, "home.0", `{"metadata":{"annotations":{"kumori/ownerkey":"home"}}}`)
}

func (l *tale) cascade(by string) *tale    { return l.write(by, pagesBucket, "home.0", "") }
func (l *tale) anchorGone(by string) *tale { return l.write(by, statusBucket, "home", "") }

func (l *tale) anchor(by string) *tale {
	return l.write(by, statusBucket, "home", fmt.Sprintf(
		`{"documentRevision":%d,"lastDocument":{"spec":{"title":"one"}}}`, l.last[sitesBucket]))
}

func (l *tale) outcome(by, status string) *tale {
	revision, observed := l.last[sitesBucket], uint64(0)
	if status == "True" {
		observed = revision
	}
	return l.write(by, statusBucket, "home", fmt.Sprintf(
		`{"documentRevision":%d,"observedRevision":%d,"conditions":[{"type":"Reconciled","status":%q,`+
			`"observedGeneration":%d}],"lastDocument":{"spec":{"title":"one"}}}`, revision, observed, status, revision))
}

// begun is a replica that leads, and has claimed the bucket before.
func (l *tale) begun(by string) *tale {
	return l.write(by, statusBucket, claimKey, "sites").write(by, statusBucket, instanceKey, "id").lease(by)
}

// reconciledBy is a site that the replica has reconciled.
func (l *tale) reconciledBy(by string) *tale {
	return l.site().anchor(by).page(by).outcome(by, "True")
}

// TestTheOracleTellsEachBrokenRule, and has nothing to say about what is fine.
func TestTheOracleTellsEachBrokenRule(t *testing.T) {
	const soon, bound = 100 * time.Millisecond, time.Minute
	for name, test := range map[string]struct {
		tale *tale
		says []string // each is told once, in any order; none where all is fine
	}{
		"a life": {tale: newTale().begun("r1").reconciledBy("r1").after(soon).lease("r1").
			delete().cascade("r1").anchorGone("r1").passes(2 * silent)},
		"the lease runs out, and another goes on": {tale: newTale().begun("r1").site().anchor("r1").
			after(leaseDuration+soon).lease("r2").page("r2").outcome("r2", "True")},
		"the history hears late of a lease that runs out": {tale: newTale().begun("r1").heardLate(leaseDuration/2).
			after(leaseDuration/2).lease("r2").site().outcome("r2", "True")},
		"the lease is given back, and another takes it at once": {tale: newTale().begun("r1").reconciledBy("r1").
			freeLease("r1").after(soon).lease("r2").site().anchor("r2").outcome("r2", "True")},
		"a message is held on its way": {tale: newTale().begun("r1").after(leaseDuration).lease("r2").
			write("r1", statusBucket, streamKey, "{}").sentIn("r1")},
		"the lease vanishes, and its holder goes on": {tale: newTale().begun("r1").
			purge(statusBucket, leaseKey).reconciledBy("r1").lease("r1")},
		"a standby claims the bucket": {tale: newTale().begun("r1").write("r2", statusBucket, claimKey, "sites")},
		"a vandal deletes a page": {tale: newTale().begun("r1").reconciledBy("r1").write("", pagesBucket, "home.0", "").
			purge(pagesBucket, "home.0")},
		"a user replaces what was not reconciled": {tale: newTale().begun("r1").site().site().after(soon).
			anchor("r1").outcome("r1", "True")},
		"a site that was never anchored goes": {tale: newTale().begun("r1").site().delete()},
		"a site vanishes, and is torn down": {tale: newTale().begun("r1").reconciledBy("r1").
			purge(sitesBucket, "home").after(soon).cascade("r1").anchorGone("r1")},
		"a standstill that shows": {tale: newTale().begun("r1").site().passes(2*silent, "r1 records").
			outcome("r1", "True")},
		"what goes on after a standstill that showed": {tale: newTale().begun("r1").site().
			passes(2*silent, "r1 records").passes(recovery-soon).outcome("r1", "True")},
		"a standstill of the reconciler": {tale: newTale().begun("r1").site().anchor("r1").outcome("r1", "False").
			passes(2*silent).outcome("r1", "True")},
		"a standstill of the whole test": {tale: newTale().begun("r1").site().passes(soon).after(2*silent).passes(soon).
			outcome("r1", "True")},
		"what takes long, and moves": {tale: newTale().begun("r1").site().passes(silent-soon).anchor("r1").
			passes(silent-soon).page("r1").passes(silent-soon).lease("r2").
			passes(silent-soon).outcome("r2", "True")},

		"a write before the first term": {
			tale: newTale().site().anchor("r1").begun("r1").outcome("r1", "True"),
			says: []string{`r1 writes outside of a term: the lease is ""'s`},
		},
		"a write after the lease was given back": {
			tale: newTale().begun("r1").reconciledBy("r1").freeLease("r1").write("r1", statusBucket, streamKey, "{}"),
			says: []string{`r1 writes outside of a term: the lease is ""'s`},
		},
		"a record written in the term of another": {
			tale: newTale().begun("r1").site().anchor("r1").after(leaseDuration).lease("r2").outcome("r1", "True"),
			says: []string{`r1 writes outside of a term: the lease is "r2"'s`},
		},
		"a message sent in the term of another": {
			tale: newTale().begun("r1").after(leaseDuration).lease("r2").
				write("r1", statusBucket, streamKey, "{}").sentIn("r2"),
			says: []string{`r1 writes outside of a term: the lease is "r2"'s`},
		},
		"a secondary written in the term of another": {
			tale: newTale().begun("r1").site().after(leaseDuration).lease("r2").outcome("r2", "True").page("r1"),
			says: []string{`r1 writes outside of a term: the lease is "r2"'s`},
		},
		"a lease that is taken while it lasts": {
			tale: newTale().begun("r1").after(leaseDuration - soon).lease("r2"),
			says: []string{"r2 writes the lease 3.9s after r1 has renewed it"},
		},
		"a page of a site that exists is deleted": {
			tale: newTale().begun("r1").reconciledBy("r1").cascade("r1"),
			says: []string{`r1 deletes the page home.0 of the site "home", which exists`},
		},
		"a page of a site that is back is deleted": {
			tale: newTale().begun("r1").reconciledBy("r1").delete().site().cascade("r1").outcome("r1", "True"),
			says: []string{`r1 deletes the page home.0 of the site "home", which exists`},
		},
		"a document that is never reconciled": {
			tale: newTale().begun("r1").reconciledBy("r1").site().anchor("r1"),
			says: []string{"site home is never settled: revision 2"},
		},
		"a document that is said to be reconciled at another revision": {
			tale: newTale().begun("r1").site().outcome("r1", "True").site(),
			says: []string{"site home is never settled: revision 2"},
		},
		"a teardown that never ends": {
			tale: newTale().begun("r1").reconciledBy("r1").delete().cascade("r1"),
			says: []string{"site home is never settled: its teardown"},
		},
		"a document that is reconciled late": {
			tale: newTale().begun("r1").site().after(bound+soon).outcome("r1", "True"),
			says: []string{"site home is settled after 1m0.1s"},
		},
		"a silent standstill": {
			tale: newTale().begun("r1").site().passes(2*silent).outcome("r1", "True"),
			says: []string{"site home stands still, and nothing is degraded: revision 1"},
		},
		"a standstill that shows now and then": {
			tale: newTale().begun("r1").site().passes(silent, "r1 lease").passes(recovery+2*soon).
				passes(silent, "r1 lease").outcome("r1", "True"),
			says: []string{"site home stands still, and nothing is degraded: revision 1"},
		},
		"a silent standstill of a teardown": {
			tale: newTale().begun("r1").reconciledBy("r1").delete().passes(2 * silent).anchorGone("r1"),
			says: []string{"site home stands still, and nothing is degraded: its teardown"},
		},
		"a silent standstill while other sites and the renewals go on": {
			tale: newTale().begun("r1").site().passes(silent-soon).write("r1", statusBucket, "other", "{}").lease("r1").
				passes(4*soon).outcome("r1", "True"),
			says: []string{"site home stands still, and nothing is degraded: revision 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := broken(test.tale.events, bound)
			if len(got) != len(test.says) {
				t.Errorf("told %q, want %q", got, test.says)
			}
			for _, want := range test.says {
				if !strings.Contains(strings.Join(got, "\n"), want) {
					t.Errorf("told %q, want %q", got, want)
				}
			}
		})
	}
}
