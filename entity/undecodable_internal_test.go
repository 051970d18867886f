package entity

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type placedSpec struct {
	Replicas int         `json:"replicas"`
	Since    metav1.Time `json:"since"`
	Pages    []struct {
		Title string `json:"title"`
	} `json:"pages"`
	Env map[string]string `json:"env"`
}

// TestWhatIsWrongWithADocumentHasAPlace: the path as the type names it, and line and column as an editor counts them.
func TestWhatIsWrongWithADocumentHasAPlace(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	typed, err := newCodec[*Object[placedSpec, struct{}]](cfg, newKeyspace(cfg))
	ok(t, err)
	untyped, err := newCodec[*unstructured.Unstructured](cfg, newKeyspace(cfg))
	ok(t, err)
	for document, want := range map[string]string{
		`{"spec":{"replicas":"SECRET"}}`:                         "spec.replicas 1:21",
		"{\n  \"spec\": {\n    \"replicas\": \"SECRET\"\n  }\n}": "spec.replicas 3:17",
		`{"spec":{"pages":[{"title":"a"},{"title":  7373}]}}`:    "spec.pages[1].title 1:44",
		`{"spec":{"pages":{"SECRET":1}}}`:                        "spec.pages 1:18",
		`{"spec":{"env":{"SECRET":1}}}`:                          "spec.env.* 1:26",
		`{"spec":{"since":"SECRET"}}`:                            "spec.since 1:18",
		`{"spec":{"replicas":73737373737373737373}}`:             "spec.replicas 1:21",
		`[]`:                                         " 1:1",
		"{\"spec\":{\n\"é\":1,\"replicas\":}}":       "spec.replicas 2:18",
		`{"spec":{"replicas":1`:                      "spec.replicas 1:22",
		`{"SECRET":{"SECRET":SECRET}}`:               " 1:21",
		`{"metadata":{"name":"SECRET"}}`:             "metadata.name 0:0",
		`{"metadata":{"namespace":"SECRET"}}`:        "metadata.namespace 0:0",
		`{"spec":` + strings.Repeat("[", 1001) + `}`: " 0:0",
	} {
		_, err := typed.decode("a", 1, []byte(document))
		why := WhyInvalid(err)
		if got := fmt.Sprintf("%s %d:%d", why.Path, why.Line, why.Column); got != want {
			t.Errorf("%.80s: at %q, want %q: %v", document, got, want, err)
		}
		if all := fmt.Sprint(err, why); why.Reason == "" || strings.Contains(all, "SECRET") || strings.Contains(all, "7373") {
			t.Errorf("%.80s: %v, %+v", document, err, why)
		}
	}
	for document, want := range map[string]string{
		`{"metadata":{"labels":{"a":1}}}`: "metadata.labels 0:0",
		`{"kind":1}`:                      "kind 0:0",
		`{"spec":{"SECRET":}}`:            " 1:19",
		`{"spec":{"SECRET":1e400}}`:       " 1:19",
	} {
		_, err := untyped.decode("a", 1, []byte(document))
		why := WhyInvalid(err)
		if got := fmt.Sprintf("%s %d:%d", why.Path, why.Line, why.Column); got != want {
			t.Errorf("%.80s: at %q, want %q: %v", document, got, want, err)
		}
	}
	// The error of somebody else, who names a path.
	other := WhyInvalid(newInvalid("K", "b", "a", "spec.Title", "did you mean title?"))
	if other.Path != "spec.Title" || other.Reason != "did you mean title?" {
		t.Errorf("%+v", other)
	}
}

// TestWhatIsWrongIsSaidSoThatItsWriterCanMendIt, who need not know Go.
func TestWhatIsWrongIsSaidSoThatItsWriterCanMendIt(t *testing.T) {
	type spec struct {
		Replicas int         `json:"replicas"`
		Small    uint8       `json:"small"`
		Ratio    float32     `json:"ratio"`
		Since    metav1.Time `json:"since"`
		At       time.Time   `json:"at"`
		Address  netip.Addr  `json:"address"`
		Free     any         `json:"free"`
	}
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*Object[spec, struct{}]](cfg, newKeyspace(cfg))
	ok(t, err)
	for document, want := range map[string]string{
		"\ufeff{}":                       "it begins with a byte-order mark, which no JSON does: write it as UTF-8 without one",
		`{"spec":{"replicas":1e+06}}`:    "where int is wanted: write a whole number without a point and an exponent",
		`{"spec":{"replicas":1.5}}`:      "where int is wanted: write a whole number without a point and an exponent",
		`{"spec":{"small":-1}}`:          "where uint8 is wanted: it may not be below 0",
		`{"spec":{"small":256}}`:         "where uint8 is wanted: it is too large",
		`{"spec":{"ratio":1e300}}`:       "where float32 is wanted: it is too large",
		`{"spec":{"free":1e400}}`:        "spec.free: there is a JSON number at line 1, column 17, byte 16, where float64 is wanted: it is too large",
		`{"spec":{"replicas":"1"}}`:      "there is a JSON string at line 1, column 21, byte 20, where int is wanted",
		`{"spec":{"since":"yesterday"}}`: "where v1.Time is wanted: a time is written as in RFC 3339, such as 2006-01-02T15:04:05Z",
		`{"spec":{"at":"2026-01-02"}}`:   "where time.Time is wanted: a time is written as in RFC 3339, such as 2006-01-02T15:04:05Z",
		`{"spec":{"address":"home"}}`:    "where netip.Addr is wanted: the text is none that it takes",
	} {
		_, err := c.decode("a", 1, []byte(document))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", document, err, want)
		}
	}
}
