package entity

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// motley has a field of each kind whose JSON differs between libraries.
type motley struct {
	Text             string                       `json:"text"`
	CaseInS          string                       // no tag: matched in any case
	Number           int                          `json:"number,omitempty"`
	Float            float64                      `json:"float"`
	Quoted           int                          `json:"quoted,string"`
	Bytes            []byte                       `json:"bytes"`
	Fixed            [3]byte                      `json:"fixed"`
	Nil              []string                     `json:"nil"`
	NilMap           map[string]int               `json:"nilMap"`
	Omit             []string                     `json:"omit,omitempty"`
	OmitMap          map[string]int               `json:"omitMap,omitempty"`
	OmitOne          struct{ A int }              `json:"omitOne,omitempty"`
	ZeroOne          struct{ A int }              `json:"zeroOne,omitzero"`
	Pointer          *string                      `json:"pointer,omitempty"`
	Bool             bool                         `json:"bool,omitempty"`
	Keys             map[int]string               `json:"keys,omitempty"`
	Time             metav1.Time                  `json:"time"`
	Micro            *metav1.MicroTime            `json:"micro,omitempty"`
	Std              time.Time                    `json:"std"`
	Duration         metav1.Duration              `json:"duration"`
	Nanos            time.Duration                `json:"nanos"`
	Port             intstr.IntOrString           `json:"port"`
	Quantity         resource.Quantity            `json:"quantity"`
	List             map[string]resource.Quantity `json:"list,omitempty"`
	Raw              runtime.RawExtension         `json:"raw"`
	RawJSON          stdjson.RawMessage           `json:"rawJSON,omitempty"`
	Any              any                          `json:"any,omitempty"`
	Selector         *metav1.LabelSelector        `json:"selector,omitempty"`
	metav1.Condition `json:",inline"`
}

type motleyObject = Object[motley, motley]

const motleyDocument = `{"KIND":"K","apiVersion":"v1","metadata":{"name":"a","labels":{"l":"<>&\u2028"},` +
	`"creationTimestamp":"2026-01-02T03:04:05Z"},
 "spec":{"text":"caf\u00e9 <b>","TEXT":"last wins","caseins":"x","number":5,"float":1e21,` +
	`"quoted":"17","bytes":"aGk=","fixed":[1,2,3],"nil":null,"omit":[],"omitMap":{},"pointer":"p",
 "keys":{"3":"c","1":"a"},"time":"2026-01-02T03:04:05Z","micro":"2026-01-02T03:04:05.000006Z",` +
	`"std":"2026-01-02T03:04:05.5+01:00","duration":"1h2m","nanos":90,"port":"http",
 "quantity":"1500m","list":{"cpu":"2","memory":"1Gi"},"raw":{"kind":"X","a":[1,2]},` +
	`"rawJSON":{"z":1,"a":2},"any":{"b":[1,"x",null,true]},"selector":{"matchLabels":{"a":"b"}},
 "type":"T","status":"True","unknown":{"deep":[1]}},"unknown":1}`

func motleyCodec(t testing.TB) *codec[*motleyObject] {
	t.Helper()
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*motleyObject](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDocumentsDecodeAsEncodingJSONDecodesThem(t *testing.T) {
	var want motleyObject
	if err := stdjson.Unmarshal([]byte(motleyDocument), &want); err != nil {
		t.Fatal(err)
	}
	got := &motleyObject{}
	if err := motleyCodec(t).unmarshal([]byte(motleyDocument), got); err != nil {
		t.Fatal(err)
	}
	if rounded(got); !reflect.DeepEqual(got, &want) {
		t.Errorf("got  %+v\nwant %+v", got, &want)
	}
}

// rounded makes of whole numbers in interfaces what encoding/json makes of them: see jsonshape.Coder.
func rounded(obj *motleyObject) {
	obj.Spec.Any, obj.Status.Any = floats(obj.Spec.Any), floats(obj.Status.Any)
}

func floats(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name := range v {
			out[name] = floats(v[name])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = floats(v[i])
		}
		return out
	case int64:
		return float64(v)
	}
	return v
}

func TestDocumentsEncodeAsEncodingJSONEncodesThem(t *testing.T) {
	full := &motleyObject{}
	if err := stdjson.Unmarshal([]byte(motleyDocument), full); err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]*motleyObject{"empty": {}, "full": full} {
		want, err := stdjson.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		got, err := motleyCodec(t).marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

func TestATypeWithEncodingJSONsNumberIsServed(t *testing.T) {
	type spec struct {
		N stdjson.Number `json:"n"`
	}
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*Object[spec, struct{}]](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := c.decode("a", 1, []byte(`{"spec":{"n":12.50}}`))
	if err != nil || obj.Spec.N != "12.50" {
		t.Fatalf("got %v, %v", obj, err)
	}
	document, _, err := c.encode(obj, "a")
	if err != nil || !sameJSON(document, []byte(`{"kind":"K","metadata":{"name":"a"},"spec":{"n":12.50}}`)) {
		t.Errorf("got %s, %v", document, err)
	}
}

// generated has the shape of a kubebuilder type. Its empty status is written as {}.
type generated struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]string `json:"spec,omitempty"`
	Status            struct {
		Ready bool `json:"ready"`
	} `json:"status,omitempty"`
}

