package denials

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Forgotten is how long after its last denial a right counts as missing, unless it is found to be granted before. It is
// more than the longest pause between two attempts of a key.
const Forgotten = 10 * time.Minute

// mostMissing is of how many buckets it is remembered that the user may not write there.
const mostMissing = 64

// missing is that the user may not write to a bucket.
type missing struct {
	since, last time.Time
	example     string // a subject that was denied
	subjects    map[string]struct{}
}

// mostSubjects are remembered of one bucket. One of them that is granted shows that the right is there.
const mostSubjects = 1024

// bucketOf is the bucket whose key a subject is; "" if it is none. A request for a consumer ends with the keys that it
// filters.
func bucketOf(subject string) string {
	before, key, found := strings.Cut(subject, "$KV.")
	bucket, _, isKey := strings.Cut(key, ".")
	if !found || !isKey || strings.Contains(before, ".CONSUMER.") {
		return ""
	}
	return bucket
}

// RightOf names the right of which an error of a connection says that it is missing, so that one right has one name
// whatever key, consumer or inbox it was missed for; "" for an error that says something else.
func RightOf(err error) string {
	denied, ok := parse(err)
	if !ok {
		return ""
	}
	if denied.subscription {
		return "subscribe to " + pattern(denied.subject)
	}
	return "publish to " + pattern(denied.subject)
}

// pattern is a subject without the tokens that change from one message to the next.
func pattern(subject string) string {
	if bucket := bucketOf(subject); bucket != "" {
		return subject[:strings.Index(subject, "$KV.")] + "$KV." + bucket + ".>"
	}
	if before, consumer, found := strings.Cut(subject, ".CONSUMER."); found {
		tokens := strings.Split(consumer, ".")
		n := 2 // the verb, and the stream
		if tokens[0] == "MSG" {
			n = 3
		}
		if len(tokens) > n {
			return before + ".CONSUMER." + strings.Join(tokens[:n], ".") + ".>"
		}
	}
	if strings.HasPrefix(subject, "_INBOX") || strings.HasPrefix(subject, "_R_.") {
		prefix, _, _ := strings.Cut(subject, ".")
		return prefix + ".>"
	}
	return subject
}

// RightIn is RightOf for an error of which a denial is a part, such as that of a write; "" if there is none.
func RightIn(err error) string {
	denied, ok := errors.AsType[*Error](err)
	if !ok {
		return ""
	}
	return cmp.Or(pattern(denied.Subject), denied.Grant)
}

// noteMissing notes that a message was denied. The mutex must be held.
func (b *book) noteMissing(denied target) {
	bucket := bucketOf(denied.subject)
	if bucket == "" || denied.subscription {
		return
	}
	m := b.missing[bucket]
	if m == nil {
		if len(b.missing) >= mostMissing {
			return
		}
		m = &missing{since: time.Now(), example: denied.subject, subjects: map[string]struct{}{}}
		b.missing[bucket] = m
		b.lacks.Add(1)
		b.tellChange()
	}
	m.last = time.Now()
	if len(m.subjects) < mostSubjects {
		m.subjects[denied.subject] = struct{}{}
	}
}

// tellChange wakes those who wait for a change of what is missing. The mutex must be held.
func (b *book) tellChange() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Granted notes that the server has taken a message. While no right is missing it costs one atomic load.
func (b *book) Granted(subject string) {
	if b.lacks.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket := bucketOf(subject)
	if m := b.missing[bucket]; m != nil {
		if _, was := m.subjects[subject]; was {
			b.forgetMissing(bucket)
		}
	}
}

// forgetMissing needs the mutex.
func (b *book) forgetMissing(bucket string) {
	delete(b.missing, bucket)
	b.lacks.Add(-1)
	b.tellChange()
}

// MayNotWrite says since when the user of the connection may not write to a bucket, and what to grant; the error is nil
// if that is not known. again is after how long it is forgotten if nothing is denied meanwhile.
func (b *book) MayNotWrite(bucket string) (since time.Time, again time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.missing[bucket]
	if m == nil {
		return time.Time{}, 0, nil
	}
	again = time.Until(m.last.Add(Forgotten))
	if again <= 0 {
		b.forgetMissing(bucket)
		return time.Time{}, 0, nil
	}
	return m.since, again, fmt.Errorf("the user may not write to bucket %s: the server refuses to publish to %s, "+
		"among others: grant the user the permission to publish to %s, or to those keys that it is to write: %w",
		bucket, m.example, pattern(m.example), nats.ErrPermissionViolation)
}

// Changed returns a channel that is closed when a right is found to be missing, or to be granted again.
func (b *book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}
