package rolling

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestBothWriteTheSameKeysAndFields: each code plays the same story alone, and after each step the contents of the
// buckets have the same shape.
func TestBothWriteTheSameKeysAndFields(t *testing.T) {
	t.Parallel()
	old, now := newTale(t, oldCode), newTale(t, newCode)
	for _, step := range []struct {
		name string
		play func(*tale)
	}{
		{"while it leads", (*tale).fill},
		{"while a creation is under way", (*tale).create},
		{"after a graceful stop", (*tale).stop},
		{"under the brake", (*tale).brake},
		{"after the release", (*tale).release},
	} {
		step.play(old)
		step.play(now)
		same(t, step.name, old, now)
	}
}

// same waits until the buckets of both have the same shape.
func same(t *testing.T, moment string, old, now *tale) {
	t.Helper()
	var different []string
	defer func() {
		if t.Failed() {
			t.Logf("different %s:\n%s", moment, strings.Join(different, "\n"))
		}
	}()
	natstest.Eventually(t, "the old and the new code wrote the same "+moment, func() bool {
		different = differences(old.shapes(), now.shapes())
		return len(different) == 0
	})
}

// differences returns the lines in which two maps differ.
func differences(old, now map[string]string) (lines []string) {
	both := maps.Clone(old)
	maps.Copy(both, now)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if old[key] != now[key] {
			lines = append(lines, fmt.Sprintf("%s: old %q, new %q", key, old[key], now[key]))
		}
	}
	return lines
}

// tale is the story of one side.
type tale struct {
	*begun
	side side
	r    *process
}

func newTale(t *testing.T, s side) *tale {
	t.Helper()
	return &tale{begun: newBegun(t), side: s}
}

// fill makes a record of each kind.
func (s *tale) fill() {
	s.r = s.replica(s.side)
	s.made(0, many, `{"spec":{"title":"first","disk":1}}`)
	s.made(0, many/2, `{"spec":{"title":"second","disk":2}}`)
	s.put(sites, "suspended", `{"metadata":{"annotations":{"nagi/suspend":"true"}},"spec":{"title":"later"}}`)
	s.put(sites, "invalid", `{"spec":{"title":7}}`)
	s.reconciled("orphaned", s.put(sites, "orphaned",
		`{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}},"spec":{"title":"left","disk":1}}`))
	s.reconciled("forever", s.put(sites, "forever", fmt.Sprintf(
		`{"metadata":{"annotations":{"nagi/deletion-policy":"orphan"}},"spec":{"title":%q}}`,
		strings.Repeat("large ", 100))))
	s.delete(sites, "orphaned")
	natstest.Eventually(s.t, "the records say so", func() bool {
		return s.record("suspended").reason() == "Suspended" && s.record("invalid").reason() == "Invalid" &&
			!s.exists(status, "orphaned")
	})
	s.r.leads()
}

// create begins a creation that does not end.
func (s *tale) create() {
	s.cloud.use(late(s.begun))
	s.put(sites, home, `{"spec":{"title":"first","disk":1}}`)
	natstest.Eventually(s.t, "the API has the request", func() bool { return closed(s.arrived) })
}

func (s *tale) stop() {
	s.cloud.use(atOnce)
	s.letGo()
	natstest.Eventually(s.t, "the site is reconciled", func() bool { return s.record(home).reason() == "Synced" })
	s.r.stop()
}

func (s *tale) brake() {
	s.emptied()
	s.r = s.replica(s.side)
	natstest.Eventually(s.t, "the brake holds all", func() bool {
		const withRecords = many + 2 // home and forever
		state := s.r.state()
		return state.Engaged && state.Idle && state.Held == withRecords && s.exists(status, brakeKey)
	})
	s.r.stop()
}

// release releases the held deletes, which then fail.
func (s *tale) release() {
	s.r = s.start(s.side, "-cloud", s.cloud.server.URL, "-refuse-deletes")
	s.begun.release(s.side)
	natstest.Eventually(s.t, "the brake is released", func() bool {
		return s.r.state().Released && s.r.endedOf(home) > 0 && !s.exists(status, releaseKey)
	})
}

// shapes returns the shape of each key, with the names of its headers, and each bucket's configuration.
func (w *world) shapes() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, bucket := range []string{sites, status, pages} {
		stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
		must(w.t, err)
		config, err := json.Marshal(stream.CachedInfo().Config)
		must(w.t, err)
		all[bucket] = string(config)
		for _, key := range w.keys(bucket, "") {
			if key == addedKey {
				continue
			}
			message, err := stream.GetLastMsgForSubject(w.t.Context(), "$KV."+bucket+"."+key)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue // removed meanwhile
			}
			must(w.t, err)
			headers := slices.Sorted(maps.Keys(message.Header))
			data := message.Data
			if bucket == status && (key == invalid || key == suspended) {
				data = withoutAdded(data)
			}
			all[bucket+"/"+key] = fmt.Sprintf("%v %s", headers, shape(data))
		}
	}
	return all
}

// shape returns the names of the fields of a JSON value and the kinds of its scalars, or "text" if it is no JSON.
func shape(data []byte) string {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return "text"
	}
	return shapeOf(value)
}

// addedKey is a reserved key that the new code writes and the old one does not know.
const addedKey = "_nagi.ledwith"

// withoutAdded takes off what the new code notes of a document that it does not reconcile, and the old one did not: at
// which revision of which stream.
func withoutAdded(record []byte) []byte {
	var members map[string]any
	if json.Unmarshal(record, &members) != nil {
		return record
	}
	delete(members, "stream")
	conditions, _ := members["conditions"].([]any)
	for _, condition := range conditions {
		if condition, ok := condition.(map[string]any); ok {
			delete(condition, "observedGeneration")
		}
	}
	without, err := json.Marshal(members)
	if err != nil {
		return record
	}
	return without
}

// added are what the new code writes and the old one did not know. It needs none. It lets them stand, but for those of
// a record, which it leaves out when it writes.
var added = []string{"nagi/ownerrevision", "nagi/ownerstatusbucket", "engagement", "firstSeen", "invalid", "phase"}

func shapeOf(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if slices.Contains(added, name) {
				continue
			}
			fields = append(fields, name+": "+shapeOf(value[name]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		elements := map[string]bool{}
		for _, element := range value {
			elements[shapeOf(element)] = true
		}
		return "[" + strings.Join(slices.Sorted(maps.Keys(elements)), " | ") + "]"
	case nil:
		return "null"
	default:
		return fmt.Sprintf("%T", value)
	}
}
