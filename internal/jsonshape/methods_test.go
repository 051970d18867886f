package jsonshape

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/runtime/protoimpl"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/api/resource"
)

type (
	// word is in JSON what a method makes of its fields.
	word struct {
		User     string
		Password string `nagi:"secret"`
	}
	// renaming writes its fields with other names.
	renaming struct {
		Title  string
		Logins []word2
	}
	word2 struct {
		Name     string `json:"name"`
		Password string `json:"password" nagi:"secret"`
	}
	// aliased writes its fields as they are, and one more.
	aliased struct {
		Name     string `json:"name"`
		Password string `json:"password" nagi:"secret"`
		Below    word2  `json:"below"`
		Rest     word3  `json:"rest"`
	}
	word3 struct {
		Note string `json:"note"`
	}
	// closed has all in unexported fields.
	closed struct {
		login word2
		note  string
	}
	sealed struct {
		value string `nagi:"secret"`
	}
	// logins are never null.
	logins []word2
	// key is the key of a map.
	key struct {
		Password string `nagi:"secret"`
	}
	// Sealed is embedded by its name.
	Sealed struct {
		value string `nagi:"secret"`
	}
	open struct {
		Sealed
		Name string `json:"name"`
	}
	// Unshown leaves a secret out of its JSON.
	Unshown struct {
		Secret string `json:"-" nagi:"secret"`
		Name   string `json:"name"`
	}
	// showing writes what it embeds.
	showing  struct{ Unshown }
	promoted struct {
		sealed
		Name string `json:"name"`
	}
)

func (w word) MarshalText() ([]byte, error) { return []byte(w.User + ":" + w.Password), nil }

func (r *renaming) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"Title": r.Title, "byName": map[string]string{r.Logins[0].Name: r.Logins[0].Password},
		"Logins": []any{map[string]string{"name": r.Logins[0].Name, "pw": r.Logins[0].Password}, r.Logins[0].Password},
	})
}

func (a aliased) MarshalJSON() ([]byte, error) {
	type alias aliased
	return json.Marshal(struct {
		alias
		Copy string `json:"copy"`
	}{alias(a), a.Password})
}

func (c closed) MarshalJSON() ([]byte, error) { return json.Marshal(c.login) }

func (s sealed) MarshalJSON() ([]byte, error) { return json.Marshal(s.value) }

func (s Sealed) MarshalJSON() ([]byte, error) { return json.Marshal(s.value) }

func (s showing) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"name": s.Name, "shown": s.Secret})
}

func (l logins) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]word2(l))
}

func (k key) MarshalText() ([]byte, error) { return []byte(k.Password), nil }

