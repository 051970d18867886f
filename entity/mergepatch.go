package entity

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"reflect"
)

// mergePatch applies an RFC 7386 merge patch to a JSON value. Members that the patch does not name keep their text,
// apart from white space.
func mergePatch(target, patch stdjson.RawMessage) (stdjson.RawMessage, error) {
	members, isObject, err := objectMembers(patch)
	if err != nil {
		return nil, err
	}
	if !isObject {
		return patch, nil
	}
	result, isObject, err := objectMembers(target)
	if err != nil {
		return nil, err
	}
	if !isObject {
		result = map[string]stdjson.RawMessage{}
	}
	for name, value := range members {
		if isNull(value) {
			delete(result, name)
			continue
		}
		if result[name], err = mergePatch(result[name], value); err != nil {
			return nil, err
		}
	}
	return marshalMembers(result)
}

func objectMembers(value stdjson.RawMessage) (members map[string]stdjson.RawMessage, isObject bool, err error) {
	trimmed := bytes.TrimLeft(value, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, false, nil
	}
	if err := stdjson.Unmarshal(value, &members); err != nil {
		return nil, false, whyUndecodable(value, reflect.TypeOf(members), err)
	}
	return members, true, nil
}

// marshalMembers does not escape HTML, so that members that were not patched keep their text.
func marshalMembers(members map[string]stdjson.RawMessage) (stdjson.RawMessage, error) {
	var out bytes.Buffer
	e := stdjson.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(members); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func isNull(value stdjson.RawMessage) bool {
	return string(bytes.TrimSpace(value)) == "null"
}

// sameJSON compares two JSON values. Numbers are equal if they are written alike.
func sameJSON(a, b []byte) bool {
	va, errA := parseAny(a)
	vb, errB := parseAny(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

func parseAny(data []byte) (v any, err error) {
	d := stdjson.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// notInDocument are the members of metadata that a document must not have.
var notInDocument = []string{"resourceVersion", "generation", "deletionTimestamp"}

// cleanDocument removes from a raw document the members that Create and Update do not write.
func cleanDocument(document stdjson.RawMessage) (stdjson.RawMessage, error) {
	members, isObject, err := objectMembers(document)
	if err != nil || !isObject {
		return nil, fmt.Errorf("it is no JSON object")
	}
	delete(members, "status")
	meta, isObject, err := objectMembers(members["metadata"])
	if err != nil {
		return nil, err
	}
	if isObject {
		for _, name := range notInDocument {
			delete(meta, name)
		}
		if members["metadata"], err = withoutInternalAnnotations(meta); err != nil {
			return nil, err
		}
	}
	return marshalMembers(members)
}

func withoutInternalAnnotations(meta map[string]stdjson.RawMessage) (stdjson.RawMessage, error) {
	annotations, isObject, err := objectMembers(meta["annotations"])
	if err != nil {
		return nil, err
	}
	if isObject {
		had := len(annotations)
		for _, name := range internalAnnotations {
			delete(annotations, name)
		}
		if had > 0 && len(annotations) == 0 {
			delete(meta, "annotations") // as codec.clean does
		} else if meta["annotations"], err = marshalMembers(annotations); err != nil {
			return nil, err
		}
	}
	return marshalMembers(meta)
}
