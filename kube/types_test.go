package kube_test

import (
	"context"
	"encoding/json"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/kube"
	"github.com/nagi-runtime/nagi/test/reconciletest"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
)

// gateway is of a custom resource, with types that users have in theirs.
type gateway = entity.Object[gatewaySpec, struct{}]

type gatewaySpec struct {
	Routes   *routes                 `json:"routes,omitempty"`
	Hidden   hidden                  `json:"hidden,omitzero"`
	At       time.Time               `json:"at,omitzero"`
	Since    *metav1.Time            `json:"since,omitempty"`
	Address  netip.Addr              `json:"address,omitzero"`
	Networks map[netip.Prefix]string `json:"networks,omitempty"`
	Ports    map[int]string          `json:"ports,omitempty"`
	Pair     [2]int                  `json:"pair,omitzero"`
	Quoted   int64                   `json:"quoted,omitempty,string"`
	Whole    int64                   `json:"whole,omitempty"`
	Natural  uint64                  `json:"natural,omitempty"`
	Size     *big.Int                `json:"size,omitempty"`
	Memory   resource.Quantity       `json:"memory,omitzero"`
	Limits   map[string]limit        `json:"limits,omitempty"`
	Raw      *runtime.RawExtension   `json:"raw,omitempty"`
	Always   []string                `json:"always"`
	Free     map[string]any          `json:"free,omitempty"`
	unexported
}

// routes is as protoc-gen-go and the generator of Istio's API make messages: its state is not exported, and it has JSON
// of its own.
type routes struct {
	state         messageState
	sizeCache     int32
	unknownFields []byte
	hosts         []string
}

type messageState struct {
	_    [0]func()
	info *int
}

func (r *routes) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string][]string{"hosts": r.hosts})
}

func (r *routes) UnmarshalJSON(data []byte) error {
	r.sizeCache++
	read := map[string][]string{}
	err := json.Unmarshal(data, &read)
	r.hosts = read["hosts"]
	return err
}

func (r *routes) DeepCopyInto(out *routes) { *out = routes{hosts: append([]string(nil), r.hosts...)} }

// hidden has fields that its JSON does not show, and no methods.
type hidden struct {
	Name  string `json:"name,omitempty"`
	cache []byte
	state messageState
}

type limit struct {
	Memory resource.Quantity `json:"memory"`
	Tags   []string          `json:"tags"`
}

type unexported struct {
	Shown string `json:"shown,omitempty"`
	shy   int
}

var gateways = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gateways"}

// gatewayHandle is a handle for gateways in client-go's fake API server, which are of the type T.
func gatewayHandle[T kube.Object](t *testing.T) (*kube.Handle[T], *fake.FakeDynamicClient) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{gateways: "GatewayList"})
	reconciletest.GiveIdentities(client)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	handle, err := kube.New[T](client, gateways, factory.ForResource(gateways).Informer(),
		kube.WithFieldManager("shops"), kube.WithKind("Gateway"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	return handle, client
}

func ownedByShop(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{
		controller.OwnerkindAnnotation: "Shop", controller.OwnerKeyAnnotation: "shop/one",
	}}
}

// sent counts the writes that a fake API server was sent.
func sent(client *fake.FakeDynamicClient) (n int) {
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" && verb != "get" {
			n++
		}
	}
	return n
}