func (g *generated) DeepCopyObject() runtime.Object {
	out := *g
	out.ObjectMeta = *g.ObjectMeta.DeepCopy()
	out.Spec = make(map[string]string, len(g.Spec))
	for k, v := range g.Spec {
		out.Spec[k] = v
	}
	return &out
}

func TestAGeneratedTypesEmptyStatusIsNotWritten(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*generated](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	obj := &generated{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: map[string]string{"status": "kept"}}
	obj.Status.Ready = true
	document, _, err := c.encode(obj, "a")
	if err != nil || !sameJSON(document, []byte(`{"metadata":{"name":"a"},"spec":{"status":"kept"}}`)) {
		t.Errorf("got %s, %v", document, err)
	}
	if !obj.Status.Ready {
		t.Error("the caller's object was changed")
	}
}

type embedding struct{ Object[struct{}, struct{}] }

func TestTypesThatCannotBeServedAreRefused(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	keys := newKeyspace(cfg)
	if _, err := newCodec[*embedding](cfg, keys); err == nil {
		t.Error("an embedded Object was taken: its copies lose the outer type")
	}
	if _, err := newCodec[*None](cfg, keys); err == nil {
		t.Error("*None was taken")
	}
	if _, err := newCodec[IEntity](cfg, keys); err == nil {
		t.Error("an interface was taken")
	}
	if _, err := newCodec[*unstructured.Unstructured](cfg, keys); err != nil {
		t.Error(err)
	}
}

func BenchmarkDecode(b *testing.B) {
	document := benchmarkDocument
	b.Run("encoding_json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := stdjson.Unmarshal(document, &benchmarkObject{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	cfg := Config{Kind: "K", Bucket: "b", Namespaced: true}.withDefaults()
	c, err := newCodec[*benchmarkObject](cfg, newKeyspace(cfg))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("codec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.decode("shop.site-1", 1, document); err != nil {
				b.Fatal(err)
			}
		}
	})
	u, err := newCodec[*unstructured.Unstructured](cfg, newKeyspace(cfg))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("codec_unstructured", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := u.decode("shop.site-1", 1, document); err != nil {
				b.Fatal(err)
			}
		}
	})
}

type benchmarkSpec struct {
	Host     string         `json:"host"`
	Paths    []string       `json:"paths,omitempty"`
	Replicas int            `json:"replicas"`
	Ports    map[string]int `json:"ports,omitempty"`
}

type benchmarkObject = Object[benchmarkSpec, struct {
	Ready bool `json:"ready"`
}]

// benchmarkDocument has about 450 bytes.
var benchmarkDocument = []byte(`{"kind":"K","metadata":{"name":"site-1","namespace":"shop",` +
	`"labels":{"app":"web","kumori/ownerkind":"Shop","kumori/ownerkey":"abc"},` +
	`"annotations":{"kumori/ownerkind":"Shop","kumori/ownerkey":"abc"},"creationTimestamp":"2026-01-01T00:00:00Z"},` +
	`"spec":{"host":"site-1.example.com","paths":["/a","/b","/c/d/e"],` +
	`"replicas":3,"ports":{"http":80,"https":443}},` +
	`"comment":"what the type does not know is skipped, and costs little"}`)

// plainDocument is one of about 450 bytes of which all members are known.
var plainDocument = bytes.Replace(benchmarkDocument, []byte(`"comment":"what the type does not know is skipped, and costs `+
	`little"`), []byte(`"status":{"ready":true}`), 1)

// BenchmarkStrict compares decoding with and without a look for what is odd.
func BenchmarkStrict(b *testing.B) {
	cfg := Config{Kind: "K", Bucket: "b", Namespaced: true}.withDefaults()
	c, err := newCodec[*benchmarkObject](cfg, newKeyspace(cfg))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("look", func(b *testing.B) { // what with takes more than without
		b.ReportAllocs()
		for b.Loop() {
			if !c.members.Clean(plainDocument) {
				b.Fatal("it is not clean")
			}
		}
	})
	for name, looks := range map[string]bool{"without": false, "with": true} {
		for of, document := range map[string][]byte{"plain": plainDocument, "odd": benchmarkDocument} {
			b.Run(of+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := c.read("shop.site-1", 1, document, looks); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
