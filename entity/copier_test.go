package entity

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type tree struct {
	Name     string
	Children []*tree
	ByName   map[string]tree
}

type manyWays struct {
	Slice     []int
	Slices    [][]string
	Map       map[string][]int
	Pointer   *int
	Pointers  []*int
	Any       any
	Array     [2][]int
	Tree      *tree
	Quantity  resource.Quantity
	Quantitys map[string]*resource.Quantity
	Time      *metav1.Time
	Std       time.Time
	Raw       *runtime.RawExtension
	Inner     struct{ Deep struct{ Slice []int } }
	Nil       []int
	Empty     []int
	Int       big.Int
	Ints      map[string]*big.Int
	Rat       *big.Rat
	Float     *big.Float
	within
}

type within struct {
	Within map[string][]int
	deeper
}

type deeper struct{ Deeper []int }

func newManyWays() manyWays {
	one, two := 1, 2
	q := resource.MustParse("100000000000000000000000000")
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	v := manyWays{
		Slice: []int{1}, Slices: [][]string{{"a"}, nil}, Map: map[string][]int{"a": {1}},
		Pointer: &one, Pointers: []*int{&two, nil},
		Any: map[string]any{"a": []any{map[string]any{"b": 1}}}, Array: [2][]int{{1}, {2}},
		Tree: &tree{
			Name: "root", Children: []*tree{{Name: "leaf"}}, ByName: map[string]tree{"x": {Children: []*tree{{}}}},
		},
		Quantity: q, Quantitys: map[string]*resource.Quantity{"q": &q}, Time: &now, Std: now.Time,
		Raw: &runtime.RawExtension{Raw: []byte(`{}`)}, Empty: []int{},
	}
	v.Inner.Deep.Slice = []int{1}
	v.Within, v.Deeper = map[string][]int{"a": {1}}, []int{1}
	v.Int.Lsh(big.NewInt(1), 100)
	v.Ints = map[string]*big.Int{"a": new(big.Int).Lsh(big.NewInt(3), 100), "zero": {}}
	v.Rat = new(big.Rat).SetFrac(new(big.Int).Lsh(big.NewInt(1), 100), big.NewInt(3))
	v.Float = new(big.Float).SetMode(big.ToZero).SetPrec(200).SetRat(v.Rat)
	return v
}

func TestCopiesShareNoMemory(t *testing.T) {
	in := &Object[manyWays, *manyWays]{
		Spec: newManyWays(), ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
	}
	status := newManyWays()
	in.Status = &status
	out, ok := in.DeepCopyObject().(*Object[manyWays, *manyWays])
	if !ok {
		t.Fatalf("the copy is a %T", in.DeepCopyObject())
	}
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("the copy is different:\n%+v\n%+v", in, out)
	}
	if path := shared(reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem(), "object"); path != "" {
		t.Errorf("the copy shares %s", path)
	}
}

// shared names a place that exported fields reach and where two values share memory.
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.IsNil() || a.Kind() == reflect.Slice && a.Cap() == 0 {
			return ""
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return path
		}
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() {
			return ""
		}
		return shared(a.Elem(), b.Elem(), path+".*")
	case reflect.Slice, reflect.Array:
		for i := range a.Len() {
			if p := shared(a.Index(i), b.Index(i), path+"[]"); p != "" {
				return p
			}
		}
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if p := shared(a.MapIndex(key), b.MapIndex(key), path+"[key]"); p != "" {
				return p
			}
		}
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[time.Time]() {
			return ""
		}
		for i := range a.NumField() {
			if p := shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); p != "" {
				return p
			}
		}
	}
	return ""
}

type counted struct {
	copies *int
}

func (c *counted) DeepCopyInto(out *counted) { *c.copies++; *out = *c }

func TestATypesOwnDeepCopyIsUsed(t *testing.T) {
	copies := 0
	(&Object[counted, struct{}]{Spec: counted{&copies}}).DeepCopy()
	(&Object[map[string]counted, struct{}]{Spec: map[string]counted{"a": {&copies}}}).DeepCopy()
	if copies != 2 {
		t.Errorf("it was called %d times, want 2", copies)
	}
}

func BenchmarkDeepCopy(b *testing.B) {
	cfg := Config{Kind: "K", Bucket: "b", Namespaced: true}.withDefaults()
	c, err := newCodec[*benchmarkObject](cfg, newKeyspace(cfg))
	if err != nil {
		b.Fatal(err)
	}
	obj, err := c.decode("shop.site-1", 1, benchmarkDocument)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		obj.DeepCopyObject()
	}
}

// bag hides what it makes JSON of.
type bag struct{ items map[string]int }

func (b bag) MarshalJSON() ([]byte, error)     { return json.Marshal(b.items) }
func (b *bag) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &b.items) }

// path hides what it makes text of.
type path struct {
	Sep   string
	parts []string
}

func (p *path) MarshalText() ([]byte, error) { return []byte(strings.Join(p.parts, "/")), nil }
func (p *path) UnmarshalText(text []byte) error {
	p.Sep, p.parts = "/", strings.Split(string(text), "/")
	return nil
}

// TestACopySharesNothingThatATypeHides behind unexported fields, if the type makes JSON of it.
func TestACopySharesNothingThatATypeHides(t *testing.T) {
	type spec struct {
		Bag     bag
		Bags    map[string]*bag
		Any     any
		Path    *path
		Pattern *regexp.Regexp
		Port    netip.AddrPort
	}
	newBag := func() *bag { return &bag{items: map[string]int{"a": 1}} }
	in := &Object[spec, struct{}]{Spec: spec{
		Bag: *newBag(), Bags: map[string]*bag{"x": newBag(), "nil": nil}, Any: newBag(),
		Path: &path{Sep: "/", parts: []string{"a", "b"}}, Pattern: regexp.MustCompile("a+"),
		Port: netip.MustParseAddrPort("[::1%eth0]:80"),
	}}
	out := in.DeepCopy()
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("got %+v, want %+v", out, in)
	}
	out.Spec.Bag.items["a"] = 2
	out.Spec.Bags["x"].items["a"] = 2
	out.Spec.Any.(*bag).items["a"] = 2
	out.Spec.Path.parts[0] = "changed"
	for what, b := range map[string]*bag{"a field": &in.Spec.Bag, "a map": in.Spec.Bags["x"], "any": in.Spec.Any.(*bag)} {
		if b.items["a"] != 1 {
			t.Errorf("a copy shares what %s hides", what)
		}
	}
	if in.Spec.Path.parts[0] != "a" {
		t.Error("a copy shares what a type hides that makes text of it")
	}
	if in.Spec.Pattern != out.Spec.Pattern {
		t.Error("a regular expression, which nothing changes, was compiled again")
	}
}
