package registry

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAMemberThatOnlyFoldsToOneOfOursIsNeitherReadNorKept: encoding/json takes "buc\u212Aet", with a Kelvin sign, for
// "bucket", and the last one counts.
func TestAMemberThatOnlyFoldsToOneOfOursIsNeitherReadNorKept(t *testing.T) {
	value := after(t, monday, nil, saidBy("a", "v1"))
	poisoned := bytes.Replace(value, []byte(`"controllers":[{`),
		[]byte(`"buc\u212Aet":"evil","SECRETFIELDS":["evil"],"future":1,"controllers":[{"\u017Ftatusbucket":"evil",`), 1)
	if bytes.Equal(poisoned, value) {
		t.Fatalf("nothing to poison in %s", value)
	}
	e := read(t, poisoned)
	if e.Bucket != "sites" || len(e.SecretFields) != 0 || e.Controllers[0].StatusBucket != "a-status" {
		t.Errorf("read as %+v", e)
	}
	mended := after(t, tuesday, poisoned, saidBy("a", "v1"))
	if mended == nil || bytes.Contains(mended, []byte("evil")) {
		t.Errorf("after the controller has published again: %s", mended)
	}
	if !bytes.Contains(mended, []byte(`"future":1`)) {
		t.Errorf("a member of a later version is lost: %s", mended)
	}
}

func TestKeysThatHoldNoKindsHideNone(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kv, err := w.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
			Bucket: Bucket, Storage: jetstream.MemoryStorage,
		})
		w.must(err)
		const rubbish = MostKinds + 5
		for i := range rubbish {
			if _, err := kv.PutString(t.Context(), fmt.Sprintf("-%05d", i), "rubbish"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := kv.Put(t.Context(), "Site", after(t, monday, nil, saidBy("a", "v1"))); err != nil {
			t.Fatal(err)
		}
		kinds, err := List(t.Context(), w.js)
		if err != nil {
			t.Fatal(err)
		}
		if len(kinds.Entries) != 1 || len(kinds.Invalid) != MostKinds || kinds.MoreInvalid != 5 || kinds.More != 0 {
			t.Errorf("%d entries, %d invalid and %d more, %d not read", len(kinds.Entries), len(kinds.Invalid),
				kinds.MoreInvalid, kinds.More)
		}
		if !strings.HasPrefix(kinds.Invalid[0].Key, "-") {
			t.Errorf("%+v", kinds.Invalid[0])
		}
	})
}
