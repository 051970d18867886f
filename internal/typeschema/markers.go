package typeschema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// marker is a comment for a program: "+kubebuilder:validation:Minimum=1".
type marker struct{ name, value string }

func markerOf(text string) marker {
	name, value, _ := strings.Cut(text, "=")
	name = strings.TrimSuffix(strings.TrimSpace(name), ":")
	return marker{strings.TrimPrefix(name, "kubebuilder:"), strings.TrimSpace(value)}
}

const columnMarker = "printcolumn:name"

func (m marker) requires() bool { return m.name == "validation:Required" || m.name == "required" }

// schemaMembers are the members of a schema that markers set, by the name of the marker.
var schemaMembers = map[string]string{
	"Minimum": "minimum", "Maximum": "maximum", "MultipleOf": "multipleOf", "MinLength": "minLength",
	"MaxLength": "maxLength", "MinItems": "minItems", "MaxItems": "maxItems", "MinProperties": "minProperties",
	"MaxProperties": "maxProperties", "UniqueItems": "uniqueItems",
}

// apply adds what a marker says to a schema. It passes over markers that it does not know.
func (m marker) apply(s node) {
	if m.name == "default" {
		s["default"] = jsonOr(m.value)
	}
	rule, ok := strings.CutPrefix(m.name, "validation:")
	if !ok {
		return
	}
	if rule, ok := strings.CutPrefix(rule, "items:"); ok {
		if items := annotated(s, "items"); items != nil {
			marker{"validation:" + rule, m.value}.apply(items)
		}
		return
	}
	switch rule {
	case "Pattern", "Format", "Title":
		s[strings.ToLower(rule)] = unquoted(m.value)
	case "Enum":
		s["enum"] = list(m.value)
	case "ExclusiveMinimum", "ExclusiveMaximum":
		if limit := "m" + rule[len("ExclusiveM"):]; m.value == "true" && s[limit] != nil {
			s["exclusiveM"+limit[1:]] = s[limit]
			delete(s, limit)
		}
	default:
		value := jsonOr(m.value)
		if _, isText := value.(string); schemaMembers[rule] != "" && !isText {
			s[schemaMembers[rule]] = value
		}
	}
}

// list reads "a;b;c" and {"a","b"}.
func list(text string) (values []any) {
	separator := ";"
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		text, separator = strings.TrimSuffix(inner, "}"), ","
	}
	for value := range strings.SplitSeq(text, separator) {
		values = append(values, jsonOr(strings.TrimSpace(value)))
	}
	return values
}

// jsonOr is a value in JSON, or else the text itself.
func jsonOr(text string) any {
	if text == "" {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err == nil && !decoder.More() {
		return value
	}
	return unquoted(text)
}

func unquoted(text string) string {
	for _, quote := range []string{"`", `"`, "'"} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
}

// columns are those that markers name.
func columns(markers []marker) (columns []Column) {
	for _, m := range markers {
		if m.name != columnMarker {
			continue
		}
		var column Column
		for _, said := range arguments("name=" + m.value) {
			name, value, _ := strings.Cut(said, "=")
			value = unquoted(strings.TrimSpace(value))
			switch strings.TrimSpace(name) {
			case "name":
				column.Name = value
			case "type":
				column.Type = value
			case "JSONPath":
				column.Path = "$" + value
			case "description":
				column.Description = value
			case "priority":
				_, _ = fmt.Sscan(value, &column.Priority) // 0 if it is no number
			}
		}
		columns = append(columns, column)
	}
	return columns
}

// arguments splits at commas outside of quotes.
func arguments(text string) (parts []string) {
	var quote rune
	begin := 0
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '`' || r == '\'':
			quote = r
		case r == ',':
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}
