package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kinds is the configuration: it names kinds that no Go type is of.
type Kinds struct {
	Kinds []Kind `json:"kinds"`
}

// Kind is one kind of documents. What it owns is made of each of its documents by templates.
type Kind struct {
	Kind   string  `json:"kind"`
	Bucket string  `json:"bucket"`
	Owns   []Owned `json:"owns"`
}

// Owned is a secondary, or one for each string of the list in spec that ForEach names. The texts in Name and Spec are
// templates over the document; .item is the string.
type Owned struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	ForEach string         `json:"forEach"`
	Spec    map[string]any `json:"spec"`
}

// parseKinds reads a configuration.
func parseKinds(data []byte) (Kinds, error) {
	var all Kinds
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	decoder.UseNumber() // a whole number of any size stays as it is written
	if err := decoder.Decode(&all); err != nil {
		return all, fmt.Errorf("read the kinds: %w", err)
	}
	seen := map[string]bool{}
	for _, kind := range all.Kinds {
		for _, name := range []string{kind.Kind, "the bucket " + kind.Bucket} {
			if seen[name] {
				return all, fmt.Errorf("the kinds name %s twice", name)
			}
			seen[name] = true
		}
		for _, owned := range kind.Owns {
			if !slices.ContainsFunc(all.Kinds, func(k Kind) bool { return k.Kind == owned.Kind }) {
				return all, fmt.Errorf("kind %s owns the kind %s, which is not there: name it, with its bucket",
					kind.Kind, owned.Kind)
			}
			if err := owned.check(); err != nil {
				return all, fmt.Errorf("%s, owned by %s: %w", owned.Kind, kind.Kind, err)
			}
		}
	}
	return all, nil
}

// ownedKinds are the kinds of what it owns.
func (k Kind) ownedKinds() (kinds []string) {
	for _, owned := range k.Owns {
		if !slices.Contains(kinds, owned.Kind) {
			kinds = append(kinds, owned.Kind)
		}
	}
	return kinds
}

// check says whether the templates can be read.
func (o Owned) check() error {
	if _, err := parsed(o.Name); err != nil {
		return err
	}
	_, err := each(o.Spec, func(text string) (string, error) {
		_, err := parsed(text)
		return text, err
	})
	return err
}

// wanted makes what a document is to own.
func (o Owned) wanted(document *unstructured.Unstructured) (all []*unstructured.Unstructured, err error) {
	items := []string{""}
	if o.ForEach != "" {
		if items, _, err = unstructured.NestedStringSlice(document.Object, "spec", o.ForEach); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		fill := func(text string) (string, error) {
			t, err := parsed(text)
			if err != nil {
				return "", err
			}
			var out strings.Builder
			err = t.Execute(&out, map[string]any{
				"metadata": document.Object["metadata"], "spec": document.Object["spec"], "item": item,
			})
			return out.String(), err
		}
		name, err := fill(o.Name)
		if err != nil {
			return nil, err
		}
		spec, err := each(o.Spec, fill)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetName(name)
		all = append(all, u)
	}
	return all, nil
}

// parsed refuses members that a document lacks.
func parsed(text string) (*template.Template, error) {
	return template.New("text").Option("missingkey=error").Parse(text)
}

// each returns a copy of the value with f of each of its texts, at any depth.
func each(value any, f func(string) (string, error)) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		return f(value)
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			if out[i], err = each(item, f); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, member := range value {
			if out[name], err = each(member, f); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}
