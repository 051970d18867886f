package worlds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rule is what holds in each night.
type Rule string

// The rules.
const (
	// OneAttempt: no two replicas reconcile a key at once, but for a reconciler whose context has ended. One that starts
	// while the streams of an empty server are younger than the lease lasts takes that for a first start, as
	// docs/production.md says, while another one leads until it has noticed. So does one that finds its own name in a
	// lease that was put back, as docs/restoring.md says.
	OneAttempt Rule = "one attempt"
	// InTerm: no replica writes to a bucket while the lease names another. Where all share the keys the rule is that of
	// each key, OneAttempt.
	InTerm Rule = "in term"
	// KeepsOwned: nothing is deleted that has an owner.
	KeepsOwned Rule = "keeps owned"
	// OwnWrites: a replica reads what it wrote.
	OwnWrites Rule = "own writes"
	// Told: a key that stands still for more than twenty seconds is in Degraded, or Explain says why.
	Told Rule = "told"
	// Settled: in the quiet each document is reconciled, and the subject agrees.
	Settled Rule = "settled"
	// OneLeader: in the quiet one replica leads.
	OneLeader Rule = "one leader"
	// Well: in the quiet nothing is degraded, and Explain knows of nothing that is to be done.
	Well Rule = "well"
	// InOrder: the revision that a record has observed does not go back.
	InOrder Rule = "in order"
	// NothingLeft: in the quiet there are no records of documents that are gone, and replicas remember nothing of keys.
	NothingLeft Rule = "nothing left"
	// Ended: a replica that is told to stop does.
	Ended Rule = "ended"
	// OneOwner: where replicas share the keys, who has a slot changes by compare-and-set alone, at each message of the
	// stream: its owner gives it, or another takes it for itself, from one whose lease is gone from the stream.
	OneOwner Rule = "one owner"
	// Fenced: what a replica writes about a key carries the fence of the epoch under which it has the key's slot, and so
	// comes before the next epoch in the stream; or it goes over what the replica itself has written under that epoch.
	Fenced Rule = "fenced"
	// Owned: no slot is without an owner whose lease lasts for longer than a lease and two seconds, while a member is
	// there and nothing hinders it. Where the stream is another one the members wait for a lease, too.
	Owned Rule = "owned"
)

// Broken is a rule that a night has broken.
type Broken struct {
	Rule Rule
	At   time.Duration // since the world began
	Says string
}

// String is when, which rule, and how.
func (b Broken) String() string { return fmt.Sprintf("%.3f %s: %s", b.At.Seconds(), b.Rule, b.Says) }

// breaks notes a broken rule.
func (w *world) breaks(r Rule, format string, args ...any) {
	b := Broken{r, time.Since(w.begin), fmt.Sprintf(format, args...)}
	w.note("BROKEN", "%s: %s", b.Rule, b.Says)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, b)
}

// tenure is since when the lease names an identity; "" if it is free, or if that is not known.
type tenure struct {
	since    time.Time
	identity string
	known    bool
}

// write is one write of a replica to a bucket.
type write struct {
	at time.Time
	by string
	message
}

// sends is told of each write that a replica sends.
func (w *world) sends(by string, m message) {
	w.mu.Lock()
	if m.id != "" {
		w.writers[m.id] = by
	}
	if id, ok := strings.CutPrefix(m.key, membersKey); ok {
		w.lives[id] = by
	}
	if m.bucket == w.subject.status() && m.key == leaseKey {
		if id := holderOf(m.value); id != "" {
			w.identity[id] = by
		}
		renewed := by == w.renewing
		if w.renewing = by; renewed {
			w.mu.Unlock()
			return
		}
	}
	if !strings.HasPrefix(m.key, "_nagi") && w.isOurs(m.bucket) {
		w.writes = append(w.writes, write{time.Now(), by, m})
	}
	says, ok := w.unownedLocked(m)
	w.mu.Unlock()
	if !ok {
		w.breaks(KeepsOwned, "%s %s", by, says)
	}
	what := "writes"
	if m.marker {
		what = "deletes"
	}
	w.note(by, "%s %s/%s %.300s", what, m.bucket, m.key, m.value)
}

func (w *world) isOurs(bucket string) bool { return slices.Contains(w.subject.buckets(), bucket) }

// unownedLocked reports whether a message may be sent, or says which delete of what an owner wants it is. What began
// before the owner was there goes on for a while.
func (w *world) unownedLocked(m message) (says string, ok bool) {
	if !slices.Contains(w.subject.Owned, m.bucket) {
		return "", true
	}
	id := m.bucket + "/" + m.key
	if !m.marker {
		if owner := ownerOf(m.value); owner != "" {
			w.owners[id] = owner
		}
		return "", true
	}
	owner := w.owners[id]
	e := w.model[owner]
	if owner == "" || e.state != exists || time.Since(e.since) < settle || w.subject.Wants == nil ||
		!w.subject.Wants(e.document, m.bucket, m.key) {
		return "", true
	}
	return fmt.Sprintf("deletes %s, and %s wants it since %.3f", id, owner, e.since.Sub(w.begin).Seconds()), false
}

// touches notes that a saboteur is about to write or purge a key of the status bucket.
func (w *world) touches(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched[key] = true
	if strings.HasPrefix(key, sharesKey) { // T4: nobody takes slots for as long as a lease lasts
		w.hindrances = append(w.hindrances, hindrance{from: time.Now(), to: time.Now().Add(longestLease)})
	}
}

// takesAway notes that a saboteur is about to delete or purge an owned key.
func (w *world) takesAway(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[key] = time.Now()
}

// tookAway reports whether a saboteur may have taken a key away after a process wrote it last.
func (w *world) tookAway(by, key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range slices.Backward(w.writes) {
		if m.by == by && m.key == key && !m.marker {
			return !w.taken[key].Before(m.at)
		}
	}
	return false
}

// ownerOf reads who owns what is in NATS.
func ownerOf(value []byte) string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(value, &o)
	return o.Metadata.Annotations["kumori/ownerkey"]
}

// holdTerms holds what replicas wrote against who held the lease.
func (w *world) holdTerms() {
	if w.plan.Shards > 0 {
		return
	}
	w.mu.Lock()
	tenures, writes := w.holder, w.writes
	w.mu.Unlock()
	i := -1
	for _, m := range writes {
		for i+1 < len(tenures) && !tenures[i+1].since.After(m.at) {
			i++
		}
		if i < 0 || !tenures[i].known {
			continue
		}
		now := w.identity[tenures[i].identity]
		before := ""
		if i > 0 && m.at.Equal(tenures[i].since) {
			if !tenures[i-1].known {
				continue // it may be of the holder of before, who gives the lease back in the same moment
			}
			before = w.identity[tenures[i-1].identity]
		}
		if m.by != now && m.by != before {
			w.mu.Lock()
			w.broken = append(w.broken, Broken{InTerm, m.at.Sub(w.begin), fmt.Sprintf(
				"%s writes %s/%s, and since %.3f the lease is of %q (%s)", m.by, m.bucket, m.key,
				tenures[i].since.Sub(w.begin).Seconds(), now, tenures[i].identity)})
			w.mu.Unlock()
		}
	}
}
