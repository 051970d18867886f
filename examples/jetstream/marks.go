package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nagi-runtime/nagi/external"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The metadata keys that name the primary of a stream or consumer, as labels do in Kubernetes.
const (
	ownerKind     = "nagi-owner-kind"
	ownerKey      = "nagi-owner-key"
	ownerInstance = "nagi-owner-instance"
)

func marked(metadata map[string]string, owner external.Owner) map[string]string {
	out := maps.Clone(metadata)
	if out == nil {
		out = map[string]string{}
	}
	out[ownerKind], out[ownerKey], out[ownerInstance] = owner.Kind, owner.Key, owner.Instance
	return out
}

func ownedBy(metadata map[string]string, owner external.Owner) bool {
	key, ok := ownerIn(metadata, owner.Kind, owner.Instance)
	return ok && key == owner.Key
}

// ownerIn returns the key of the primary if it is of this kind and installation; "" is any installation.
func ownerIn(metadata map[string]string, kind, instance string) (key string, ok bool) {
	if metadata[ownerKind] != kind || instance != "" && metadata[ownerInstance] != instance {
		return "", false
	}
	return metadata[ownerKey], true
}

var errNotOurs = errors.New("is not ours")

func notOurs(what, name string) error {
	return fmt.Errorf("%s %q %w: it is left alone; use another name, or delete it", what, name, errNotOurs)
}

// mineOnly drops errNotOurs: a primary that never got the name, because somebody else has it, must end its teardown.
func mineOnly(err error) error {
	if errors.Is(err, errNotOurs) {
		return nil
	}
	return err
}

// away marks the errors which say that JetStream does not answer, and so say nothing about the stream.
func away(err error) error {
	for _, cause := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed, nats.ErrDisconnected,
		jetstream.ErrNoStreamResponse, jetstream.ErrJetStreamNotEnabled,
	} {
		if errors.Is(err, cause) {
			return external.Unavailable(err)
		}
	}
	return err
}

// changed is the reason not to delete something that has changed since the list.
func changed(what, name string) error {
	return fmt.Errorf("%s %q has changed since it was listed", what, name)
}

// version returns another text for each configuration, marks included, and for a copy that was made after a delete.
func version(created time.Time, config any) string {
	data, err := json.Marshal(config)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(data)
	return created.String() + " " + hex.EncodeToString(sum[:8])
}
