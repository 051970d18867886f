package typeschema

import "strings"

// finish says of the whole document what the type does not.
func (d *deriver) finish(root node) {
	if d.Kind != "" {
		root["title"] = d.Kind
	}
	properties, _ := root["properties"].(node)
	for name, value := range map[string]string{"kind": d.Kind, "apiVersion": d.APIVersion} {
		if p, ok := properties[name].(node); ok && value != "" {
			p["default"], p["description"] = value, "It may be left out."
			if d.Strict {
				p["enum"] = []any{value, ""}
			}
		}
	}
	if metadata := annotated(properties, "metadata"); metadata != nil && d.Strict {
		inside, _ := metadata["properties"].(node)
		for _, name := range []string{"finalizers", "ownerReferences"} { // they have no effect, and so are refused
			if p := annotated(inside, name); p != nil {
				p["maxItems"] = 0
			}
		}
	}
	status := annotated(properties, "status")
	if status != nil {
		status["readOnly"] = true
		delete(properties, "status") // what is in it is ignored, also where unknown members are refused
	}
	if d.Strict {
		d.refuseUnknown(root, map[string]bool{})
	}
	for _, path := range d.SecretFields {
		d.markSecret(root, strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."))
	}
	if status != nil {
		properties["status"] = status
	}
	d.dropUnused(root)
}

// dropUnused drops the definitions that nothing refers to, because others took their place.
func (d *deriver) dropUnused(root node) {
	used := map[string]bool{}
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				look(element)
			}
		case node:
			if name, ok := refName(value); ok && !used[name] {
				used[name] = true
				look(d.defs[name])
			}
			for name, member := range value {
				if name != "$defs" {
					look(member)
				}
			}
		}
	}
	look(root)
	for name := range d.defs {
		if !used[name] {
			delete(d.defs, name)
		}
	}
	if len(d.defs) == 0 {
		delete(root, "$defs")
	}
}

// refuseUnknown closes the objects whose members are known.
func (d *deriver) refuseUnknown(schema any, seen map[string]bool) {
	s, ok := schema.(node)
	if !ok {
		return
	}
	if name, ok := refName(s); ok && !seen[name] {
		seen[name] = true
		d.refuseUnknown(d.defs[name], seen)
	}
	properties, _ := s["properties"].(node)
	for _, p := range properties {
		d.refuseUnknown(p, seen)
	}
	if _, ok := s["additionalProperties"]; !ok && properties != nil {
		s["additionalProperties"] = false
	}
	for _, member := range []string{"items", "additionalProperties"} {
		d.refuseUnknown(s[member], seen)
	}
	alternatives, _ := s["anyOf"].([]any)
	for _, alternative := range alternatives {
		d.refuseUnknown(alternative, seen)
	}
}

// markSecret marks what a path leads to. Where it leads through a definition, which others may use, it goes through a
// copy.
func (d *deriver) markSecret(s node, steps []string) {
	if len(steps) == 0 {
		s["writeOnly"], s[SecretExtension] = true, true
		return
	}
	if alternatives, ok := s["anyOf"].([]any); ok { // with null
		if first, ok := alternatives[0].(node); ok {
			d.markSecret(first, steps)
		}
		return
	}
	if name, ok := refName(s); ok {
		delete(s, "$ref")
		def, _ := d.defs[name].(node)
		for member, value := range copied(def).(node) {
			if _, ok := s[member]; !ok {
				s[member] = value
			}
		}
	}
	properties, _ := s["properties"].(node)
	for name := range properties {
		if strings.EqualFold(name, steps[0]) {
			d.markSecret(annotated(properties, name), steps[1:])
			return
		}
	}
	each := "additionalProperties"
	if steps[0] == "[]" {
		each = "items"
	}
	if next := annotated(s, each); next != nil {
		d.markSecret(next, steps[1:])
	}
}

func refName(s node) (string, bool) {
	ref, _ := s["$ref"].(string)
	return strings.CutPrefix(ref, refPrefix)
}

// annotated returns a member that is a schema, to be changed; nil if there is none. A schema that is true becomes {}.
func annotated(of node, member string) node {
	if of[member] == true {
		of[member] = node{}
	}
	s, _ := of[member].(node)
	return s
}
