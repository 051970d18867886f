package backup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// While a restore sends a stream somebody may make one of that name. The restore fails then, and must not take that
// stream for its own.
func TestWhatSomebodyElseMadeStays(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "theirs", []byte("1")); err != nil {
			t.Fatal(err)
		}
		s := Stream{Name: "KV_websites", Bucket: "websites", LastSeq: 9, Created: time.Now().Add(-time.Hour)}
		if err := s.remove(t.Context(), js, perhaps); err == nil || !strings.Contains(err.Error(), "somebody else's") {
			t.Errorf("it says %v", err)
		}
		if _, err := kv.Get(t.Context(), "theirs"); err != nil {
			t.Errorf("what somebody else wrote: %v", err)
		}
		info, err := streamInfo(t.Context(), js, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		s.Created = info.Created
		if err := s.remove(t.Context(), js, perhaps); err == nil || !strings.Contains(err.Error(), "taken away again") {
			t.Errorf("of its own it says %v", err)
		}
	})
}

// The server refuses a restore at its end, if somebody has made the stream meanwhile.
func TestARestoreThatIsRefusedLeavesWhatIsThere(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites"})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if _, err := kv.Put(t.Context(), key, []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(t.TempDir(), "backup")
		m, err := Make(t.Context(), js, Subject{Kind: "Website", Bucket: "websites"}, dir, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteKeyValue(t.Context(), "websites"); err != nil {
			t.Fatal(err)
		}
		var of content
		told, err := os.ReadFile(filepath.Join(dir, "KV_websites", contentFile))
		if err == nil {
			err = json.Unmarshal(told, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.Open(filepath.Join(dir, "KV_websites", m.Streams[0].Files[0].Name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = data.Close() }()
		made := false
		left, err := apiOf(js).put(t.Context(), "KV_websites", of, reader{data, func(int) { // before it is sent
			if made {
				return
			}
			made = true
			theirs, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "websites"})
			if err == nil {
				_, err = theirs.Put(t.Context(), "theirs", []byte("1"))
			}
			if err != nil {
				t.Error(err)
			}
		}}, func(int) {})
		if err == nil || left != nothing {
			t.Errorf("it says %v, and that it has left %d", err, left)
		}
		kv, err = js.KeyValue(t.Context(), "websites")
		if err == nil {
			_, err = kv.Get(t.Context(), "theirs")
		}
		if err != nil {
			t.Errorf("what somebody else wrote: %v", err)
		}
	})
}
