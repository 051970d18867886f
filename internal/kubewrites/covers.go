package kubewrites

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// CoverFields tells whether a set of managed fields has every field of a configuration. Only the server's schema says
// which lists are sets, maps or atoms; the set shows how the server took them. In doubt the answer is no: then an apply
// is sent that changes nothing.
func CoverFields(set *fieldpath.Set, fields map[string]any) bool {
	for name, field := range fields {
		switch name {
		case "apiVersion", "kind":
			continue // in no set
		case "metadata":
			if !coversMetadata(set, field) {
				return false
			}
		default:
			if !coversField(set, fieldpath.FieldNameElement(name), field) {
				return false
			}
		}
	}
	return true
}

func coversMetadata(set *fieldpath.Set, metadata any) bool {
	fields, ok := metadata.(map[string]any)
	if !ok {
		return false
	}
	inner := set.Children.Descend(fieldpath.FieldNameElement("metadata"))
	for name, field := range fields {
		if name != "name" && name != "namespace" && !coversField(inner, fieldpath.FieldNameElement(name), field) {
			return false
		}
	}
	return true
}

// coversField tells whether a set has a field with all that is in it.
func coversField(set *fieldpath.Set, at fieldpath.PathElement, field any) bool {
	inner, nested := set.Children.Get(at)
	if !nested {
		return set.Members.Has(at) // a scalar, an atom, or something empty
	}
	switch field := field.(type) {
	case map[string]any:
		for name, v := range field {
			if !coversField(inner, fieldpath.FieldNameElement(name), v) {
				return false
			}
		}
		return len(field) > 0
	case []any:
		return coversList(inner, field)
	}
	return false
}

func coversList(set *fieldpath.Set, items []any) bool {
	elements := elementsOf(set)
	used := make([]bool, len(elements))
	for _, item := range items {
		found := -1
		for i, element := range elements {
			if used[i] || !selects(element, item) {
				continue
			}
			if found >= 0 {
				return false // the server tells them apart by a default that we do not know
			}
			found = i
		}
		if found < 0 || !coversItem(set, elements[found], item) {
			return false
		}
		used[found] = true
	}
	return len(items) > 0
}

func coversItem(set *fieldpath.Set, at fieldpath.PathElement, item any) bool {
	if _, ok := item.(map[string]any); !ok {
		return set.Members.Has(at)
	}
	return coversField(set, at, item)
}

func elementsOf(set *fieldpath.Set) []fieldpath.PathElement {
	var elements []fieldpath.PathElement
	set.Members.Iterate(func(e fieldpath.PathElement) { elements = append(elements, e) })
	set.Children.Iterate(func(e fieldpath.PathElement) {
		if !set.Members.Has(e) {
			elements = append(elements, e)
		}
	})
	return elements
}

// selects tells whether a path element is the item's. A field of the key that the item leaves out has a default.
func selects(element fieldpath.PathElement, item any) bool {
	switch {
	case element.Value != nil:
		return value.Equals(*element.Value, value.NewValueInterface(item))
	case element.Key != nil:
		fields, ok := item.(map[string]any)
		if !ok {
			return false
		}
		for _, key := range *element.Key {
			if v, ok := fields[key.Name]; ok && !value.Equals(key.Value, value.NewValueInterface(v)) {
				return false
			}
		}
		return true
	}
	return false
}
