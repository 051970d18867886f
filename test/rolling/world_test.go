package rolling

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// world is a NATS server and the tests' questions to it. Nothing here depends on the code under test.
type world struct {
	t      *testing.T
	server *natstest.Server
	js     jetstream.JetStream
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needOldBuild(t)
	server := natstest.Start(t)
	_, js := natstest.Connect(t, server.URL())
	w := &world{t: t, server: server, js: js}
	w.makeBuckets()
	return w
}

// makeBuckets makes the buckets as the old code does. It refuses those that the new code makes, which deny rollups.
func (w *world) makeBuckets() {
	w.t.Helper()
	for _, bucket := range []string{sites, status, pages, pages + "-status"} {
		_, err := w.js.CreateKeyValue(w.t.Context(), jetstream.KeyValueConfig{
			Bucket: bucket, Storage: jetstream.FileStorage, LimitMarkerTTL: 24 * time.Hour,
		})
		must(w.t, err)
	}
}

// bothWays plays a scenario twice: the old code goes first, then the new.
func bothWays(t *testing.T, play func(t *testing.T, first, second side)) {
	t.Helper()
	for _, order := range [][2]side{{oldCode, newCode}, {newCode, oldCode}} {
		t.Run(fmt.Sprintf("%s first, then %s", order[0], order[1]), func(t *testing.T) {
			t.Parallel()
			play(t, order[0], order[1])
		})
	}
}

// The buckets of the replicas.
const (
	sites  = "sites"
	status = "sites-status"
	pages  = "pages"
)

// Reserved keys of the status bucket.
const (
	reservedPrefix = "_nagi."
	leaseKey       = "_nagi.lease"
	brakeKey       = "_nagi.brake"
	releaseKey     = "_nagi.release"
	intentsPrefix  = "_nagi.intents."
)

func (w *world) kv(bucket string) jetstream.KeyValue {
	w.t.Helper()
	kv, err := w.js.KeyValue(w.t.Context(), bucket)
	must(w.t, err)
	return kv
}

// put writes a document, and returns its revision.
func (w *world) put(bucket, key, document string) uint64 {
	w.t.Helper()
	revision, err := w.kv(bucket).Put(w.t.Context(), key, []byte(document))
	must(w.t, err)
	return revision
}

func (w *world) delete(bucket, key string) {
	w.t.Helper()
	must(w.t, w.kv(bucket).Delete(w.t.Context(), key))
}

// get reads a key; the revision is 0 if it is absent.
func (w *world) get(bucket, key string) (value []byte, revision uint64) {
	w.t.Helper()
	entry, err := w.kv(bucket).Get(w.t.Context(), key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0
	}
	must(w.t, err)
	return entry.Value(), entry.Revision()
}

func (w *world) exists(bucket, key string) bool {
	w.t.Helper()
	_, revision := w.get(bucket, key)
	return revision > 0
}

// keys returns the keys of a bucket that begin with a prefix. It asks for each subject of the stream: a KeyValue's own
// list ends early while keys such as the lease are written.
func (w *world) keys(bucket, prefix string) (found []string) {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), "KV_"+bucket)
	must(w.t, err)
	subjects := "$KV." + bucket + "."
	info, err := stream.Info(w.t.Context(), jetstream.WithSubjectFilter(subjects+prefix+">"))
	must(w.t, err)
	for subject := range info.State.Subjects {
		if key := strings.TrimPrefix(subject, subjects); w.exists(bucket, key) {
			found = append(found, key)
		}
	}
	return found
}

// records counts the records of primaries.
func (w *world) records() int {
	w.t.Helper()
	return len(slices.DeleteFunc(w.keys(status, ""), func(key string) bool {
		return strings.HasPrefix(key, reservedPrefix)
	}))
}

// record has the fields of a record that tests read.
type record struct {
	ObservedRevision uint64 `json:"observedRevision"`
	Conditions       []struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"conditions"`
	Status struct {
		Title string `json:"title"`
		By    string `json:"by"`
	} `json:"status"`
}

func (w *world) record(key string) (r record) {
	w.t.Helper()
	if value, revision := w.get(status, key); revision > 0 {
		must(w.t, json.Unmarshal(value, &r))
	}
	return r
}

// reason returns the reason of the condition Reconciled.
func (r record) reason() string {
	for _, condition := range r.Conditions {
		if condition.Type == "Reconciled" {
			return condition.Reason
		}
	}
	return ""
}

// reconciled waits until the record of a site says that this revision is reconciled.
func (w *world) reconciled(key string, revision uint64) {
	w.t.Helper()
	natstest.Eventually(w.t, fmt.Sprintf("%s is reconciled at revision %d", key, revision), func() bool {
		r := w.record(key)
		return r.ObservedRevision == revision && r.reason() == "Synced"
	})
}

// made creates sites with the same fields, and waits until they are reconciled.
func (w *world) made(from, to int, document string) {
	w.t.Helper()
	revisions := map[string]uint64{}
	for i := from; i < to; i++ {
		revisions[siteName(i)] = w.put(sites, siteName(i), document)
	}
	for key, revision := range revisions {
		w.reconciled(key, revision)
	}
}

func siteName(i int) string { return fmt.Sprintf("site-%02d", i) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for what has to happen. It promises nothing about speed.
const patience = 30 * time.Second
