package mergediff

import (
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

type (
	plain struct {
		metav1.TypeMeta `json:",inline"`
		Name            string                       `json:"name"`
		Names           []string                     `json:"names"`
		Count           *int64                       `json:"count,omitempty"`
		Bytes           []byte                       `json:"bytes,omitempty"`
		Limits          corev1.ResourceList          `json:"limits,omitempty"`
		Since           *metav1.Time                 `json:"since,omitempty"`
		Raw             runtime.RawExtension         `json:"raw,omitempty"`
		Below           map[string][]*plain          `json:"below,omitempty"`
		Fraction        float64                      `json:"fraction,omitempty"`
		Left            string                       `json:"-"`
		Quantities      map[string]resource.Quantity `json:"quantities,omitempty"`
	}
	secretive struct {
		Name  string `json:"name"`
		cache map[int]int
	}
	twice struct {
		Name string `json:"name"`
		Twice
	}
	Twice struct {
		Name string `json:"name"`
	}
	lower struct {
		Shown string `json:"shown"`
	}
	pointed struct{ text string }
	noted   struct {
		At time.Time `json:"at"`
	}
)

func (p *pointed) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

func (p *pointed) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &p.text) }

// oddlyTagged is a struct with a tag of which a compiler's checks would say that it is wrong.
func oddlyTagged(tag reflect.StructTag) any {
	of := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: tag}})
	v := reflect.New(of)
	v.Elem().Field(0).SetInt(7)
	return v.Interface()
}

// TestFieldsAreThoseThatEncodingJSONWrites of any type, and an object that is read from them has all of them.
func TestFieldsAreThoseThatEncodingJSONWrites(t *testing.T) {
	count, cores := int64(9007199254740993), resource.MustParse("1500m")
	for name, test := range map[string]struct {
		obj      any
		faithful bool
	}{
		"plain": {&plain{
			TypeMeta: metav1.TypeMeta{Kind: "Plain"}, Name: "a", Count: &count, Bytes: []byte("b"), Left: "c",
			Limits: corev1.ResourceList{"cpu": cores}, Since: &metav1.Time{Time: time.Unix(1, 0)},
			Raw: runtime.RawExtension{Raw: []byte(`{"n":[9007199254740993]}`)}, Fraction: 0.5,
			Below: map[string][]*plain{"a": {{Name: "b"}, nil}}, Quantities: map[string]resource.Quantity{"a": cores},
		}, true},
		"an unexported field":       {&secretive{Name: "a", cache: map[int]int{1: 1}}, false},
		"a name that is hidden":     {&twice{Name: "a", Twice: Twice{"b"}}, false},
		"unexported and embedded":   {&struct{ lower }{lower{"a"}}, false},
		"embedded by a pointer":     {&struct{ *Twice }{&Twice{"a"}}, false},
		"embedded by a nil pointer": {&struct{ *Twice }{}, false},
		"a time":                    {&noted{At: time.Unix(1, 1).UTC()}, true},
		"text":                      {&struct{ A netip.Addr }{netip.MustParseAddr("192.0.2.1")}, false},
		"keys that are text":        {&map[netip.Addr]int{netip.MustParseAddr("192.0.2.1"): 1}, false},
		"keys that are numbers":     {&map[int]string{1: "a"}, false},
		"an array":                  {&struct{ A [2]string }{[2]string{"a", "b"}}, false},
		"a float32":                 {&struct{ A float32 }{0.1}, false},
		"a number in a string": {&struct {
			A int `json:",string"`
		}{7}, false},
		"a natural number":             {&struct{ A uint64 }{math.MaxUint64}, false},
		"a name that is no name":       {oddlyTagged(`json:"a'b"`), false},
		"a dash":                       {oddlyTagged(`json:"-,"`), false},
		"any":                          {&struct{ A any }{map[string]any{"a": []any{1, 1.5, nil}}}, false},
		"a big number":                 {&struct{ A *big.Int }{big.NewInt(count)}, true},
		"a pointer's method":           {&struct{ A *pointed }{&pointed{"a"}}, true},
		"a pointer's method, by value": {&struct{ A pointed }{pointed{"a"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := faithful(reflect.TypeOf(test.obj).Elem()); got != test.faithful {
				t.Errorf("the converter is taken for right: %v", got)
			}
			fields, err := FieldsOf(test.obj)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := encoded(t, fields), encoded(t, test.obj); !sameValue(t, got, want) {
				t.Errorf("the fields are %s, want %s", got, want)
			}
			read := reflect.New(reflect.TypeOf(test.obj).Elem()).Interface()
			if err := Into(fields, read); err != nil {
				t.Fatal(err)
			}
			if got, want := encoded(t, read), encoded(t, test.obj); !sameValue(t, got, want) {
				t.Errorf("what is read is %s, want %s", got, want)
			}
		})
	}
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameValue compares JSON by what it says.
func sameValue(t *testing.T, a, b []byte) bool {
	t.Helper()
	var values [2]map[string]json.RawMessage
	for i, data := range [][]byte{a, b} {
		if err := json.Unmarshal(data, &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range values[0] {
		if len(value) > 0 && value[0] == '{' && len(values[1][name]) > 0 && values[1][name][0] == '{' {
			if !sameValue(t, value, values[1][name]) {
				return false
			}
			delete(values[0], name)
			delete(values[1], name)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// TestTheConverterServesAllTypesOfKubernetes, for which it was made: JSON takes three times as long.
func TestTheConverterServesAllTypesOfKubernetes(t *testing.T) {
	types := scheme.Scheme.AllKnownTypes()
	for kind, of := range types {
		if kind.Version != runtime.APIVersionInternal && !faithful(of) {
			t.Errorf("%v is not served", kind)
		}
	}
	if len(types) < 100 {
		t.Errorf("only %d types were looked at", len(types))
	}
}
