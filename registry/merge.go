package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// object is a JSON object whose members are not read, so that those which this program does not know stay.
type object = map[string]json.RawMessage

// part is the part of a controller in an entry.
type part struct {
	Name         string `json:"name"`
	StatusBucket string `json:"statusBucket"`
	members      object
}

// is reports whether a part is that of a controller. A status bucket is that of one controller, so a part with it and
// another name is of the name that this controller had before. Without a status bucket only the name tells.
func (p part) is(c Controller) bool {
	return p.StatusBucket == c.StatusBucket && (c.StatusBucket != "" || p.Name == c.Name)
}

// merged puts what a controller says into what the key holds, nil for nothing. It returns nil if that changes nothing.
// Members that this version does not know stay, and so do the parts of other controllers. invented is the one that
// describes the kind if it is not there; nil if that is not known of it.
func merged(m Entry, value []byte, invented *part, now time.Time) ([]byte, error) {
	key := Key(m.Kind, m.APIVersion)
	entry, parts := object{}, []part(nil)
	if value != nil {
		old, err := decode(key, value)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(exactly(value, reflect.TypeFor[Entry]()), &entry); err != nil {
			return nil, garbage(key, err)
		}
		if parts, err = partsOf(entry["controllers"]); err != nil {
			return nil, garbage(key, err)
		}
		if err := contradicts(old, m, invented, parts); err != nil {
			return nil, err
		}
	}
	self := m.Controllers[0]
	describes := invented != nil ||
		!slices.ContainsFunc(parts, func(p part) bool { return !p.is(self) && describedBy(entry, p) })
	if describes {
		set(entry, describing(m))
	} else if !equal(entry["schema"], m.Schema) {
		self.Schema = m.Schema
	}
	parts, err := withPart(parts, self, now)
	if err != nil {
		return nil, err
	}
	list := make([]object, len(parts))
	for i, p := range parts {
		list[i] = p.members
	}
	set(entry, map[string]any{"controllers": list})
	out, err := encoded(entry)
	if err != nil {
		return nil, err
	}
	if value != nil && equal(value, out) {
		return nil, nil
	}
	return out, nil
}

// contains reports whether an entry has a part of a controller.
func contains(value []byte, c Controller) bool {
	entry := object{}
	if value == nil || json.Unmarshal(value, &entry) != nil {
		return false
	}
	parts, err := partsOf(entry["controllers"])
	return err == nil && slices.ContainsFunc(parts, func(p part) bool { return p.is(c) })
}

// describing are the members of the entry that one controller says for all.
func describing(m Entry) map[string]any {
	members := map[string]any{
		"schemaVersion": SchemaVersion, "kind": m.Kind, "bucket": m.Bucket, "namespaced": m.Namespaced,
		"describedBy": m.Controllers[0].Name, "apiVersion": nil, "statusBucket": nil, "schema": nil,
		"secretFields": nil, "columns": nil,
	}
	for name, value := range map[string]string{"apiVersion": m.APIVersion, "statusBucket": m.StatusBucket} {
		if value != "" {
			members[name] = value
		}
	}
	if len(m.Schema) > 0 {
		members["schema"] = m.Schema
	}
	if len(m.SecretFields) > 0 {
		members["secretFields"] = m.SecretFields
	}
	if len(m.Columns) > 0 {
		members["columns"] = m.Columns
	}
	return members
}

// describedBy reports whether the members of an entry that one controller says for all are those of a part's.
func describedBy(entry object, p part) bool {
	var by struct{ DescribedBy, StatusBucket string }
	_ = json.Unmarshal(entry["describedBy"], &by.DescribedBy) // decode has read both
	_ = json.Unmarshal(entry["statusBucket"], &by.StatusBucket)
	return by.DescribedBy == p.Name && by.StatusBucket == p.StatusBucket
}

