package lease

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTheRecordIsClientGos, byte for byte. The JSON was printed by k8s.io/client-go v0.37.2 from its
// resourcelock.LeaderElectionRecord.
func TestTheRecordIsClientGos(t *testing.T) {
	held := record{
		HolderIdentity:       "host_1_<abc>",
		LeaseDurationSeconds: 15,
		AcquireTime:          metav1.NewTime(time.Date(2026, 11, 22, 9, 8, 7, 654321000, time.FixedZone("x", 3600))),
		RenewTime:            metav1.NewTime(time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)),
		LeaderTransitions:    3,
	}
	for want, r := range map[string]record{
		`{"holderIdentity":"host_1_\u003cabc\u003e","leaseDurationSeconds":15,"acquireTime":"2026-11-22T08:08:07Z",` +
			`"renewTime":"2026-11-22T10:00:00Z","leaderTransitions":3,"strategy":"","preferredHolder":""}`: held,
		`{"holderIdentity":"","leaseDurationSeconds":1,"acquireTime":"2026-11-22T08:08:07Z",` +
			`"renewTime":"2026-11-22T10:00:00Z","leaderTransitions":3,"strategy":"","preferredHolder":""}`: held.free(),
		`{"holderIdentity":"","leaseDurationSeconds":0,"acquireTime":null,` +
			`"renewTime":null,"leaderTransitions":0,"strategy":"","preferredHolder":""}`: {},
	} {
		got, err := json.Marshal(r)
		if err != nil || string(got) != want {
			t.Errorf("wrote %s, want %s: %v", got, want, err)
		}
		var read record
		if err := json.Unmarshal([]byte(want), &read); err != nil {
			t.Errorf("read %s: %v", want, err)
		}
		if again, err := json.Marshal(read); err != nil || string(again) != want {
			t.Errorf("read and wrote %s, want %s: %v", again, want, err)
		}
	}
}
