package kinds

import (
	"slices"
	"strings"
)

// Hidden is what stands for a secret.
const Hidden = "(secret)"

// Hide replaces what the kind marks as secret in a view, in place: what its secretFields name, and what its schema
// marks with "x-nagi-secret" or "writeOnly". What a record has of the last document is hidden likewise.
func (k *Kind) Hide(view map[string]any) {
	k.hideIn(view)
	if record, ok := view["record"].(map[string]any); ok {
		if last, ok := record["lastDocument"].(map[string]any); ok {
			k.hideIn(last)
		}
	}
}

func (k *Kind) hideIn(document map[string]any) {
	for _, field := range k.SecretFields {
		hide(document, strings.Split(strings.ReplaceAll(field, "[]", ".*"), "."))
	}
	if schema := k.schemaTree(); schema != nil {
		h := hiding{secrets{schema}, mostLooks}
		if !h.walk(document, schema, 0) {
			return
		}
		for name := range document { // all of it is secret, or may be
			if !slices.Contains([]string{"kind", "apiVersion", "metadata", "record"}, name) {
				document[name] = Hidden
			}
		}
	}
}

// schemaTree is the schema as parsed JSON, which is not to be changed; nil if there is none.
func (k *Kind) schemaTree() map[string]any {
	k.parse.Do(func() {
		if schema, err := decodeJSON(k.Schema); err == nil {
			k.schema = schema
		}
	})
	return k.schema
}

// secrets is a schema in which references are followed.
type secrets struct{ root map[string]any }

// hiding walks a value and its schema together, so that it ends where the value does, and not where a schema does that
// refers to itself.
type hiding struct {
	secrets
	looks int // that are left
}

const (
	// mostRefs bounds how many references and alternatives of a schema are followed without a step into the value.
	mostRefs = 32
	// mostLooks bounds how often a schema is looked at for one document, which is less than a second. Who writes the
	// registry may write a schema that refers to itself in several places, so that they double with each reference.
	mostLooks = 1 << 20
)

// walk hides what is secret below a value, and reports whether the value itself is. What there are no looks left for is
// secret.
func (s *hiding) walk(value any, schema map[string]any, depth int) (secret bool) {
	if s.looks--; s.looks < 0 {
		return true
	}
	if schema["x-nagi-secret"] == true || schema["writeOnly"] == true {
		return true
	}
	if depth > mostRefs {
		return false
	}
	if ref, ok := schema["$ref"].(string); ok {
		if target := s.resolve(ref); target != nil && s.walk(value, target, depth+1) {
			return true
		}
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		all, _ := schema[word].([]any)
		for _, one := range all {
			if sub, ok := one.(map[string]any); ok && s.walk(value, sub, depth+1) {
				return true
			}
		}
	}
	switch value := value.(type) {
	case map[string]any:
		s.members(value, schema)
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, v := range value {
			if items != nil && s.walk(v, items, 0) {
				value[i] = Hidden
			}
		}
	}
	return false
}

// members hides those of an object. Names match in any case, as they do when a document is decoded.
func (s *hiding) members(object, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	others, _ := schema["additionalProperties"].(map[string]any)
	for name, v := range object {
		known := false
		for property, sub := range properties {
			if !strings.EqualFold(property, name) {
				continue
			}
			known = true
			if sub, ok := sub.(map[string]any); ok && s.walk(v, sub, 0) {
				object[name] = Hidden
			}
		}
		if !known && others != nil && s.walk(v, others, 0) {
			object[name] = Hidden
		}
	}
}

// unescaped is what a part of a JSON pointer stands for.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// resolve finds what "#/$defs/Name" refers to; "#" is the schema itself.
func (s secrets) resolve(ref string) map[string]any {
	at := s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if part == "" {
			continue
		}
		next, ok := at[unescaped.Replace(part)].(map[string]any)
		if !ok {
			return nil
		}
		at = next
	}
	return at
}

// hide replaces what is at a path; "*" is each member, or each element.
func hide(at any, path []string) {
	switch at := at.(type) {
	case map[string]any:
		for name, v := range at {
			if path[0] != "*" && !strings.EqualFold(name, path[0]) {
				continue
			}
			if len(path) == 1 {
				at[name] = Hidden
			} else {
				hide(v, path[1:])
			}
		}
	case []any:
		if path[0] != "*" {
			return
		}
		for i, v := range at {
			if len(path) == 1 {
				at[i] = Hidden
			} else {
				hide(v, path[1:])
			}
		}
	}
}
