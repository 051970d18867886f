package lease

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// record is what the key holds: client-go's resourcelock.LeaderElectionRecord, field by field, and one more. Replicas
// decide by the holder, the duration and whether the record changes; the times are for people.
type record struct {
	HolderIdentity       string      `json:"holderIdentity"` // "" if the lease is free
	LeaseDurationSeconds int         `json:"leaseDurationSeconds"`
	AcquireTime          metav1.Time `json:"acquireTime"`
	RenewTime            metav1.Time `json:"renewTime"`
	LeaderTransitions    int         `json:"leaderTransitions"` // how often the holder changed
	Strategy             string      `json:"strategy"`          // client-go's; always "" here
	PreferredHolder      string      `json:"preferredHolder"`   // client-go's; always "" here
	// Controllers are those of the holder. Earlier versions and client-go do not write it.
	Controllers []string `json:"controllers,omitempty"`
	// Shards is Config.Shards of the holder.
	Shards int `json:"shards,omitempty"`
}

// HeldAlone returns who holds the lease of which a key has this value, if that replica works alone; "" if none does. Of
// what is no record it is not known: that is an error.
func HeldAlone(value []byte) (holder string, err error) {
	r, err := decode(value)
	if err != nil || r.Shards > 0 {
		return "", err
	}
	return r.HolderIdentity, nil
}

// HeldShared reports whether a replica holds the lease of which a key has this value that shares the keys with others.
// While it does, or did and has not given the lease back, none takes it that works alone.
func HeldShared(value []byte) bool {
	r, err := decode(value)
	return err == nil && r.Shards > 0 && r.HolderIdentity != ""
}

// decode reads a record. It fails for what was not written as one: JSON of another kind decodes to a record without a
// holder, and would free the lease.
func decode(value []byte) (record, error) {
	var members struct {
		Holder   *string `json:"holderIdentity"`
		Duration *int    `json:"leaseDurationSeconds"`
	}
	if kvstream.IsReply(nil, value) {
		return record{}, errAnswer
	}
	if err := json.Unmarshal(value, &members); err != nil {
		return record{}, err
	}
	if members.Holder == nil || members.Duration == nil || *members.Holder != "" && *members.Duration <= 0 {
		return record{}, errNoRecord
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return record{}, err // nor does the rest of it say anything
	}
	return r, nil
}

func encode(r record) ([]byte, error) { return json.Marshal(r) }

var (
	errAnswer   = errors.New("an answer of the server, for which somebody named this key as the reply subject")
	errNoRecord = errors.New("JSON without a holder and a duration")
)

// duration is how long the record asks to wait, as far as it is believed.
func (r record) duration() time.Duration {
	return time.Duration(min(r.LeaseDurationSeconds, int(LongestDuration/time.Second))) * time.Second
}

// heldBy is the record with which identity takes the lease, or renews it. revision is that of r, 0 if it is absent.
func (r record) heldBy(identity string, duration time.Duration, revision uint64) record {
	now := metav1.Now()
	next := record{
		HolderIdentity:       identity,
		LeaseDurationSeconds: int(duration / time.Second),
		AcquireTime:          now,
		RenewTime:            now,
	}
	switch {
	case r.HolderIdentity == identity:
		next.AcquireTime, next.LeaderTransitions = r.AcquireTime, r.LeaderTransitions
	case revision != 0:
		next.LeaderTransitions = r.LeaderTransitions + 1
	}
	return next
}

// free is the record of a lease that was given back. The short duration is for old versions of client-go, which wait
// for it to pass even if there is no holder.
func (r record) free() record {
	r.HolderIdentity, r.LeaseDurationSeconds, r.Controllers, r.Shards = "", 1, nil, 0
	return r
}
