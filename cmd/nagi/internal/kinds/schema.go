package kinds

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Violation is one thing that a schema does not allow. Its message quotes no value of the document.
type Violation struct {
	Path    string `json:"path"` // spec.pages[2]; "" for the document itself
	Message string `json:"message"`
}

func (v Violation) String() string {
	if v.Path == "" {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// Schema checks documents of a kind.
type Schema struct{ compiled *jsonschema.Schema }

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
				return &Schema{compiled}, nil
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
	var found []Violation
	leaves(wrong, &found)
	return found, nil
}

func leaves(e *jsonschema.ValidationError, found *[]Violation) {
	for _, cause := range e.Causes {
		leaves(cause, found)
	}
	if len(e.Causes) > 0 {
		return
	}
	v := Violation{printable.Text(path(e.InstanceLocation)),
		printable.Message(e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))}
	if !slices.Contains(*found, v) {
		*found = append(*found, v)
	}
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
