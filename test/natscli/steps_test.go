package natscli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// told is the JSON that a command prints.
func told[T any](w *walk, out string) (value T) {
	w.Helper()
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		w.Fatalf("%v in\n%s", err, out)
	}
	return value
}

type record struct {
	Phase            string
	ObservedRevision int
	Conditions       []struct{ Type, Status, Reason string }
	Invalid          struct{ Path, Reason string }
}

// recorded waits until the record of a key says a phase, of the revision that the bucket has.
func (w *walk) recorded(as, bucket, key, phase string) {
	w.Helper()
	_, said, _ := w.try(as, "nats kv get "+bucket+" "+key)
	revision := regexp.MustCompile(`revision: (\d+)`).FindStringSubmatch(said)
	if revision == nil {
		said = w.sh(as, "nats kv get "+bucket+" "+key)
		revision = regexp.MustCompile(`revision: (\d+)`).FindStringSubmatch(said)
	}
	if revision == nil {
		w.Fatalf("no revision in %s", said)
	}
	n, err := strconv.Atoi(revision[1])
	must(w.T, err)
	w.untilTrue(key+" is "+phase, func() bool {
		out, _, err := w.try(as, "nats kv get --raw "+bucket+"-status "+key)
		return err == nil && told[record](w, out).Phase == phase && strings.Contains(out, fmt.Sprintf(
			`"observedGeneration":%d,`, n))
	})
}

// put has a step's before: a document that is put, and reconciled to a phase.
func put(by, as, bucket, key, document, phase string) func(*walk) {
	return func(w *walk) {
		w.Helper()
		w.sh(by, fmt.Sprintf("nats kv put %s %s '%s'", bucket, key, document))
		w.recorded(as, bucket, key, phase)
	}
}

type brake struct {
	Engaged    bool
	Engagement string
	Count      int
}

// vanish has twelve documents put and reconciled, and purged by the administrator; the brake is engaged then.
func vanish(by, as, bucket, prefix string) func(*walk) {
	return func(w *walk) {
		w.Helper()
		admin := "admin"
		if by == nobody {
			admin = nobody
		}
		for i := range 12 {
			w.sh(by, fmt.Sprintf("nats kv put %s %sk%d '{}'", bucket, prefix, i))
		}
		for i := range 12 {
			w.recorded(as, bucket, fmt.Sprintf("%sk%d", prefix, i), "Synced")
		}
		w.sh(admin, "nats req '$JS.API.STREAM.PURGE.KV_"+bucket+"' ''")
		w.until(`"engaged":true`, as, "nats req nagi."+bucket+".read.brake-list ''")
	}
}

// held are engagement and count of what a verb of the service lists, in place of those words.
func held(as, bucket, verb string, engagement, count string) func(*walk) []string {
	return func(w *walk) []string {
		w.Helper()
		var b brake
		w.untilTrue(verb+" counts", func() bool {
			out := w.sh(as, "nats req nagi."+bucket+".read."+verb+" ''")
			b = told[brake](w, out)
			if verb == "brake-list" {
				b = told[struct{ Brake brake }](w, out).Brake
			}
			return b.Count >= 12
		})
		return []string{engagement, b.Engagement, count, strconv.Itoa(b.Count)}
	}
}

// heldList fills in the list of what is held, too.
func heldList(as, bucket string, engagement, count, list string) func(*walk) []string {
	return func(w *walk) []string {
		w.Helper()
		words := held(as, bucket, "brake-list", engagement, count)(w)
		out := w.sh(as, "nats req nagi."+bucket+".read.brake-list ''")
		return append(words, list, told[struct{ List string }](w, out).List)
	}
}

// orphanList fills in the list of orphans that there is.
func orphanList(as, bucket, list string) func(*walk) []string {
	return func(w *walk) []string {
		w.Helper()
		out := w.sh(as, "nats req nagi."+bucket+".read.orphans ''")
		return []string{list, told[struct{ List string }](w, out).List}
	}
}

// tornDown checks that what was held has gone.
func tornDown(as, bucket string) func(*walk, string) {
	return func(w *walk, _ string) {
		w.Helper()
		w.until(`"engaged":false`, as, "nats req nagi."+bucket+".read.brake-list ''")
		w.until(`"keys":[]`, as, "nats req nagi."+bucket+".read.notok ''")
	}
}

// decodes checks that what is printed can be given to jq.
func decodes(w *walk, out string) { told[map[string]any](w, out) }