// contradicts says why an entry is not of what this controller looks after; nil if it is, or if no other controller
// says what it says. One that is invented says nothing.
func contradicts(old *Entry, m Entry, invented *part, parts []part) error {
	others := slices.DeleteFunc(slices.Clone(parts), func(p part) bool {
		return p.is(m.Controllers[0]) ||
			invented != nil && p.Name == invented.Name && p.StatusBucket == invented.StatusBucket
	})
	if len(others) == 0 || old.Bucket == m.Bucket && old.Namespaced == m.Namespaced {
		return nil
	}
	key := Key(m.Kind, m.APIVersion)
	said := fmt.Sprintf("bucket %s", printable.Quote(old.Bucket))
	if old.Bucket == m.Bucket {
		said = fmt.Sprintf("namespaced: %v", old.Namespaced)
	}
	return fmt.Errorf("the controller %s has published kind %s with %s, and this one has bucket %q (namespaced: %v): "+
		"give the kinds apiVersions of different groups (entity.Config.APIVersion), "+
		"or delete the key if that controller is no more (nats kv del %s %s)",
		printable.Quote(others[0].Name), m.Kind, said, m.Bucket, m.Namespaced, Bucket, key)
}

// partsOf reads the controllers of an entry.
func partsOf(list json.RawMessage) (parts []part, err error) {
	if list == nil {
		return nil, nil
	}
	var objects []object
	if err := json.Unmarshal(list, &objects); err != nil {
		return nil, errors.New("its controllers are no list of objects")
	}
	for _, members := range objects {
		p := part{members: members}
		if json.Unmarshal(members["name"], &p.Name) != nil || p.Name == "" {
			return nil, errors.New("one of its controllers has no name")
		}
		if bucket := members["statusBucket"]; bucket != nil && json.Unmarshal(bucket, &p.StatusBucket) != nil {
			return nil, errors.New("one of its controllers has a status bucket that is no string")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// withPart puts the part of a controller in its place, in the order of names, and takes out those of its former names.
// It keeps since while the controller is the same in name, installation and version.
func withPart(parts []part, c Controller, now time.Time) ([]part, error) {
	at := slices.IndexFunc(parts, func(p part) bool { return p.is(c) && p.Name == c.Name })
	if at < 0 {
		at = slices.IndexFunc(parts, func(p part) bool { return p.is(c) })
	}
	if at < 0 {
		at = len(parts)
		parts = append(parts, part{StatusBucket: c.StatusBucket, members: object{}})
	}
	parts[at].Name = c.Name
	members := parts[at].members
	c.Since = now.UTC().Truncate(time.Second)
	var before struct {
		Name, Instance, Version string
		Since                   time.Time
	}
	data, err := encoded(members)
	if err == nil && json.Unmarshal(data, &before) == nil && !before.Since.IsZero() &&
		before.Name == c.Name && before.Instance == c.Instance && before.Version == c.Version {
		c.Since = before.Since
	}
	c.Shards = c.Shards.keep(members["shards"], now)
	data, err = encoded(c)
	if err != nil {
		return nil, err
	}
	said := object{}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, err
	}
	for _, name := range []string{
		"statusBucket", "filter", "instance", "version", "owns", "watches", "shards", "schema",
	} {
		delete(members, name) // those that may be left out
	}
	for name, value := range said {
		members[name] = value
	}
	self := parts[at]
	if c.StatusBucket != "" {
		parts = append(slices.DeleteFunc(parts, func(p part) bool { return p.is(c) }), self)
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return strings.Compare(a.Name+"\x00"+a.StatusBucket, b.Name+"\x00"+b.StatusBucket)
	})
	return parts, nil
}

// set changes members of an object; nil removes one.
func set(o object, members map[string]any) {
	for name, value := range members {
		if value == nil {
			delete(o, name)
			continue
		}
		data, err := encoded(value)
		if err != nil {
			panic(fmt.Sprintf("member %s of an entry: %v", name, err)) // all of them are plain values
		}
		o[name] = data
	}
}

// encoded is JSON as people read it, with < and > as they are.
func encoded(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// equal compares JSON by what it says; nil equals nil only.
func equal(a, b []byte) bool {
	x, errX := said(a)
	y, errY := said(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func said(data []byte) (value any, err error) {
	if data == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
