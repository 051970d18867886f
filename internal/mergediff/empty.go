package mergediff

import (
	"reflect"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

// DropEmptyStructs removes what a typed object encodes as {} only because Go has no struct that is not there, from its
// fields, at any depth and in place: a struct that is no pointer, in a field of a type of Kubernetes' own API, with
// omitempty, which encoding/json does not apply to structs. A pointer to an empty struct, and an empty struct in a list
// or a map, stay: the writer set them. So do those of other types: the schema of a custom resource may require
// the struct, or have defaults for what is in it.
func DropEmptyStructs(fields map[string]any, obj any) { dropEmpty(fields, reflect.TypeOf(obj)) }

func dropEmpty(value any, t reflect.Type) {
	switch value := value.(type) {
	case map[string]any:
		switch p := planOf(t); p.kind {
		case reflect.Struct:
			for _, f := range p.fields {
				f.drop(value)
			}
		case reflect.Map:
			for _, item := range value {
				dropEmpty(item, p.each)
			}
		}
	case []any:
		if p := planOf(t); p.kind == reflect.Slice || p.kind == reflect.Array {
			for _, item := range value {
				dropEmpty(item, p.each)
			}
		}
	}
}

// plan says where in the JSON of a type empty structs are dropped. Its kind is reflect.Invalid where nothing is known.
type plan struct {
	kind   reflect.Kind
	each   reflect.Type // of lists and maps
	fields []plannedField
}

type plannedField struct {
	name  string
	t     reflect.Type
	drops bool // it is dropped when it is empty
}

func (f plannedField) drop(members map[string]any) {
	value, ok := members[f.name]
	if !ok {
		return
	}
	dropEmpty(value, f.t)
	if empty, is := value.(map[string]any); is && len(empty) == 0 && f.drops {
		delete(members, f.name)
	}
}

// plans are the results of planOf, which are the same each time.
var plans sync.Map // reflect.Type → *plan

func planOf(t reflect.Type) *plan {
	if known, ok := plans.Load(t); ok {
		return known.(*plan)
	}
	p := newPlan(t)
	plans.Store(t, p)
	return p
}

func newPlan(t reflect.Type) *plan {
	for t.Kind() == reflect.Pointer && isPlain(t.Elem()) {
		t = t.Elem()
	}
	if !isPlain(t) {
		return &plan{}
	}
	p := &plan{kind: t.Kind()}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		p.each = t.Elem()
	case reflect.Struct:
		for _, m := range jsonshape.OfStandard(t).Members {
			of := m.Field.Type
			p.fields = append(p.fields, plannedField{
				name: m.Name, t: of,
				drops: m.OmitEmpty && of.Kind() == reflect.Struct && isPlain(of) && ofKubernetes(m.In),
			})
		}
	}
	return p
}

// ofKubernetes reports whether a type is of an API that kube-apiserver serves itself: there a struct that is not there
// is as an empty one.
func ofKubernetes(t reflect.Type) bool {
	path := t.PkgPath()
	if _, vendored, ok := strings.Cut(path, "/vendor/"); ok {
		path = vendored
	}
	for _, module := range []string{
		"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/apiextensions-apiserver/", "k8s.io/kube-aggregator/",
	} {
		if strings.HasPrefix(path, module) {
			return true
		}
	}
	return false
}
