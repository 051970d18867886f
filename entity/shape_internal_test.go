package entity

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type told struct {
	Said string `json:"said,omitempty"`
}

// Common has a status for those that embed it.
type Common struct {
	Note   string `json:"note"`
	Status told   `json:"status"`
}

type (
	ownStatus struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Common            `json:",inline"`
		Status            told `json:"status,omitzero"`
	}
	miscasedStatus struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		State             told `json:"Status,omitzero"`
	}
	statusBelow struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		In                Common `json:",inline"` // which no package of JSON inlines: it is the member "In"
	}
	statusByPointer struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		*Common           `json:",inline"`
	}
)

func (o *ownStatus) DeepCopyObject() runtime.Object       { return new(*o) }
func (o *miscasedStatus) DeepCopyObject() runtime.Object  { return new(*o) }
func (o *statusBelow) DeepCopyObject() runtime.Object     { return new(*o) }
func (o *statusByPointer) DeepCopyObject() runtime.Object { return new(*o) }

// TestTheStatusIsTheFieldThatTheDecoderReadsAStatusInto: that one is cleared in documents, and no other.
func TestTheStatusIsTheFieldThatTheDecoderReadsAStatusInto(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	const document = `{"status":{"said":"a"},"In":{"note":"n","status":{"said":"b"}},"note":"n"}`
	own, err := newCodec[*ownStatus](cfg, newKeyspace(cfg))
	ok(t, err)
	if o, err := own.decode("a", 1, []byte(document)); err != nil || o.Status.Said != "" || o.Note != "n" {
		t.Errorf("decoded %+v, %v", o, err)
	}
	if raw, err := own.statusJSON(&ownStatus{Status: told{"a"}}); err != nil || string(raw) != `{"said":"a"}` {
		t.Errorf("the status is %s, %v", raw, err)
	}
	miscased, err := newCodec[*miscasedStatus](cfg, newKeyspace(cfg))
	ok(t, err)
	if o, err := miscased.decode("a", 1, []byte(document)); err != nil || o.State.Said != "" {
		t.Errorf("decoded %+v, %v", o, err)
	}
	below, err := newCodec[*statusBelow](cfg, newKeyspace(cfg))
	ok(t, err)
	if o, err := below.decode("a", 1, []byte(document)); err != nil || o.In.Status.Said != "b" || below.hasStatus() {
		t.Errorf("decoded %+v, %v", o, err)
	}
}

// TestAStatusBehindAnEmbeddedPointerIsRefused: it would be there for some documents only.
func TestAStatusBehindAnEmbeddedPointerIsRefused(t *testing.T) {
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	_, err := newCodec[*statusByPointer](cfg, newKeyspace(cfg))
	if err == nil || !strings.Contains(err.Error(), "embed it by value") {
		t.Errorf("the error is %v", err)
	}
}

// TestThePlaceOfAMistakeIsThatOfTheFieldThatItWasDecodedInto.
func TestThePlaceOfAMistakeIsThatOfTheFieldThatItWasDecodedInto(t *testing.T) {
	type Deep struct {
		Count int  `json:"count"`
		Named told `json:"named"`
	}
	type spec struct {
		*Deep
		Named struct {
			Said int `json:"said"`
		} `json:"named"`
		Replicas int            `json:"replicas"`
		Rest     map[string]int `json:",embed"`
	}
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*Object[spec, struct{}]](cfg, newKeyspace(cfg))
	ok(t, err)
	for document, want := range map[string]string{
		`{"spec":{"count":"SECRET"}}`:          "spec.count",
		`{"spec":{"REPLICAS":"SECRET"}}`:       "spec.replicas",
		`{"Spec":{"named":{"said":"SECRET"}}}`: "spec.named.said",
		`{"spec":{"SECRET":"SECRET"}}`:         "spec.*",
	} {
		_, err := c.decode("a", 1, []byte(document))
		if why := WhyInvalid(err); why.Path != want || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: at %q, want %q: %v", document, why.Path, want, err)
		}
	}
}

// TestWhatATypeKnowsIsWhatIsDecodedIntoIt, also where a tag has an option that does not fit its field.
func TestWhatATypeKnowsIsWhatIsDecodedIntoIt(t *testing.T) {
	type spec struct {
		In     told `json:"in,embed"` // it has a name, so it is not embedded
		Number int  `json:",embed"`   // it cannot take the rest
		Quoted int  `json:"'quoted'"` // no name
		Spaced int  `json:"a,omitzero"`
	}
	cfg := Config{Kind: "K", Bucket: "b"}.withDefaults()
	c, err := newCodec[*Object[spec, struct{}]](cfg, newKeyspace(cfg))
	ok(t, err)
	const known = `{"spec":{"in":{"said":"a"},"Number":1,"Quoted":2,"a":3}}`
	obj, odd, err := c.read("a", 1, []byte(known), true)
	if want := (spec{told{"a"}, 1, 2, 3}); err != nil || obj.Spec != want || odd != nil {
		t.Errorf("decoded %+v, %v, and is odd: %+v", obj.Spec, err, odd)
	}
	_, odd, err = c.read("a", 1, []byte(`{"spec":{"said":1,"'quoted'":2,"a":0,"other":3}}`), true)
	if err != nil || odd == nil || odd.warnings.Reason != ReasonUnknownMembers {
		t.Fatalf("odd: %+v, %v", odd, err)
	}
	if kept := string(odd.kept.Object()); kept != `{"spec":{"said":1,"'quoted'":2,"a":0,"other":3}}` {
		t.Errorf("kept is %s", kept)
	}
}
