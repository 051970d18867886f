package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/nagi-runtime/nagi/entity"
)

// The reserved keys of a status bucket, beside the records.
const (
	KeyController = entity.ReservedPrefix + ".controller" // whose status bucket it is
	KeyInstance   = entity.ReservedPrefix + ".instance"   // the id of this installation
	KeyLedWith    = entity.ReservedPrefix + ".ledwith"    // the id of the installation in the last term
	KeyLease      = entity.ReservedPrefix + ".lease"      // which replica works
	KeyStream     = entity.ReservedPrefix + ".stream"     // the stream in which the primaries were last seen
	KeyBrake      = entity.ReservedPrefix + ".brake"      // that the brake is engaged, and why
	KeyRelease    = entity.ReservedPrefix + ".release"    // an operator's put here releases the brake
)

// The prefixes of the reserved keys that say something about one primary. See LeftKey and IntentsKey.
const (
	LeftPrefix    = entity.ReservedPrefix + ".left."
	IntentsPrefix = entity.ReservedPrefix + ".intents."
)

// LeftKey is the reserved key that says that the secondaries of a primary were left on purpose.
func LeftKey(primary string) string { return about(LeftPrefix, primary) }

// IntentsKey is the reserved key that says what is about to be done behind APIs for a primary.
func IntentsKey(primary string) string { return about(IntentsPrefix, primary) }

// longestPlain is the longest key that is part of a reserved key as it is. A longer one is hashed, because server and
// client limit the length of a key.
const longestPlain = 512

func about(prefix, primary string) string {
	key := strings.Replace(primary, "/", ".", 1)
	if len(key) > longestPlain {
		hash := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(hash[:])
	}
	return prefix + key
}