// TestWhatAMethodMakesOfSecretsIsDropped: of what it writes only that is kept which the fields of the type explain.
func TestWhatAMethodMakesOfSecretsIsDropped(t *testing.T) {
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"text":         {word{"u", "s3cr3t"}, `null`},
		"text inside":  {struct{ A, B any }{word{"u", "s3cr3t"}, "b"}, `{}`},
		"text in type": {struct{ A []word }{[]word{{"u", "s3cr3t"}}}, `{"A":[null]}`},
		"other names": {&renaming{"t", []word2{{"n", "s3cr3t"}}},
			`{"Logins":[{"name":"n"},null],"Title":"t"}`},
		"the names of its fields": {aliased{"n", "s3cr3t", word2{"m", "s3cr3t"}, word3{"k"}},
			`{"name":"n","below":{"name":"m"},"rest":{"note":"k"}}`},
		"unexported fields":    {struct{ A closed }{closed{word2{"n", "s3cr3t"}, "k"}}, `{"A":{}}`},
		"an unexported secret": {struct{ A, B sealed }{sealed{"s3cr3t"}, sealed{"s3cr3t"}}, `{}`},
		"a list":               {struct{ A logins }{logins{{"n", "s3cr3t"}}}, `{"A":[{"name":"n"}]}`},
		"keys": {struct {
			A map[key]string
			B int
		}{map[key]string{{"s3cr3t"}: "a"}, 1}, `{"B":1}`},
		"the method of what is embedded":           {struct{ A promoted }{promoted{sealed{"s3cr3t"}, "n"}}, `{}`},
		"the method of what is embedded, exported": {struct{ A open }{open{Sealed{"s3cr3t"}, "n"}}, `{}`},
		"what an embedded struct leaves out":       {struct{ A showing }{showing{Unshown{"s3cr3t", "n"}}}, `{"A":{"name":"n"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := json.Marshal(test.value)
			if err != nil || !strings.Contains(string(document), "s3cr3t") {
				t.Fatal(string(document), err)
			}
			f, err := SecretsOfValue(test.value)
			if err != nil {
				t.Fatal(err)
			}
			if got := drop(t, f, string(document)); got != test.want {
				t.Errorf("%s becomes %s, want %s", document, got, test.want)
			}
		})
	}
}

func TestWhatAMethodMayWriteIsASecretOfItsMember(t *testing.T) {
	f, err := SecretsOf(reflect.TypeFor[struct{ Status, Spec struct{ A []sealed } }]())
	if err != nil || !f.Has("Status") || f.Has("other") {
		t.Error(f, err)
	}
}

type shape interface{ area() int }

type circle struct {
	Radius int    `json:"radius"`
	Key    string `json:"key" nagi:"secret"`
}

func (circle) area() int { return 0 }

type drawing struct {
	Name   string         `json:"name"`
	Shape  shape          `json:"shape"`
	Shapes map[string]any `json:"shapes,omitempty"`
}

type holding struct{ any any }

func (h holding) MarshalJSON() ([]byte, error) { return json.Marshal(h.any) }

func (h *holding) UnmarshalJSON([]byte) error { h.any = circle{1, "s3cr3t"}; return nil }

// What hides below fields that are not exported is in the JSON by a method.
type (
	hidingList    struct{ held []any }
	hidingMap     struct{ held map[string]any }
	hidingPointer struct{ held *holding }
	guarding      struct {
		mu   sync.Mutex
		held map[string]any
	}
	making struct {
		once sync.Once
		held map[string]any
	}
	swapping struct{ held atomic.Pointer[holding] }
	looping  struct{ held []any } // the first is the list itself
	// worded is a text that a method makes of what it holds.
	worded struct{ held any }
)

func (h hidingList) MarshalJSON() ([]byte, error)    { return json.Marshal(h.held) }
func (h *hidingList) UnmarshalJSON([]byte) error     { h.held = []any{circle{1, "s3cr3t"}}; return nil }
func (h hidingMap) MarshalJSON() ([]byte, error)     { return json.Marshal(h.held) }
func (h *hidingMap) UnmarshalJSON([]byte) error      { h.held = map[string]any{"": circle{}}; return nil }
func (h hidingPointer) MarshalJSON() ([]byte, error) { return json.Marshal(h.held) }
func (h *hidingPointer) UnmarshalJSON([]byte) error  { h.held = &holding{circle{}}; return nil }
func (g *guarding) UnmarshalJSON([]byte) error       { return nil }
func (m *making) UnmarshalJSON([]byte) error         { return nil }
func (m *making) MarshalJSON() ([]byte, error) {
	m.once.Do(func() { m.held["b"] = circle{1, "s3cr3t"} })
	return json.Marshal(m.held)
}
func (s *swapping) MarshalJSON() ([]byte, error) { return json.Marshal(s.held.Load()) }
func (s *swapping) UnmarshalJSON([]byte) error   { s.held.Store(&holding{circle{}}); return nil }
func (r looping) MarshalJSON() ([]byte, error)   { return json.Marshal(r.held[1]) }
func (r *looping) UnmarshalJSON([]byte) error    { *r = newLooping(circle{}); return nil }
func (w worded) MarshalText() ([]byte, error)    { return json.Marshal(w.held) }
func (w *worded) UnmarshalText([]byte) error     { w.held = circle{}; return nil }

func (g *guarding) MarshalJSON() ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return json.Marshal(g.held)
}

func swap(c circle) *swapping {
	s := &swapping{}
	s.held.Store(&holding{c})
	return s
}

func newLooping(c circle) looping {
	r := looping{[]any{nil, c}}
	r.held[0] = r.held
	return r
}

// TestSecretsInWhatInterfacesHoldAreDropped, at any depth of the value, whose type does not tell of them.
func TestSecretsInWhatInterfacesHoldAreDropped(t *testing.T) {
	c := circle{1, "s3cr3t"}
	round := drawing{Name: "n"}
	round.Shape = &drawingShape{drawing: &round, Circle: c}
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"its own type": {drawing{Name: "n", Shape: c}, `{"name":"n","shape":{"radius":1}}`},
		"a pointer":    {&drawing{Name: "n", Shape: &c}, `{"name":"n","shape":{"radius":1}}`},
		"deeper": {map[string]any{"a": []any{drawing{Name: "n", Shapes: map[string]any{"b": []circle{c}}}}},
			`{"a":[{"name":"n","shape":null,"shapes":{"b":[{"radius":1}]}}]}`},
		"in what a method writes":     {struct{ A holding }{holding{c}}, `{"A":{}}`},
		"text that a method writes":   {struct{ A holding }{holding{word{"u", "s3cr3t"}}}, `{}`},
		"in a hidden list":            {struct{ A hidingList }{hidingList{[]any{c}}}, `{}`},
		"in a hidden map":             {struct{ A hidingMap }{hidingMap{map[string]any{"b": c}}}, `{"A":{}}`},
		"below a hidden pointer":      {struct{ A hidingPointer }{hidingPointer{&holding{c}}}, `{"A":{}}`},
		"text below a hidden pointer": {struct{ A hidingPointer }{hidingPointer{&holding{word{"u", "s3cr3t"}}}}, `{}`},
		"where a lock guards it":      {struct{ A *guarding }{&guarding{held: map[string]any{"b": c}}}, `{"A":{}}`},
		"where it is made once":       {struct{ A *making }{&making{held: map[string]any{"b": c}}}, `{"A":{}}`},
		"where it changes atomically": {struct{ A *swapping }{swap(c)}, `{"A":{}}`},
		"a hidden ring":               {struct{ A looping }{newLooping(c)}, `{"A":{}}`},
		"a value that holds itself":   {round, `{"name":"n","shape":{"circle":{"radius":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := json.Marshal(test.value)
			if err != nil || !strings.Contains(string(document), "s3cr3t") {
				t.Fatal(string(document), err)
			}
			f, err := SecretsOfValue(test.value)
			if err != nil {
				t.Fatal(err)
			}
			if got := drop(t, f, string(document)); got != test.want {
				t.Errorf("%s becomes %s, want %s", document, got, test.want)
			}
		})
	}
	if f, err := SecretsOfValue(nil); f != nil || err != nil {
		t.Error(f, err)
	}
	for of, want := range map[reflect.Type]bool{
		reflect.TypeFor[drawing](): false, reflect.TypeFor[map[string]any](): false,
		reflect.TypeFor[struct{ holding }](): true, reflect.TypeFor[*holding](): true,
		reflect.TypeFor[[]struct{ Raw json.RawMessage }](): false,
		reflect.TypeFor[hidingList]():                      true, reflect.TypeFor[hidingMap](): true,
		reflect.TypeFor[hidingPointer](): true, reflect.TypeFor[guarding](): true, reflect.TypeFor[swapping](): true,
		reflect.TypeFor[map[worded]int](): true, reflect.TypeFor[itself](): false,
		reflect.TypeFor[time.Time](): false, reflect.TypeFor[resource.Quantity](): false,
	} {
		if MayHoldSecrets(of) != want {
			t.Errorf("what is decoded into a %v may hold secrets: %v", of, !want)
		}
	}
}

// itself leads to itself.
type itself *itself

// TestWhatIsGuardedIsNotLookedAt: others may change it meanwhile.
func TestWhatIsGuardedIsNotLookedAt(t *testing.T) {
	held := map[string]any{"b": 1}
	for _, v := range []any{&guarding{held: held}, &making{held: held}, swap(circle{})} {
		if types := heldIn(reflect.ValueOf(v)); !slices.Equal(types, []reflect.Type{reflect.TypeFor[unseen]()}) {
			t.Errorf("%T holds %v", v, types)
		}
		if f, err := SecretsOfValue(struct{ A any }{v}); f == nil || err != nil || !f.Has("A") {
			t.Errorf("%T is no secret: %v, %v", v, f, err)
		}
	}
}

// TestWhatBelongsToProtobufIsNotLookedAt: other goroutines may be making it.
func TestWhatBelongsToProtobufIsNotLookedAt(t *testing.T) {
	if reaches(reflect.TypeFor[protoimpl.MessageState](), isInterface) {
		t.Error("the state of a message is looked at")
	}
	for _, v := range []any{durationpb.New(1), itself(nil)} {
		if held := heldIn(reflect.ValueOf(v)); held != nil {
			t.Errorf("%T holds %v", v, held)
		}
	}
	text, err := structpb.NewStruct(map[string]any{"a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := SecretsOfValue(struct{ A any }{text}); f != nil || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
}

type drawingShape struct {
	drawing *drawing
	Circle  circle `json:"circle"`
}

func (*drawingShape) area() int { return 0 }
