package schema

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// trickySpec has what a schema that looks at Go's structure alone gets wrong.
type trickySpec struct {
	Title     string                       `json:"title,omitempty"`
	Small     int8                         `json:"small,omitempty"`
	Count     uint                         `json:"count,omitempty"`
	Ratio     float64                      `json:"ratio,omitempty"`
	On        *bool                        `json:"on,omitempty"`
	Pointer   *int32                       `json:"pointer"`
	List      []string                     `json:"list"`
	Array     [2]int                       `json:"array,omitzero"`
	Bytes     []byte                       `json:"bytes,omitempty"`
	Quoted    int64                        `json:"quoted,string,omitempty"`
	At        time.Time                    `json:"at,omitzero"`
	For       time.Duration                `json:"for,omitempty"`
	MetaAt    metav1.Time                  `json:"metaAt,omitempty"`
	MicroAt   *metav1.MicroTime            `json:"microAt,omitempty"`
	MetaFor   *metav1.Duration             `json:"metaFor,omitempty"`
	Memory    resource.Quantity            `json:"memory,omitempty"`
	Limits    map[string]resource.Quantity `json:"limits,omitempty"`
	Port      intstr.IntOrString           `json:"port,omitempty"`
	Raw       json.RawMessage              `json:"raw,omitempty"`
	Extension *runtime.RawExtension        `json:"extension,omitempty"`
	Any       any                          `json:"any,omitempty"`
	Numbers   map[int]string               `json:"numbers,omitempty"`
	Naturals  map[uint16]bool              `json:"naturals,omitempty"`
	Addresses map[netip.Addr]netip.Prefix  `json:"addresses,omitempty"`
	Tree      *tree                        `json:"tree"`
	Selector  *metav1.LabelSelector        `json:"selector,omitempty"`
	Container corev1.Container             `json:"container,omitzero"`
	Inline    struct {
		A int `json:"a,omitempty"`
	} `json:"inline,omitzero"`
	Embedded `json:",inline"`
	Token    string `json:"token,omitempty" nagi:"secret"`
	Untagged int
	//lint:ignore U1000 a schema leaves out what is not exported
	skipped int
	Ignored func() `json:"-"`
}

// Embedded is exported, as embedded types have to be.
type Embedded struct {
	Inner string `json:"inner,omitempty"`
	Title bool   `json:"title,omitempty"` // hidden by that of the outer one
}

// tree holds itself.
type tree struct {
	Name     string          `json:"name,omitempty"`
	Children []tree          `json:"children,omitempty"`
	ByName   map[string]tree `json:"byName,omitempty"`
}

type trickyStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type tricky = entity.Object[trickySpec, trickyStatus]

// valid are documents that the schema allows, and so decode. invalid are those that neither does.
var (
	valid = []string{
		`{}`, `{"spec":{}}`, `{"metadata":{}}`, `{"kind":"Tricky"}`, `{"metadata":{"labels":{"a":"b"},"annotations":null}}`,
		`{"metadata":{"finalizers":["x"],"ownerReferences":[{}],"creationTimestamp":null}}`,
		`{"spec":{"title":"t","small":-128,"count":0,"ratio":1e3,"on":true,"pointer":7,"list":["a"]}}`,
		`{"spec":{"pointer":null,"list":null,"tree":null}}`, `{"spec":{"array":[1,2]}}`, `{"spec":{"array":[1]}}`,
		`{"spec":{"bytes":"aGk="}}`, `{"spec":{"bytes":""}}`, `{"spec":{"quoted":"-12"}}`,
		`{"spec":{"at":"2026-01-02T03:04:05.678Z"}}`, `{"spec":{"for":1000}}`,
		`{"spec":{"metaAt":"2026-01-02T03:04:05+01:00"}}`, `{"spec":{"metaAt":null}}`,
		`{"spec":{"microAt":"2026-01-02T03:04:05.123456Z"}}`, `{"spec":{"metaFor":"1h30m0.5s"}}`, `{"spec":{"metaFor":"-1µs"}}`,
		`{"spec":{"memory":"2Gi"}}`, `{"spec":{"memory":512}}`, `{"spec":{"memory":1.5}}`, `{"spec":{"memory":"500m"}}`,
		`{"spec":{"memory":"1e3"}}`, `{"spec":{"limits":{"cpu":"1","memory":"1.5Gi"}}}`,
		`{"spec":{"port":80}}`, `{"spec":{"port":"http"}}`, `{"spec":{"raw":[1,"x",{}]}}`,
		`{"spec":{"extension":{"kind":"X","a":[1]}}}`, `{"spec":{"any":{"deep":[null]}}}`, `{"spec":{"any":null}}`,
		`{"spec":{"numbers":{"-1":"a","22":"b"}}}`, `{"spec":{"naturals":{"7":true}}}`,
		`{"spec":{"addresses":{"10.0.0.1":"10.0.0.0/8"}}}`,
		`{"spec":{"tree":{"name":"r","children":[{"children":[{"name":"leaf"}]}],"byName":{"x":{"byName":{"y":{}}}}}}}`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}}`,
		`{"spec":{"container":{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":"x"}}}}}`,
		`{"spec":{"inline":{"a":1},"inner":"i","token":"secret","Untagged":3}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`,
	}
	// unknown are those that decode unless Strict refuses them.
	unknown = []string{
		`{"more":1}`, `{"spec":{"more":1}}`, `{"spec":{"tree":{"children":[{"more":1}]}}}`, `{"metadata":{"more":1}}`,
		`{"spec":{"inline":{"b":1}}}`, `{"spec":{"selector":{"more":{}}}}`, `{"kind":"Other"}`,
	}
	invalid = []string{
		`[]`, `"x"`, `{"metadata":[]}`, `{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"name":1}}`, `{"spec":[]}`,
		`{"metadata":{"finalizers":"x"}}`, `{"metadata":{"ownerReferences":["x"]}}`,
		`{"spec":{"title":true}}`, `{"spec":{"small":128}}`, `{"spec":{"small":1.5}}`, `{"spec":{"count":-1}}`,
		`{"spec":{"ratio":"1"}}`, `{"spec":{"on":"true"}}`, `{"spec":{"pointer":4000000000}}`, `{"spec":{"list":"a"}}`,
		`{"spec":{"array":{}}}`, `{"spec":{"bytes":"***"}}`, `{"spec":{"quoted":12}}`, `{"spec":{"quoted":"x"}}`,
		`{"spec":{"at":"yesterday"}}`, `{"spec":{"for":"1s"}}`, `{"spec":{"metaAt":7}}`,
		`{"spec":{"microAt":"2026-01-02T03:04:05Z"}}`, `{"spec":{"metaFor":"1 hour"}}`, `{"spec":{"metaFor":5}}`,
		`{"spec":{"memory":"2 GB"}}`, `{"spec":{"memory":[]}}`, `{"spec":{"limits":{"cpu":"x"}}}`,
		`{"spec":{"port":80.5}}`, `{"spec":{"port":3000000000}}`, `{"spec":{"port":{}}}`,
		`{"spec":{"numbers":{"a":"a"}}}`, `{"spec":{"naturals":{"-7":true}}}`, `{"spec":{"addresses":{"10.0.0.1":7}}}`,
		`{"spec":{"tree":{"children":[{"name":7}]}}}`, `{"spec":{"tree":{"byName":{"x":{"byName":[]}}}}}`,
		`{"spec":{"container":{"image":7}}}`, `{"spec":{"inline":{"a":"x"}}}`, `{"spec":{"token":7}}`,
		`{"status":{"conditions":{}}}`,
	}
)
