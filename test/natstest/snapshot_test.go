package natstest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const snapshotKeys = 200

// snapshotWorld makes a bucket, takes a snapshot of it, and then changes the bucket.
func snapshotWorld(
	t *testing.T, nc *nats.Conn, js jetstream.JetStream, cfg jetstream.KeyValueConfig,
) (*Snapshot, *jetstream.StreamInfo) {
	t.Helper()
	kv, err := js.CreateKeyValue(t.Context(), cfg)
	must(t, err)
	for i := range snapshotKeys { // some megabytes: many chunks, and more than one window of them
		_, err := kv.Put(t.Context(), fmt.Sprint("k", i), incompressible(i))
		must(t, err)
	}
	must(t, kv.Delete(t.Context(), "k0"))
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	before := stream.CachedInfo()
	snapshot, err := TakeSnapshot(t.Context(), nc, "KV_b")
	must(t, err)
	for i := range 2 * snapshotKeys {
		_, err := kv.Put(t.Context(), fmt.Sprint("k", i), []byte("later"))
		must(t, err)
	}
	return snapshot, before
}

// incompressible returns a value that the server's compression of snapshots does not make smaller.
func incompressible(seed int) []byte {
	value, x := make([]byte, 50<<10), uint32(seed+1)
	for i := range value {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		value[i] = byte(x)
	}
	return value
}

func restoredAsItWas(t *testing.T, js jetstream.JetStream, before *jetstream.StreamInfo) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	after := stream.CachedInfo()
	if after.State.LastSeq != before.State.LastSeq || after.State.Msgs != before.State.Msgs {
		t.Errorf("restored as %+v, but it was %+v", after.State, before.State)
	}
	kv, err := js.KeyValue(t.Context(), "b")
	must(t, err)
	for i := 1; i < snapshotKeys; i++ {
		entry, err := kv.Get(t.Context(), fmt.Sprint("k", i))
		must(t, err)
		if entry.Revision() != uint64(i+1) || !bytes.Equal(entry.Value(), incompressible(i)) {
			t.Errorf("%s: revision %d, %d bytes", entry.Key(), entry.Revision(), len(entry.Value()))
		}
	}
	for _, key := range []string{"k0", fmt.Sprint("k", snapshotKeys)} {
		if _, err := kv.Get(t.Context(), key); err == nil {
			t.Errorf("%s is there", key)
		}
	}
}

// TestARestoredStreamIsAsItWas in messages and sequences, as often as it is restored, in files and in memory.
func TestARestoredStreamIsAsItWas(t *testing.T) {
	for _, storage := range []jetstream.StorageType{jetstream.FileStorage, jetstream.MemoryStorage} {
		t.Run(storage.String(), func(t *testing.T) {
			server := Start(t)
			nc, js := Connect(t, server.URL())
			snapshot, before := snapshotWorld(t, nc, js, jetstream.KeyValueConfig{Bucket: "b", Storage: storage})
			for range 2 {
				must(t, js.DeleteKeyValue(t.Context(), "b"))
				waitForRemovedFiles(t, server, "KV_b")
				must(t, snapshot.Restore(t.Context(), nc))
				restoredAsItWas(t, js, before)
			}
		})
	}
}

// waitForRemovedFiles of a deleted stream, which the server renames and then removes in the background. A stream of
// that name that is deleted before the removal has ended keeps its files, and the next one begins with their messages.
func waitForRemovedFiles(t *testing.T, server *Server, stream string) {
	t.Helper()
	renamed := filepath.Join(server.StoreDir(), "jetstream", "*", "streams", "."+stream)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		found, err := filepath.Glob(renamed)
		must(t, err)
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not removed: %s", found)
		}
	}
}

func TestAStreamIsRestoredOnAnotherServerWithSmallPayloads(t *testing.T) {
	nc, js := Connect(t, Start(t).URL())
	snapshot, before := snapshotWorld(t, nc, js, jetstream.KeyValueConfig{Bucket: "b"})
	other, otherJS := Connect(t, Start(t, WithMaxPayload(64<<10)).URL())
	must(t, snapshot.Restore(t.Context(), other))
	restoredAsItWas(t, otherJS, before)
}

func TestAReplicatedStreamIsRestored(t *testing.T) {
	c := StartCluster(t, 3)
	nc, js := Connect(t, c.URLs())
	snapshot, before := snapshotWorld(t, nc, js, jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
	must(t, js.DeleteKeyValue(t.Context(), "b"))
	must(t, snapshot.Restore(t.Context(), nc))
	must(t, c.WaitStream(t.Context(), "KV_b"))
	restoredAsItWas(t, js, before)
}

func TestSnapshotErrorsNameTheStreamAndTheReason(t *testing.T) {
	nc, js := Connect(t, Start(t).URL())
	snapshot, _ := snapshotWorld(t, nc, js, jetstream.KeyValueConfig{Bucket: "b"})
	for want, fails := range map[string]func() error{
		"snapshot of stream none: stream not found": func() error {
			_, err := TakeSnapshot(t.Context(), nc, "none")
			return err
		},
		"restore stream KV_b": func() error { return snapshot.Restore(t.Context(), nc) }, // it exists
	} {
		if err := fails(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// A snapshot that was damaged is refused at its end, and leaves no stream.
	must(t, js.DeleteKeyValue(t.Context(), "b"))
	damaged := *snapshot
	damaged.data = damaged.data[:len(damaged.data)/2]
	if err := damaged.Restore(t.Context(), nc); err == nil {
		t.Error("half a snapshot was restored")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnOldSnapshotKeepsTheTimeOfCreation: tests use it for that.
func TestAnOldSnapshotKeepsTheTimeOfCreation(t *testing.T) {
	server := Start(t)
	nc, js := Connect(t, server.URL())
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	must(t, err)
	for i := range snapshotKeys {
		_, err := kv.Put(t.Context(), fmt.Sprint("k", i), incompressible(i))
		must(t, err)
	}
	must(t, kv.Delete(t.Context(), "k0"))
	stream, err := js.Stream(t.Context(), "KV_b")
	must(t, err)
	before := stream.CachedInfo()
	snapshot, err := server.TakeOldSnapshot(t.Context(), nc, "KV_b")
	must(t, err)
	for deadline := time.Now().Add(10 * time.Second); ; { // the client has to reconnect
		if err = js.DeleteKeyValue(t.Context(), "b"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	must(t, err)
	must(t, snapshot.Restore(t.Context(), nc))
	restoredAsItWas(t, js, before)
	stream, err = js.Stream(t.Context(), "KV_b")
	must(t, err)
	if now := stream.CachedInfo().Created; !now.Equal(before.Created) {
		t.Errorf("created %s, but it was %s", now, before.Created)
	}
}
