package cli

import (
	"bytes"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// revision is that of a key of NATS.
func (w *world) revision(bucket, key string) uint64 {
	w.Helper()
	kv, err := w.js.KeyValue(w.Context(), bucket)
	w.must(err)
	entry, err := kv.Get(w.Context(), key)
	w.must(err)
	return entry.Revision()
}

// record is that of a website.
func (w *world) record(key string) *entity.Record {
	w.Helper()
	rec, err := w.websites.Record(w.Context(), key)
	w.must(err)
	return rec
}

// typed runs the tool in a terminal, where somebody types this.
func (w *world) typed(stdin string, args ...string) ran {
	var stdout, stderr bytes.Buffer
	env := Env{
		Streams: out.Streams{
			In: strings.NewReader(stdin), Out: &stdout, Err: &stderr, Terminal: true, Interactive: true,
		},
		Options: []nats.Option{natstest.Dialer()},
	}
	code := Run(w.Context(), env, append([]string{"--server", w.srv.URL()}, args...))
	return ran{stdout.String(), stderr.String(), code}
}

// bucket makes one that keeps some revisions of each key.
func (w *world) bucket(name string) {
	w.Helper()
	_, err := w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
		Bucket: name, Storage: jetstream.MemoryStorage, History: 5,
	})
	w.must(err)
}
