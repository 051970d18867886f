package entity_test

import (
	"testing"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRawBytesAreReadWhateverTheyAreAndWrittenByCompareAndSet(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		_, js := natstest.Connect(t, natstest.Start(t).URL())
		client, err := entity.NewClient[*Website](t.Context(), js, entity.Config{
			Kind: "Website", Bucket: "raw", StatusBucket: entity.NoStatusBucket, Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		t.Cleanup(client.Close)
		ctx := t.Context()
		if _, revision, err := client.GetRaw(ctx, "a"); !apierrors.IsNotFound(err) || revision != 0 {
			t.Errorf("of no key: revision %d, %v", revision, err)
		}
		first, err := client.PutRaw(ctx, "a", []byte("mine"), 0)
		must(t, err)
		for _, revision := range []uint64{0, first + 7} {
			if _, err := client.PutRaw(ctx, "a", []byte("yours"), revision); !apierrors.IsConflict(err) {
				t.Errorf("at revision %d: %v", revision, err)
			}
		}
		if value, revision, err := client.GetRaw(ctx, "a"); err != nil || string(value) != "mine" || revision != first {
			t.Errorf("%q at %d, %v", value, revision, err)
		}
		must(t, client.Delete(ctx, "a"))
		_, marker, err := client.GetRaw(ctx, "a")
		if !apierrors.IsNotFound(err) || marker <= first {
			t.Errorf("of a marker: revision %d, %v", marker, err)
		}
		second, err := client.PutRaw(ctx, "a", nil, marker)
		must(t, err)
		if value, revision, err := client.GetRaw(ctx, "a"); err != nil || len(value) != 0 || revision != second {
			t.Errorf("%q at %d, %v", value, revision, err)
		}
		// A message that the server forwarded, with its mark.
		forwarded := nats.NewMsg("$KV.raw.a")
		forwarded.Header.Set("Nats-Stream", "other")
		forwarded.Header.Set("Nats-Sequence", "1")
		forwarded.Data = []byte(`{"holderIdentity":"x","leaseDurationSeconds":3}`)
		_, err = js.PublishMsg(ctx, forwarded)
		must(t, err)
		if value, _, err := client.GetRaw(ctx, "a"); err != nil || string(value) == string(forwarded.Data) {
			t.Errorf("a forwarded message is taken for what somebody wrote: %q, %v", value, err)
		}
		if _, err := client.PutRaw(ctx, "a b", nil, 0); !apierrors.IsInvalid(err) {
			t.Errorf("a key with a space: %v", err)
		}
		if _, err := client.PutRaw(ctx, "a", make([]byte, 2<<20), 0); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("too large: %v", err)
		}
	})
}
