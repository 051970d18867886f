package entity

import (
	"bytes"
	stdjson "encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/internal/jsonshape"
)

// branching has each way in which one type is in another.
type branching struct {
	*Leaf
	Text   string                `json:"text,omitempty"`
	Next   *branching            `json:"next,omitempty"`
	Always *branching            `json:"always"`
	Zero   twig                  `json:"zero,omitzero"`
	Value  twig                  `json:"value"`
	ByName map[string]branching  `json:"byName,omitempty"`
	ByPtr  map[string]*branching `json:"byPtr,omitempty"`
	List   []branching           `json:"list,omitempty"`
	Any    any                   `json:"any,omitempty"`
	Raw    stdjson.RawMessage    `json:"raw,omitempty"`
	Case   string                // no tag
	CASE   string
}

type twig struct {
	Zero struct {
		N     int `json:"n,omitempty"`
		Plain int `json:"plain"`
	} `json:"zero,omitzero"`
	N     int       `json:"n,omitempty"`
	Plain int       `json:"plain"`
	At    time.Time `json:"at,omitzero"`
}

// Leaf is embedded by its pointer.
type Leaf struct {
	Green bool `json:"green,omitempty"`
}

type branchingObject = Object[branching, any]

var membersSeeds = []string{
	`{"spec":{"u":1,"next":{"u":2,"next":{"text":"t"}},"zero":{"u":3,"zero":{"u":4}},"value":{"u":5}},"u":{"a":[1]}}`,
	`{"spec":{"byName":{"a":{"u":1},"a":{"text":"t"},"b":null},"byPtr":{"a":{"u":1},"a":null},"list":[{"u":1}]}}`,
	`{"spec":{"next":{"u":1},"next":null,"always":{"u":1},"always":{},"zero":{"u":1},"zero":null}}`,
	`{"spec":{"TEXT":"t","Next":{"U":1},"case":"c","CAse":"d","green":true,"GREEN":false}}`,
	`{"spec":{"any":{"a":1,"a":2,"b":{"c":1,"c":2}},"raw":{"a":1,"a":2}},"metadata":{"zone":"z","labels":{"a":"1","a":"2"}}}`,
	"{\"spec\":{\"\xff\":\"\xff\",\"byName\":{\"\xff\":{\"u\":1},\"\xfe\":{\"v\":1}}}}", `{"spec":{"u":"\ud800","\ud800":1}}`,
	`{"\u0073pec":{"te\u0078t":"t","u\u0000":1},"spec":{"text":"u"},"status":{"u":1},"Status":2}`,
	`{"metadata":{"nAme":null,"generation":0,"labels":{}},"kind":"","spec":{"n":0,"text":"","zero":{"plain":0},"list":[]}}`,
}

// FuzzMembers holds that what the type does not know is found, and is in the document that is written.
func FuzzMembers(f *testing.F) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*branchingObject](cfg, newKeyspace(cfg))
	if err != nil {
		f.Fatal(err)
	}
	fuzzDocuments(f, append(membersSeeds, documentSeeds...), func(t *testing.T, document []byte) {
		checkMembers(t, c, document)
	})
}

// TestMembersOfGrownDocuments is FuzzMembers with documents that mostly decode.
func TestMembersOfGrownDocuments(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*branchingObject](cfg, newKeyspace(cfg))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	decoded := 0
	for range 1500 {
		document := []byte(`{"spec":` + grown(random, 4) + `,"u":` + grown(random, 1) + `}`)
		if !checkMembers(t, c, document) {
			continue
		}
		if decoded++; t.Failed() {
			t.Fatalf("%s", document)
		}
	}
	if decoded < 300 {
		t.Errorf("only %d of 1500 documents decode", decoded)
	}
}