// TestCreateOrUpdateSendsWhatChangesTheJSONOfAnObject, and nothing for what only Go's memory holds. No type makes it
// panic. Quantities are compared by what they are, and lists and maps that are empty are as those that are none, as in
// Kubernetes' own comparison of objects.
func TestCreateOrUpdateSendsWhatChangesTheJSONOfAnObject(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	bigOf := func(text string) *big.Int { n, _ := new(big.Int).SetString(text, 10); return n }
	network := func(text string) map[netip.Prefix]string {
		return map[netip.Prefix]string{netip.MustParsePrefix(text): "a"}
	}
	type set = func(*gatewaySpec)
	for name, test := range map[string]struct {
		first, same, other set
		json               string // of the first
	}{
		"a message of protobuf": {
			func(s *gatewaySpec) { s.Routes = &routes{hosts: []string{"a"}} },
			func(s *gatewaySpec) {
				s.Routes = &routes{hosts: []string{"a"}, state: messageState{info: new(int)}, unknownFields: []byte{1}}
			},
			func(s *gatewaySpec) { s.Routes = &routes{hosts: []string{"a", "b"}} },
			`{"routes":{"hosts":["a"]}}`,
		},
		"unexported fields": {
			func(s *gatewaySpec) { s.Hidden = hidden{Name: "a", cache: []byte("x")} },
			func(s *gatewaySpec) { s.Hidden = hidden{Name: "a", state: messageState{info: new(int)}} },
			func(s *gatewaySpec) { s.Hidden = hidden{Name: "b"} },
			`{"hidden":{"name":"a"}}`,
		},
		"a time": {
			func(s *gatewaySpec) { s.At = noon },
			func(s *gatewaySpec) { s.At = time.Unix(noon.Unix(), 0).UTC() },
			func(s *gatewaySpec) { s.At = noon.Add(time.Nanosecond) },
			`{"at":"2026-03-01T12:00:00Z"}`,
		},
		"a Kubernetes time": {
			func(s *gatewaySpec) { s.Since = &metav1.Time{Time: noon} },
			func(s *gatewaySpec) { s.Since = &metav1.Time{Time: noon.Add(time.Millisecond).Local()} },
			func(s *gatewaySpec) { s.Since = &metav1.Time{Time: noon.Add(time.Second)} },
			`{"since":"2026-03-01T12:00:00Z"}`,
		},
		"an address": {
			func(s *gatewaySpec) { s.Address = netip.MustParseAddr("2001:db8::1") },
			func(s *gatewaySpec) { s.Address = netip.MustParseAddr("2001:db8:0::1") },
			func(s *gatewaySpec) { s.Address = netip.MustParseAddr("2001:db8::2") },
			`{"address":"2001:db8::1"}`,
		},
		"keys that are text": {
			func(s *gatewaySpec) { s.Networks = network("192.0.2.0/24") },
			func(s *gatewaySpec) { s.Networks = network("192.0.2.0/24") },
			func(s *gatewaySpec) { s.Networks = network("192.0.2.0/25") },
			`{"networks":{"192.0.2.0/24":"a"}}`,
		},
		"keys that are numbers": {
			func(s *gatewaySpec) { s.Ports = map[int]string{80: "http"} },
			func(s *gatewaySpec) { s.Ports = map[int]string{80: "http"} },
			func(s *gatewaySpec) { s.Ports = map[int]string{443: "https"} },
			`{"ports":{"80":"http"}}`,
		},
		"an array": {
			func(s *gatewaySpec) { s.Pair = [2]int{1, 2} },
			func(s *gatewaySpec) { s.Pair = [2]int{1, 2} },
			func(s *gatewaySpec) { s.Pair = [2]int{2, 1} },
			`{"pair":[1,2]}`,
		},
		"a number in a string": {
			func(s *gatewaySpec) { s.Quoted = 9007199254740992 },
			func(s *gatewaySpec) { s.Quoted = 9007199254740992 },
			func(s *gatewaySpec) { s.Quoted = 9007199254740993 },
			`{"quoted":"9007199254740992"}`,
		},
		"a whole number beyond 2^53": {
			func(s *gatewaySpec) { s.Whole = 9007199254740992 },
			func(s *gatewaySpec) { s.Whole = 9007199254740992 },
			func(s *gatewaySpec) { s.Whole = 9007199254740993 },
			`{"whole":9007199254740992}`,
		},
		"a natural number beyond 2^53": {
			func(s *gatewaySpec) { s.Natural = 9007199254740992 },
			func(s *gatewaySpec) { s.Natural = 9007199254740992 },
			func(s *gatewaySpec) { s.Natural = 9007199254740993 },
			`{"natural":9007199254740992}`,
		},
		"a big number": {
			func(s *gatewaySpec) { s.Size = bigOf("9223372036854775806") },
			func(s *gatewaySpec) { s.Size = bigOf("9223372036854775806") },
			func(s *gatewaySpec) { s.Size = bigOf("9223372036854775807") },
			`{"size":9223372036854775806}`,
		},
		"a quantity in other units": {
			func(s *gatewaySpec) { s.Memory = resource.MustParse("1") },
			func(s *gatewaySpec) { s.Memory = resource.MustParse("1000m") },
			func(s *gatewaySpec) { s.Memory = resource.MustParse("1001m") },
			`{"memory":"1"}`,
		},
		"a quantity in another format": {
			func(s *gatewaySpec) { s.Limits = map[string]limit{"a": {Memory: resource.MustParse("1Gi")}} },
			func(s *gatewaySpec) {
				s.Limits = map[string]limit{"a": {Memory: resource.MustParse("1073741824"), Tags: []string{}}}
			},
			func(s *gatewaySpec) { s.Limits = map[string]limit{"a": {Memory: resource.MustParse("1073741825")}} },
			`{"limits":{"a":{"memory":"1Gi"}}}`,
		},
		"raw JSON": {
			func(s *gatewaySpec) { s.Raw = &runtime.RawExtension{Raw: []byte(`{"n": 1, "m": [9007199254740993]}`)} },
			func(s *gatewaySpec) { s.Raw = &runtime.RawExtension{Raw: []byte(`{"m":[9007199254740993],"n":1}`)} },
			func(s *gatewaySpec) { s.Raw = &runtime.RawExtension{Raw: []byte(`{"m":[9007199254740992],"n":1}`)} },
			`{"raw":{"m":[9007199254740993],"n":1}}`,
		},
		"none and empty": {
			func(s *gatewaySpec) { s.Always, s.Ports = nil, nil },
			func(s *gatewaySpec) { s.Always, s.Ports = []string{}, map[int]string{} },
			func(s *gatewaySpec) { s.Always = []string{""} },
			`{}`,
		},
		"free-form members": {
			func(s *gatewaySpec) { s.Free = map[string]any{"a": 1, "b": []any{int64(9007199254740993), nil}} },
			func(s *gatewaySpec) { s.Free = map[string]any{"a": 1.0, "b": []any{uint64(9007199254740993), nil}} },
			func(s *gatewaySpec) { s.Free = map[string]any{"a": 1, "b": []any{int64(9007199254740992), nil}} },
			`{"free":{"a":1,"b":[9007199254740993,null]}}`,
		},
		"what is embedded": {
			func(s *gatewaySpec) { s.Shown, s.shy = "a", 1 },
			func(s *gatewaySpec) { s.Shown, s.shy = "a", 2 },
			func(s *gatewaySpec) { s.Shown = "b" },
			`{"shown":"a"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			handle, client := gatewayHandle[*gateway](t)
			is := func(change set, want kube.OperationResult) {
				t.Helper()
				obj := &gateway{ObjectMeta: ownedByShop("one")}
				got, err := handle.CreateOrUpdate(t.Context(), obj, func(g *gateway) error {
					change(&g.Spec)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("CreateOrUpdate: %q, want %q", got, want)
				}
			}
			is(test.first, kube.OperationResultCreated)
			stored, err := client.Resource(gateways).Namespace("shop").Get(t.Context(), "one", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if spec, err := json.Marshal(stored.Object["spec"]); err != nil || string(spec) != test.json {
				t.Errorf("sent %s, want %s (%v)", spec, test.json, err)
			}
			for range 2 {
				is(test.first, kube.OperationResultNone)
				is(test.same, kube.OperationResultNone)
			}
			if n := sent(client); n != 1 {
				t.Errorf("%d writes were sent, want the first one only", n)
			}
			is(test.other, kube.OperationResultUpdated)
			is(test.other, kube.OperationResultNone)
			if n := sent(client); n != 2 {
				t.Errorf("%d writes were sent, want two", n)
			}
		})
	}
}

// TestTheSpecOfAnObjectMayBeAMessageOfProtobuf, as in the API of Istio: such a message has state that is not exported.
func TestTheSpecOfAnObjectMayBeAMessageOfProtobuf(t *testing.T) {
	type message = entity.Object[routes, struct{}]
	handle, client := gatewayHandle[*message](t)
	for i, host := range []string{"a", "a", "b"} {
		got, err := handle.CreateOrUpdate(t.Context(), &message{ObjectMeta: ownedByShop("one")}, func(m *message) error {
			m.Spec.hosts = []string{host}
			return nil
		})
		want := []kube.OperationResult{
			kube.OperationResultCreated, kube.OperationResultNone, kube.OperationResultUpdated}[i]
		if err != nil || got != want {
			t.Errorf("host %q: %q, %v; want %q", host, got, err, want)
		}
	}
	if n := sent(client); n != 2 {
		t.Errorf("%d writes were sent, want two", n)
	}
}

// TestCopiedAnnotationsTellNothingOfATTL: when a primary ends is no annotation of what is made for it.
func TestCopiedAnnotationsTellNothingOfATTL(t *testing.T) {
	handle, client := gatewayHandle[*gateway](t)
	primary := ownedByShop("a")
	primary.Annotations[entity.ExpiresAnnotation], primary.Annotations["mine"] = "2026-01-01T00:00:00Z", "m"
	for range 2 {
		obj := &gateway{ObjectMeta: *primary.DeepCopy()}
		if _, err := handle.CreateOrUpdate(t.Context(), obj, func(g *gateway) error {
			g.Annotations = primary.Annotations
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.Resource(gateways).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if annotations := got.GetAnnotations(); annotations[entity.ExpiresAnnotation] != "" || annotations["mine"] != "m" {
		t.Errorf("it has %v", annotations)
	}
	if n := sent(client); n != 1 {
		t.Errorf("%d writes were sent, want 1", n)
	}
}
