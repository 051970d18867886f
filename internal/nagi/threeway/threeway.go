// Package threeway brings together what several writers want of one JSON document.
//
// The rule: who applies a manifest decides what it names, and what it named the last time and names no more. All else
// stays as others wrote it. A null is read as if the member were absent. Lists are replaced as a whole, and numbers are
// equal if they are written alike.
package threeway

import (
	"maps"
	"reflect"
	"slices"
)

// Names are the members that a manifest names: an object for each object, true for anything else. It has no value of
// the manifest, so it can be kept where secrets must not be.
func Names(manifest map[string]any) map[string]any {
	names := make(map[string]any, len(manifest))
	for name, v := range manifest {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			names[name] = Names(v)
		default:
			names[name] = true
		}
	}
	return names
}

// Apply returns what current becomes if manifest is applied, where last are the names of the manifest that was applied
// before; nil if none was.
func Apply(last, manifest, current map[string]any) map[string]any {
	result := maps.Clone(current)
	if result == nil {
		result = map[string]any{}
	}
	for name, was := range last {
		if manifest[name] != nil {
			continue
		}
		below, isObject := was.(map[string]any)
		object, stays := result[name].(map[string]any)
		if isObject && stays {
			if left := Apply(below, nil, object); len(left) > 0 {
				result[name] = left
				continue
			}
		}
		delete(result, name)
	}
	for name, v := range manifest {
		object, isObject := v.(map[string]any)
		switch {
		case v == nil:
			delete(result, name)
		case isObject:
			below, _ := last[name].(map[string]any)
			current, _ := result[name].(map[string]any)
			result[name] = Apply(below, object, current)
		default:
			result[name] = v
		}
	}
	return result
}

// Diff is the JSON merge patch (RFC 7386) that makes to of from; empty if they are equal. Nulls in objects of to are
// taken as absent.
func Diff(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name, v := range from {
		if v != nil && to[name] == nil {
			patch[name] = nil
		}
	}
	for name, v := range to {
		was := from[name]
		object, isObject := v.(map[string]any)
		before, wasObject := was.(map[string]any)
		switch {
		case v == nil:
		case isObject && wasObject:
			if below := Diff(before, object); len(below) > 0 {
				patch[name] = below
			}
		case !reflect.DeepEqual(was, v):
			patch[name] = v
		}
	}
	return patch
}

// Patch applies a JSON merge patch (RFC 7386).
func Patch(document, patch map[string]any) map[string]any {
	return Apply(nil, patch, document)
}

// Merge brings two changes of base together. Where both have changed a member in different ways mine stands, and
// conflicts names it.
func Merge(base, mine, theirs map[string]any) (merged map[string]any, conflicts []string) {
	return merge(base, mine, theirs, "")
}

func merge(base, mine, theirs map[string]any, path string) (merged map[string]any, conflicts []string) {
	merged = maps.Clone(theirs)
	if merged == nil {
		merged = map[string]any{}
	}
	names := map[string]bool{}
	for _, of := range []map[string]any{base, mine, theirs} {
		for name := range of {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, m, t := base[name], mine[name], theirs[name]
		if reflect.DeepEqual(b, m) || reflect.DeepEqual(m, t) {
			continue
		}
		below, isObject := m.(map[string]any)
		others, areObjects := t.(map[string]any)
		at := name
		if path != "" {
			at = path + "." + name
		}
		switch {
		case isObject && areObjects:
			before, _ := b.(map[string]any)
			both, more := merge(before, below, others, at)
			merged[name], conflicts = both, append(conflicts, more...)
			continue
		case !reflect.DeepEqual(b, t):
			conflicts = append(conflicts, at)
		}
		if m == nil {
			delete(merged, name)
		} else {
			merged[name] = m
		}
	}
	return merged, conflicts
}
