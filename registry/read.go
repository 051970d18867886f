package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// MostKinds is how many entries List returns. Keys that hold something else do not count.
	MostKinds = 1000
	// mostRead is how many keys List reads, each with a request.
	mostRead = 10 * MostKinds
)

// Kinds is what List has found.
type Kinds struct {
	// Entries are those that can be read, in the order of their keys.
	Entries []*Entry
	// Invalid are the first MostKinds keys that hold something else, which their errors say, and MoreInvalid is how
	// many others there are.
	Invalid     []InvalidEntry
	MoreInvalid int
	// More is how many keys were not read, because there are more than MostKinds entries, or more than ten times as
	// many keys. Kinds may be among them: look who writes there.
	More int
}

// InvalidEntry is a key that holds no entry, or one of a later version.
type InvalidEntry struct {
	Key string // as it is: quote it before it is shown
	Err error
}

// List reads the registry, from the leader of its stream: one request for the keys, and one for each. Where there is no
// bucket, there are no kinds. It needs the permissions of [Permissions] for an entity.RoleReader.
func List(ctx context.Context, js jetstream.JetStream) (Kinds, error) {
	b := bucketOf(js)
	keys, err := b.keys(ctx)
	if hasCode(err, codeStreamNotFound) {
		return Kinds{}, nil
	}
	if err != nil {
		return Kinds{}, fmt.Errorf("registry: %w", err)
	}
	var found Kinds
	slices.Sort(keys)
	for i, key := range keys {
		if len(found.Entries) == MostKinds || i == mostRead {
			found.More = len(keys) - i
			break
		}
		now, err := b.get(ctx, key)
		if err != nil {
			return Kinds{}, fmt.Errorf("registry: %w", err)
		}
		if now.value == nil {
			continue
		}
		entry, err := decode(key, now.value)
		if err != nil {
			if len(found.Invalid) < MostKinds {
				found.Invalid = append(found.Invalid, InvalidEntry{key, err})
			} else {
				found.MoreInvalid++
			}
			continue
		}
		found.Entries = append(found.Entries, entry)
	}
	return found, nil
}

// Get reads the entry of a kind, by its apiVersion's group. The error is IsNotFound (apimachinery) where there is none.
func Get(ctx context.Context, js jetstream.JetStream, kind, apiVersion string) (*Entry, error) {
	key := Key(kind, apiVersion)
	now, err := bucketOf(js).get(ctx, key)
	switch {
	case hasCode(err, codeStreamNotFound), err == nil && now.value == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: Bucket}, key)
	case err != nil:
		return nil, fmt.Errorf("registry: %w", err)
	}
	return decode(key, now.value)
}

// decode reads an entry. Its errors quote nothing of what it holds but names.
func decode(key string, value []byte) (*Entry, error) {
	value = exactly(value, reflect.TypeFor[Entry]())
	var version struct {
		SchemaVersion *int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(value, &version); err != nil {
		return nil, garbage(key, err)
	}
	if v := version.SchemaVersion; v != nil && *v > SchemaVersion {
		return nil, newer(key, *v)
	}
	entry := &Entry{}
	if err := json.Unmarshal(value, entry); err != nil {
		return nil, garbage(key, err)
	}
	if want := Key(entry.Kind, entry.APIVersion); entry.SchemaVersion < 1 || entry.Kind == "" || want != key {
		return nil, garbage(key, errors.New("schemaVersion, kind and apiVersion do not say that it is of this key"))
	}
	if entry.Bucket == "" {
		return nil, garbage(key, errors.New("it names no bucket"))
	}
	return entry, nil
}

func garbage(key string, err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("its member %s is of another type: %s", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("key %s of bucket %q holds no entry of a kind: %s: see who wrote it, then delete it "+
		"(nats kv del %s %s), and it will be published again", printable.Quote(key), Bucket,
		printable.Message(err.Error()), Bucket, printable.Typed(key, "<key>"))
}

func newer(key string, version int) error {
	return fmt.Errorf("key %s of bucket %q has schemaVersion %d, and this program knows %d: use a newer one",
		printable.Quote(key), Bucket, version, SchemaVersion)
}

// Permissions returns what a user needs to read the registry with entity.RoleReader, and to make its bucket with
// entity.RoleBootstrap. What controllers need is in their own Permissions.
func Permissions(role entity.Role, opts ...entity.PermissionOption) (entity.PermissionSet, error) {
	switch role {
	case entity.RoleReader: // List and Get need no consumers
		role = entity.RoleOperator
	case entity.RoleBootstrap:
		return entity.Permissions(configOf(entity.Config{}), role, opts...)
	default:
		return entity.PermissionSet{}, fmt.Errorf("registry: there are permissions for the roles %q and %q, not for %q",
			entity.RoleReader, entity.RoleBootstrap, role)
	}
	set, err := entity.Permissions(configOf(entity.Config{}), role,
		append([]entity.PermissionOption{entity.WithInboxPrefix("_INBOX_" + string(entity.RoleReader))}, opts...)...)
	set.Publish = slices.DeleteFunc(set.Publish, isPut)
	return set, err
}
