package entity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go/jetstream"
)

// bucketSettings are the settings of a bucket that we create. One revision per key: with more, an expiring revision
// brings back the one before it without an event. Message TTLs: without them, tombstones stay for ever. When the bucket
// is full it refuses writes and drops no old keys. No rollups: with them, one message to any key empties the bucket. So
// no markers of what a limit removes either: the server allows rollups where it has to put such markers. The window for
// duplicates is left to the server, which refuses one that is longer than its own limit.
func bucketSettings(cfg Config, name string) jetstream.StreamConfig {
	s := jetstream.StreamConfig{
		Name:              "KV_" + name,
		Description:       cfg.Description,
		Subjects:          []string{subjectsPerBucket + name + ".>"},
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Storage:           cfg.Storage,
		Replicas:          cfg.Replicas,
		Placement:         cfg.Placement,
		Compression:       cfg.Compression,
		Discard:           jetstream.DiscardNew,
		AllowDirect:       true,
		DenyDelete:        true,
		AllowMsgTTL:       true,
		Metadata:          bucketMetadata(cfg, name),
	}
	if _, size := cfg.sizeOf(name); size > 0 {
		s.MaxBytes = size
	}
	if cfg.AllowRollup && name == cfg.Bucket {
		s.AllowRollup, s.SubjectDeleteMarkerTTL = true, cfg.TombstoneTTL
	}
	return s
}

// sizeOf returns the size of a bucket, and the field that says so.
func (c Config) sizeOf(name string) (field string, size int64) {
	if name == c.Bucket {
		return "MaxBytes", c.MaxBytes
	}
	return "StatusMaxBytes", c.StatusMaxBytes
}

// RegistryBucket is the bucket in which controllers say of what kinds they know; see package registry.
const RegistryBucket = "nagi-kinds"

// The metadata of a bucket that was created here, for who finds the bucket and wonders what it is. A bucket that exists
// keeps what it has, and nothing depends on it.
const (
	// MetadataHolds is what the bucket holds: "documents" of a kind, their "records", or the "kinds" of the registry.
	MetadataHolds = "nagi.holds"
	// MetadataKind and MetadataAPIVersion are the kind of the documents.
	MetadataKind       = "nagi.kind"
	MetadataAPIVersion = "nagi.apiVersion"
	// MetadataRegistry names RegistryBucket.
	MetadataRegistry = "nagi.registry"
)

// The prefixes of metadata that is not the user's: ours, and the server's own.
const (
	metadataPrefix       = "nagi."
	serverMetadataPrefix = "_nats."
)

func bucketMetadata(cfg Config, name string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, cfg.Metadata)
	if name == RegistryBucket {
		m[MetadataHolds] = "kinds"
		return m
	}
	m[MetadataHolds], m[MetadataKind], m[MetadataRegistry] = "documents", cfg.Kind, RegistryBucket
	if name != cfg.Bucket {
		m[MetadataHolds] = "records"
	}
	if cfg.APIVersion != "" {
		m[MetadataAPIVersion] = cfg.APIVersion
	}
	return m
}

// validateBuckets checks what buckets are created with.
func (c Config) validateBuckets() error {
	switch {
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("entity: Config.Replicas of kind %s is %d: NATS takes 1 to 5", c.Kind, c.Replicas)
	case c.MaxBytes < 0, c.StatusMaxBytes < 0:
		return fmt.Errorf("entity: Config.MaxBytes (%d) or StatusMaxBytes (%d) of kind %s is negative: "+
			"leave it 0 for no limit", c.MaxBytes, c.StatusMaxBytes, c.Kind)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		if strings.HasPrefix(key, metadataPrefix) || strings.HasPrefix(key, serverMetadataPrefix) {
			return fmt.Errorf("entity: Config.Metadata of kind %s has the key %q: those that begin with %q are "+
				"Nagi's, those with %q the server's; take another", c.Kind, key, metadataPrefix, serverMetadataPrefix)
		}
	}
	return nil
}

// notCreated explains why a server refuses to create a bucket.
func (c Config) notCreated(name string, err error) error {
	field, size := c.sizeOf(name)
	needs := "a kind needs two buckets, its own and that of its records"
	if !c.hasStatus() {
		needs = "this bucket is missing"
	}
	return kvstream.Asked{
		MaxBytesField: "Config." + field, ReplicasField: "Config.Replicas", PlacementField: "Config.Placement",
		MaxBytes: size, Replicas: c.Replicas, Placement: c.Placement, Needs: needs,
	}.Explain(err)
}

// differing says which settings a bucket has not that were asked for; "" if there are none. A zero value asks for
// nothing. What is made otherwise, as a mirror is, was not asked for, and the registry's bucket was asked for by many.
func (c Config) differing(s jetstream.StreamConfig, name string) string {
	if s.Mirror != nil || len(s.Sources) > 0 || name == RegistryBucket {
		return ""
	}
	var all []string
	differs := func(is bool, field, have, want string) {
		if is {
			all = append(all, fmt.Sprintf("%s (%s, not %s)", field, have, want))
		}
	}
	field, size := c.sizeOf(name)
	have := "no limit"
	if s.MaxBytes > 0 {
		have = fmt.Sprint(s.MaxBytes)
	}
	differs(size > 0 && s.MaxBytes != size, field, have, fmt.Sprint(size))
	differs(c.Replicas > 1 && s.Replicas != c.Replicas, "Replicas", fmt.Sprint(s.Replicas), fmt.Sprint(c.Replicas))
	differs(c.Storage != jetstream.FileStorage && s.Storage != c.Storage,
		"Storage", s.Storage.String(), c.Storage.String())
	want := kvstream.PlaceName(c.Placement)
	has := kvstream.PlaceName(s.Placement)
	differs(want != "none" && has != want, "Placement", has, want)
	differs(c.Compression != jetstream.NoCompression && s.Compression != c.Compression,
		"Compression", s.Compression.String(), c.Compression.String())
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("bucket %q exists and is not changed: it differs from Config in %s: change it "+
		"(nats stream edit KV_%s), where the server allows that, or Config", name, strings.Join(all, ", "), name)
}
