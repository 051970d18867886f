package entity_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// DialSpec leaves out what is zero.
type DialSpec struct {
	Title    string            `json:"title,omitempty"`
	Replicas int               `json:"replicas,omitempty"`
	Ratio    float64           `json:"ratio,omitempty"`
	On       bool              `json:"on,omitempty"`
	Name     string            `json:"name,omitempty"`
	Tags     []string          `json:"tags,omitempty"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Limit    *int              `json:"limit,omitempty"`
	Free     any               `json:"free,omitempty"`
	Text     int               `json:"text,omitempty,string"`
	Since    time.Time         `json:"since,omitzero"`
	Hand     Hand              `json:"hand,omitzero"`
	Left     *Hand             `json:"left,omitempty"`
	Right    Hand              `json:"right"`
	Hands    map[string]Hand   `json:"hands,omitempty"`
	List     []Hand            `json:"list,omitempty"`
}

type Hand struct {
	Angle int    `json:"angle"`
	Color string `json:"color,omitempty"`
}

type Dial = entity.Object[DialSpec, struct{}]

var dials = entity.Config{Kind: "Dial", Bucket: "shops"}

// zeroSpec says each zero. What T writes anyway is at the end.
const zeroSpec = `"replicas":0,"ratio":-0.0e3,"on":false,"name":"","tags":[],"bytes":"","env":{},"limit":null,"free":null,` +
	`"text":"0","since":"0001-01-01T00:00:00Z","hand":{"angle":0,"color":""},"left":null,` +
	`"right":{"angle":0,"color":""},"hands":{"a":{"angle":0,"color":"","u":0}}`

// TestAnUpdateKeepsZerosThatAreWrittenOut, by whatever client and of whatever read.
func TestAnUpdateKeepsZerosThatAreWrittenOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cached, live := newClient[*Dial](t, js, dials), newClient[*Dial](t, js, dials)
		start(t, cached)
		for name, write := range map[string]func(title string){
			"cached": func(title string) {
				dial, err := cached.Lister().Get("d")
				must(t, err)
				dial.Spec.Title = title
				must(t, cached.Update(t.Context(), dial))
			},
			"live": func(title string) {
				dial, err := live.Get(t.Context(), "d")
				must(t, err)
				dial.Spec.Title = title
				must(t, live.Update(t.Context(), dial))
			},
			"read by another client": func(title string) {
				dial, err := live.Get(t.Context(), "d")
				must(t, err)
				dial.Spec.Title = title
				must(t, newClient[*Dial](t, js, dials).Update(t.Context(), dial))
			},
			"through JSON": func(title string) {
				dial, err := cached.Lister().Get("d")
				must(t, err)
				data, err := json.Marshal(dial)
				must(t, err)
				var again *Dial
				must(t, json.Unmarshal(data, &again))
				again.Spec.Title = title
				must(t, cached.Update(t.Context(), again))
			},
			"CreateOrUpdate": func(title string) {
				for want := controller.OperationResultUpdated; ; want = controller.OperationResultNone {
					got, err := controller.CreateOrUpdate(t.Context(), cached, &Dial{ObjectMeta: website("d").ObjectMeta},
						func(d *Dial) error { d.Spec.Title = title; return nil })
					must(t, err)
					if got != want {
						t.Errorf("CreateOrUpdate has %v, want %v", got, want)
					}
					if want == controller.OperationResultNone {
						break
					}
				}
			},
			"patch": func(title string) {
				must(t, live.Patch(t.Context(), "d", []byte(`{"spec":{"title":"`+title+`"}}`)))
			},
		} {
			revision := put(t, js, "d", `{"kind":"Dial","spec":{"title":"old",`+zeroSpec+`},"metadata":{"labels":{}}}`)
			must(t, cached.Informer().WaitKey(t.Context(), "d", revision))
			write("first")
			write("second") // of what was written
			wantShop(t, js, "d", `{"kind":"Dial","spec":{"title":"second",`+zeroSpec+`},"metadata":{"labels":{}}}`)
			if t.Failed() {
				t.Fatal(name)
			}
		}
	})
}

// TestAZeroThatIsWrittenOutGoesWhenItsFieldChanges, and what a writer has set to zero is left out as ever.
func TestAZeroThatIsWrittenOutGoesWhenItsFieldChanges(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Dial](t, js, dials)
		one := 1
		set := DialSpec{
			Replicas: 1, Ratio: 1, On: true, Name: "n", Tags: []string{"t"}, Bytes: []byte("b"), Env: map[string]string{"e": ""},
			Limit: &one, Free: false, Text: 1, Since: time.Unix(1, 0).UTC(), Hand: Hand{Angle: 1}, Left: &Hand{},
			Right: Hand{Color: "c"}, Hands: map[string]Hand{"b": {}},
		}
		put(t, js, "d", `{"kind":"Dial","spec":{`+zeroSpec+`}}`)
		dial, err := client.Get(t.Context(), "d")
		must(t, err)
		dial.Spec = set
		must(t, client.Update(t.Context(), dial))
		wantShop(t, js, "d", `{"kind":"Dial","metadata":{},"spec":{"replicas":1,"ratio":1,"on":true,"name":"n","tags":["t"],`+
			`"bytes":"Yg==","env":{"e":""},"limit":1,"free":false,"text":"1","since":"1970-01-01T00:00:01Z",`+
			`"hand":{"angle":1,"color":""},"left":{"angle":0},"right":{"angle":0,"color":"c"},"hands":{"b":{"angle":0}}}}`)
		dial.Spec = DialSpec{}
		must(t, client.Update(t.Context(), dial))
		wantShop(t, js, "d", `{"kind":"Dial","metadata":{},"spec":{"right":{"angle":0}}}`)
	})
}

// TestZerosInElementsOfListsAreNotKept, as nothing is that T leaves out of them; nor is an explicit zero warned about.
func TestZerosInElementsOfListsAreNotKept(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		cfg := dials
		cfg.Strict = entity.StrictRefuse
		client := newClient[*Dial](t, js, cfg)
		revision := put(t, js, "d", `{"kind":"Dial","spec":{"on":false,"right":{"angle":0},"list":[{"angle":0,"color":""}]}}`)
		dial, err := client.Get(t.Context(), "d")
		must(t, err)
		if w := client.DocumentWarnings("d", revision); w != nil {
			t.Errorf("it warns: %v", w)
		}
		must(t, client.Update(t.Context(), dial))
		wantShop(t, js, "d", `{"kind":"Dial","metadata":{},"spec":{"on":false,"right":{"angle":0},"list":[{"angle":0}]}}`)
	})
}

// TestATransformLosesNoZeroThatIsWrittenOut, where it leaves the field out and where it does not.
func TestATransformLosesNoZeroThatIsWrittenOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Dial](t, js, dials)
		must(t, client.Informer().SetTransform(cache.TransformFunc(func(obj any) (any, error) {
			obj.(*Dial).Spec.Replicas, obj.(*Dial).Spec.Name, obj.(*Dial).Spec.Hands = 0, "", nil
			return obj, nil
		})))
		start(t, client)
		for _, document := range []string{
			`{"kind":"Dial","spec":{"title":"new",` + zeroSpec + `},"metadata":{}}`,
			`{"kind":"Dial","spec":{"title":"new",` + strings.Replace(zeroSpec, `"replicas":0`, `"replicas":7`, 1) + `},"metadata":{}}`,
		} {
			revision := put(t, js, "d", strings.Replace(document, `"new"`, `"old"`, 1))
			must(t, client.Informer().WaitKey(t.Context(), "d", revision))
			dial, err := client.Lister().Get("d")
			must(t, err)
			dial.Spec.Title = "new"
			must(t, client.Update(t.Context(), dial))
			wantShop(t, js, "d", document)
		}
	})
}

// TestTheLastDocumentHasZerosThatAreWrittenOut: else what is restored from it would have lost them.
func TestTheLastDocumentHasZerosThatAreWrittenOut(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*Shop](t, js, shops)
		put(t, js, "corner", `{"spec":{"title":"","owner":null,"address":{"name":""},"staff":{"a":{"name":""}},"guests":[]}}`)
		record := recorded(t, client, "corner")
		var got map[string]any
		must(t, json.Unmarshal(record.LastDocument, &got))
		spec, err := json.Marshal(got["spec"])
		must(t, err)
		const want = `{"address":{"name":""},"guests":[],"owner":null,"staff":{"a":{"name":""}},"title":""}`
		if string(spec) != want {
			t.Errorf("it has %s, want %s", spec, want)
		}
		if lacks := client.Records().LastDocumentLacks(record); lacks != "" {
			t.Errorf("it lacks %s", lacks)
		}
	})
}

// UnionSpec is of one kind or another: what is nil is not there.
type UnionSpec struct {
	Title string `json:"title,omitempty"`
	*Cold
	*Warm
	Boxed *Boxed `json:"boxed,omitempty"`
}

type Cold struct {
	Below int `json:"below,omitempty"`
	Hand  `json:",inline"`
}

type Warm struct {
	Above int  `json:"above,omitempty"`
	Steam bool `json:"steam,omitzero"`
}

type Boxed struct {
	Lid bool `json:"lid,omitempty"`
	Hand
}

// TestAnEmbeddedPointerThatAWriterSetsToNilStaysNil, although all that the document says of the struct are zeros. They
// have no object of their own that could go with it.
func TestAnEmbeddedPointerThatAWriterSetsToNilStaysNil(t *testing.T) {
	natstest.Test(t, func(t *testing.T) {
		js := newServer(t)
		client := newClient[*entity.Object[UnionSpec, struct{}]](t, js, dials)
		put(t, js, "d", `{"kind":"Dial","spec":{"title":"","below":0,"color":"","boxed":{"lid":false,"color":""}}}`)
		dial, err := client.Get(t.Context(), "d")
		must(t, err)
		if dial.Spec.Cold == nil || dial.Spec.Warm != nil || dial.Spec.Boxed == nil {
			t.Fatalf("read %+v", dial.Spec)
		}
		dial.Spec.Cold, dial.Spec.Warm = nil, &Warm{Above: 1}
		must(t, client.Update(t.Context(), dial))
		dial, err = client.Get(t.Context(), "d")
		must(t, err)
		if dial.Spec.Cold != nil || dial.Spec.Warm == nil {
			t.Errorf("what was set to nil is %+v, what was set %+v", dial.Spec.Cold, dial.Spec.Warm)
		}
		dial.Spec.Boxed = nil
		must(t, client.Update(t.Context(), dial))
		if dial, err = client.Get(t.Context(), "d"); err != nil || dial.Spec.Boxed != nil {
			t.Errorf("what was set to nil is %+v, %v", dial.Spec.Boxed, err)
		}
	})
}
