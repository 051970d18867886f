package kinds

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Violation is one thing that a schema does not allow. Its message quotes no secret.
type Violation struct {
	Path    string `json:"path"` // spec.pages[2]; "" for the document itself
	Message string `json:"message"`
}

func (v Violation) String() string {
	if v.Path == "" || strings.HasPrefix(v.Message, v.Path+" ") {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// Schema checks documents of a kind.
type Schema struct {
	compiled *jsonschema.Schema
	kind     *Kind
}

// CompileSchema is the schema of a kind; nil if it has none.
func (k *Kind) CompileSchema() (*Schema, error) {
	if len(k.Entry.Schema) == 0 {
		return nil, nil
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(k.Entry.Schema))
	if err == nil {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err = c.AddResource("mem:kind", parsed); err == nil {
			var compiled *jsonschema.Schema
			if compiled, err = c.Compile("mem:kind"); err == nil {
				return &Schema{compiled, k}, nil
			}
		}
	}
	return nil, fmt.Errorf("the schema that the registry has of %s: %w", printable.Text(k.Name()), printable.Error(err))
}

// Check returns what the schema does not allow of a document; a nil schema allows all. The error is about text that is
// no JSON.
func (s *Schema) Check(document []byte) ([]Violation, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil || s == nil {
		return nil, err
	}
	err = s.compiled.Validate(value)
	wrong, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return nil, err
	}
	hidden, _ := decodeJSON(document)
	s.kind.Hide(hidden)
	var found []Violation
	leaves(wrong, hidden, &found)
	return found, nil
}

// leaves adds what is wrong. What is wrong with a secret is not said, since that may quote it.
func leaves(e *jsonschema.ValidationError, hidden map[string]any, found *[]Violation) {
	for _, cause := range e.Causes {
		leaves(cause, hidden, found)
	}
	if len(e.Causes) > 0 {
		return
	}
	says := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if isHidden(hidden, e.InstanceLocation) {
		says = "the schema does not allow this value, which is a secret"
	}
	v := Violation{printable.Text(path(e.InstanceLocation)), printable.Message(says)}
	if !slices.Contains(*found, v) {
		*found = append(*found, v)
	}
}

// isHidden reports whether a place, or one above it, is hidden.
func isHidden(v any, tokens []string) bool {
	for _, token := range tokens {
		switch at := v.(type) {
		case map[string]any:
			v = at[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return false
			}
			v = at[i]
		}
	}
	return v == any(Hidden)
}

// path is a place in a document as errors of package entity write it.
func path(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		if t != "" && strings.Trim(t, "0123456789") == "" {
			fmt.Fprintf(&b, "[%s]", t)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(t)
	}
	return b.String()
}
