package kvstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestARefusalNamesTheField: also those that no embedded server gives, such as that of an account with limits for
// three replicas alone.
func TestARefusalNamesTheField(t *testing.T) {
	asked := Asked{
		MaxBytesField: "Config.MaxBytes", ReplicasField: "Config.Replicas", PlacementField: "Config.Placement",
		MaxBytes: 1000, Replicas: 3, Placement: &jetstream.Placement{Cluster: "east"}, Needs: "one is missing",
	}
	for code, want := range map[jetstream.ErrorCode]string{
		sizeIsRequired:    "set Config.MaxBytes, for example to 1 << 30",
		sizeAboveAccounts: "Config.MaxBytes is 1000",
		accountFull:       "reserves for each of 3 replicas",
		serverFull:        "lower it",
		memoryFull:        "max_mem of the account",
		storageFull:       "max_file_store",
		tooManyStreams:    "max_streams), and one is missing: have the limit raised",
		noCluster:         "Config.Replicas is 3, and the server is in no cluster: set it to 1",
		noPeers:           `Config.Placement (cluster "east")`,
		noLimitsOfTier:    "has no limits for so many",
	} {
		refused := &jetstream.APIError{ErrorCode: code}
		err := asked.Explain(refused)
		if !strings.Contains(err.Error(), want) || !errors.Is(err, refused) {
			t.Errorf("%d: %q does not say %q", code, err, want)
		}
	}
	for _, other := range []error{errors.New("no answer"), &jetstream.APIError{ErrorCode: 1}} {
		if err := asked.Explain(other); err != other {
			t.Errorf("%v became %v", other, err)
		}
	}
}