// grown is a random value for a place that takes objects.
func grown(random *rand.Rand, depth int) string {
	if depth == 0 || random.IntN(8) == 0 {
		return []string{"null", "{}"}[random.IntN(2)]
	}
	names := []string{"next", "always", "zero", "value", "byName", "byPtr", "list", "any", "u", "v", "Next", "ZERO", "text", "n",
		"green", "u\u0075", "\u006eext", "plain", "Plain", "at"}
	var out []string
	for range random.IntN(6) {
		name := names[random.IntN(len(names))]
		value := grown(random, depth-1)
		switch strings.ToLower(name) {
		case "text":
			value = []string{`"t"`, `""`, "null"}[random.IntN(3)]
		case "n", "plain":
			value = []string{"0", "-0", "0.0e7", "1", "null"}[random.IntN(5)]
		case "at":
			value = []string{`"0001-01-01T00:00:00Z"`, `"2026-01-01T00:00:00Z"`, "null"}[random.IntN(3)]
		case "green":
			value = []string{"false", "true", "null"}[random.IntN(3)]
		case "byname", "byptr":
			value = `{"a":` + grown(random, depth-1) + `,"` + []string{"a", "b"}[random.IntN(2)] + `":` +
				grown(random, depth-1) + `}`
		case "list":
			value = `[` + value + `]`
		}
		out = append(out, `"`+name+`":`+value)
	}
	return "{" + strings.Join(out, ",") + "}"
}

// checkMembers reports whether the document decodes.
func checkMembers(t *testing.T, c *codec[*branchingObject], document []byte) bool {
	obj, odd, err := c.read("a", 7, document, true)
	plain, plainErr := c.decode("a", 7, document)
	if (err == nil) != (plainErr == nil) || err == nil && !reflect.DeepEqual(obj, plain) {
		t.Fatalf("with a look it is %+v, %v; without %+v, %v", obj, err, plain, plainErr)
	}
	if err != nil {
		return false
	}
	found, err := c.members.Look(document)
	if err != nil {
		t.Fatalf("it decodes, and cannot be looked at: %v", err)
	}
	if c.members.Clean(document) && len(found.Problems) > 0 {
		t.Fatalf("it counts as clean and has %+v", found.Problems)
	}
	strict := stdjson.NewDecoder(bytes.NewReader(document))
	strict.DisallowUnknownFields()
	strictErr := strict.Decode(&branchingObject{})
	unknown := slices.ContainsFunc(found.Problems, func(p jsonshape.Problem) bool { return p.Kind == jsonshape.Unknown })
	if found.More == 0 && unknown != (strictErr != nil) {
		t.Fatalf("found %+v; encoding/json says: %v", found.Problems, strictErr)
	}
	if c.members.Clean(document) && found.Kept.MustSettle() {
		t.Fatalf("it counts as clean, and %s may have to be kept", found.Kept.Object())
	}
	if (odd == nil) != (len(found.Problems) == 0) && (odd == nil || odd.kept == nil) && len(obj.Finalizers) == 0 && len(obj.OwnerReferences) == 0 &&
		(odd == nil || !strings.Contains(odd.warnings.Reason, ReasonOtherType)) {
		t.Fatalf("found %+v, and told %+v", found.Problems, odd)
	}
	if odd != nil {
		checkKept(t, c, obj, odd)
	}
	return true
}

// checkKept checks what an update without a change writes.
func checkKept(t *testing.T, c *codec[*branchingObject], obj *branchingObject, odd *oddity) {
	document, _, err := c.encode(obj, "a")
	if err != nil {
		return
	}
	if _, err := c.decode("a", 7, document); err != nil {
		return // a metav1.Time of the year 0
	}
	merged, err := jsonshape.MergeKept(document, odd.kept)
	if err != nil || !stdjson.Valid(merged) {
		t.Fatalf("merged it is %s, %v", merged, err)
	}
	got, err := c.decode("a", 7, merged)
	if err != nil {
		t.Fatalf("%s: %v", merged, err)
	}
	if written, _, err := c.encode(got, "a"); err != nil || !bytes.Equal(written, document) {
		t.Fatalf("%s\nis written as %s, %v\nwant %s", merged, written, err, document)
	}
	again, err := c.members.Look(merged)
	if kept := c.settled(again.Kept, got, "a"); err != nil || !sameJSON(kept.Object(), odd.kept.Object()) {
		t.Fatalf("%s\nhas %s, %v\nwant %s", merged, kept.Object(), err, odd.kept.Object())
	}
	if slices.ContainsFunc(again.Problems, func(p jsonshape.Problem) bool { return p.Kind == jsonshape.Duplicate }) &&
		!bytes.Contains(merged, []byte(`"any"`)) {
		t.Fatalf("%s\nhas %+v", merged, again.Problems)
	}
}
