package controller

import (
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// device is a secondary of types that users have in their specs.
type device = entity.Object[deviceSpec, siteStatus]

type deviceSpec struct {
	At       time.Time               `json:"at,omitzero"`
	Seen     *metav1.Time            `json:"seen,omitempty"`
	Address  netip.Addr              `json:"address,omitzero"`
	Networks map[string]netip.Prefix `json:"networks,omitempty"`
	Hidden   deviceHidden            `json:"hidden,omitzero"`
	Level    deviceLevel             `json:"level,omitempty"`
	Ratio    deviceRatio             `json:"ratio,omitempty"`
	Size     *big.Int                `json:"size,omitempty"`
	Memory   resource.Quantity       `json:"memory,omitzero"`
	Whole    int64                   `json:"whole,omitempty"`
	Natural  uint64                  `json:"natural,omitempty"`
	Factor   float64                 `json:"factor,omitempty"`
	Exact    json.RawMessage         `json:"exact,omitempty"`
	Free     map[string]any          `json:"free,omitempty"`
	Names    []string                `json:"names,omitempty"`
	Labels   map[string]string       `json:"labels,omitempty"`
	Always   []string                `json:"always"`
	deviceBase
	*DevicePlace
	Rest map[string]int64 `json:",embed"`
}

// deviceHidden has a field that its JSON does not show.
type deviceHidden struct {
	Name  string `json:"name,omitempty"`
	cache []string
}

// deviceLevel writes itself as a word, and holds what it does not write.
type deviceLevel struct{ level, reads int }

func (l deviceLevel) MarshalJSON() ([]byte, error) {
	return json.Marshal("level-" + strconv.Itoa(l.level))
}

func (l *deviceLevel) UnmarshalJSON(data []byte) (err error) {
	l.reads++
	l.level, err = strconv.Atoi(strings.TrimPrefix(strings.Trim(string(data), `"`), "level-"))
	return err
}

// deviceRatio is a number that may be none.
type deviceRatio float64

func (r deviceRatio) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(r), 'g', -1, 64), nil
}

func (r *deviceRatio) UnmarshalText(text []byte) error {
	number, err := strconv.ParseFloat(string(text), 64)
	*r = deviceRatio(number)
	return err
}

type deviceBase struct {
	Rack  string         `json:"rack,omitempty"`
	Ports map[string]int `json:"ports,omitempty"`
	slot  int
}

type DevicePlace struct {
	Row string `json:"row,omitempty"`
}

func (w *world) devices() *entity.Client[*device] {
	w.t.Helper()
	client, err := entity.NewClient[*device](w.t.Context(), w.js, entity.Config{
		Kind: "Device", Bucket: "devices", Storage: jetstream.MemoryStorage,
	})
	must(w.t, err)
	w.t.Cleanup(client.Close)
	return client
}

// TestCreateOrUpdateComparesWhatIsWritten: what the document shows, and not what Go holds in memory. So no type makes
// it panic, a wish that is the same writes nothing, and one that differs by as little as the document can show is
// written.
func TestCreateOrUpdateComparesWhatIsWritten(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	big2 := func(text string) *big.Int { n, _ := new(big.Int).SetString(text, 10); return n }
	type set = func(*deviceSpec)
	for name, test := range map[string]struct{ first, same, other set }{
		"a time": {
			func(s *deviceSpec) { s.At = noon },
			func(s *deviceSpec) { s.At = time.Unix(noon.Unix(), 0).UTC() },
			func(s *deviceSpec) { s.At = noon.Add(time.Nanosecond) },
		},
		"a time with a monotonic clock": {
			func(s *deviceSpec) { s.At = testsBegan },
			func(s *deviceSpec) { s.At = testsBegan },
			func(s *deviceSpec) { s.At = testsBegan.Add(time.Hour) },
		},
		"a Kubernetes time, which has seconds": {
			func(s *deviceSpec) { s.Seen = &metav1.Time{Time: noon} },
			func(s *deviceSpec) { s.Seen = &metav1.Time{Time: noon.Add(time.Millisecond).Local()} },
			func(s *deviceSpec) { s.Seen = &metav1.Time{Time: noon.Add(time.Second)} },
		},
		"an address": {
			func(s *deviceSpec) { s.Address = netip.MustParseAddr("192.0.2.1") },
			func(s *deviceSpec) { s.Address = netip.MustParseAddr("192.0.2.1") },
			func(s *deviceSpec) { s.Address = netip.MustParseAddr("192.0.2.2") },
		},
		"networks": {
			func(s *deviceSpec) { s.Networks = map[string]netip.Prefix{"a": netip.MustParsePrefix("192.0.2.0/24")} },
			func(s *deviceSpec) { s.Networks = map[string]netip.Prefix{"a": netip.MustParsePrefix("192.0.2.0/24")} },
			func(s *deviceSpec) { s.Networks = map[string]netip.Prefix{"a": netip.MustParsePrefix("192.0.2.0/25")} },
		},
		"an unexported field": {
			func(s *deviceSpec) { s.Hidden = deviceHidden{Name: "a", cache: []string{"one"}} },
			func(s *deviceSpec) { s.Hidden = deviceHidden{Name: "a", cache: []string{"two"}} },
			func(s *deviceSpec) { s.Hidden = deviceHidden{Name: "b"} },
		},
		"its own MarshalJSON": {
			func(s *deviceSpec) { s.Level = deviceLevel{level: 1} },
			func(s *deviceSpec) { s.Level = deviceLevel{level: 1, reads: 7} },
			func(s *deviceSpec) { s.Level = deviceLevel{level: 2} },
		},
		"no number": {
			func(s *deviceSpec) { s.Ratio = deviceRatio(math.NaN()) },
			func(s *deviceSpec) { s.Ratio = deviceRatio(math.NaN()) },
			func(s *deviceSpec) { s.Ratio = deviceRatio(math.Inf(1)) },
		},
		"a big number": {
			func(s *deviceSpec) { s.Size = big2("340282366920938463463374607431768211456") },
			func(s *deviceSpec) { s.Size = big2("340282366920938463463374607431768211456") },
			func(s *deviceSpec) { s.Size = big2("340282366920938463463374607431768211457") },
		},
		"a big zero": {
			func(s *deviceSpec) { s.Size = new(big.Int) },
			func(s *deviceSpec) { s.Size = new(big.Int).SetBits([]big.Word{}) },
			func(s *deviceSpec) { s.Size = nil },
		},
		"a quantity": {
			func(s *deviceSpec) { s.Memory = resource.MustParse("1") },
			func(s *deviceSpec) { s.Memory = resource.MustParse("1000m") },
			func(s *deviceSpec) { s.Memory = resource.MustParse("1001m") },
		},
		"a whole number beyond 2^53": {
			func(s *deviceSpec) { s.Whole = 9007199254740992 },
			func(s *deviceSpec) { s.Whole = 9007199254740992 },
			func(s *deviceSpec) { s.Whole = 9007199254740993 },
		},
		"a natural number beyond 2^63": {
			func(s *deviceSpec) { s.Natural = math.MaxUint64 },
			func(s *deviceSpec) { s.Natural = math.MaxUint64 },
			func(s *deviceSpec) { s.Natural = math.MaxUint64 - 1 },
		},
		"a fraction": {
			func(s *deviceSpec) { s.Factor = 0.1 },
			func(s *deviceSpec) { s.Factor = 0.1 },
			func(s *deviceSpec) { s.Factor = math.Nextafter(0.1, 1) },
		},
		"raw JSON": {
			func(s *deviceSpec) { s.Exact = []byte(`{"n": 1e3, "m": [9007199254740993]}`) },
			func(s *deviceSpec) { s.Exact = []byte(`{"m": [9007199254740993], "n": 1000.0}`) },
			func(s *deviceSpec) { s.Exact = []byte(`{"n": 1e3, "m": [9007199254740992]}`) },
		},
		"free-form members": {
			func(s *deviceSpec) { s.Free = map[string]any{"a": 1, "b": []any{json.RawMessage("1.50"), nil}} },
			func(s *deviceSpec) { s.Free = map[string]any{"a": 1.0, "b": []any{1.5, nil}} },
			func(s *deviceSpec) { s.Free = map[string]any{"a": 2} },
		},
		"none and empty, where empty is left out": {
			func(s *deviceSpec) { s.Names, s.Labels = nil, nil },
			func(s *deviceSpec) { s.Names, s.Labels = []string{}, map[string]string{} },
			func(s *deviceSpec) { s.Names = []string{""} },
		},
		"null and empty, where both are written": {
			func(s *deviceSpec) { s.Always = nil },
			func(s *deviceSpec) { s.Always = nil },
			func(s *deviceSpec) { s.Always = []string{} },
		},
		"members of what is embedded": {
			func(s *deviceSpec) { s.Rack, s.slot, s.DevicePlace = "a", 1, nil },
			func(s *deviceSpec) { s.Rack, s.slot, s.DevicePlace = "a", 2, &DevicePlace{} },
			func(s *deviceSpec) { s.DevicePlace = &DevicePlace{Row: "b"} },
		},
		"members that a map takes": {
			func(s *deviceSpec) { s.Rest = map[string]int64{"r": 9007199254740992} },
			func(s *deviceSpec) { s.Rest = map[string]int64{"r": 9007199254740992} },
			func(s *deviceSpec) { s.Rest = map[string]int64{"r": 9007199254740993} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			devices := w.devices()
			is := func(change set, want OperationResult) {
				t.Helper()
				obj := &device{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
				got, err := CreateOrUpdate(t.Context(), devices, obj, func(d *device) error {
					change(&d.Spec)
					return nil
				})
				must(t, err)
				if got != want {
					t.Errorf("CreateOrUpdate: %q, want %q", got, want)
				}
			}
			is(test.first, OperationResultCreated)
			for range 2 {
				is(test.first, OperationResultNone)
				is(test.same, OperationResultNone)
			}
			if n := w.lastSequence("devices"); n != 1 {
				t.Errorf("%d messages were written, want the first one only", n)
			}
			is(test.other, OperationResultUpdated)
			is(test.other, OperationResultNone)
			if n := w.lastSequence("devices"); n != 2 {
				t.Errorf("%d messages were written, want two", n)
			}
		})
	}
}

// testsBegan has a reading of the monotonic clock, which no JSON has.
var testsBegan = time.Now()

func TestCreateOrUpdateRefusesANumberThatJSONDoesNotHave(t *testing.T) {
	w := newWorld(t)
	devices := w.devices()
	set := func(factor float64) error {
		_, err := CreateOrUpdate(t.Context(), devices, &device{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
			func(d *device) error { d.Spec.Factor = factor; return nil })
		return err
	}
	must(t, set(1))
	for _, factor := range []float64{math.NaN(), math.Inf(-1)} {
		if err := set(factor); !apierrors.IsInvalid(err) {
			t.Errorf("%v: %v", factor, err)
		}
	}
	must(t, set(1))
	if n := w.lastSequence("devices"); n != 1 {
		t.Errorf("%d messages were written, want one", n)
	}
}

// TestAMutateMayChangeWhatItReadInPlace: that is not the cache's memory, nor what the change is compared with.
func TestAMutateMayChangeWhatItReadInPlace(t *testing.T) {
	w := newWorld(t)
	devices := w.devices()
	add := func() OperationResult {
		t.Helper()
		result, err := CreateOrUpdate(t.Context(), devices, &device{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
			func(d *device) error {
				if d.Spec.Size == nil {
					d.Spec.Size = new(big.Int).Lsh(big.NewInt(1), 100)
				}
				d.Spec.Size.Add(d.Spec.Size, big.NewInt(1))
				return nil
			})
		must(t, err)
		return result
	}
	open := func() OperationResult {
		t.Helper()
		result, err := CreateOrUpdate(t.Context(), devices, &device{ObjectMeta: metav1.ObjectMeta{Name: "two"}},
			func(d *device) error {
				if d.Spec.Ports == nil {
					d.Spec.Ports = map[string]int{}
				}
				d.Spec.Ports["http"]++
				return nil
			})
		must(t, err)
		return result
	}
	if first, second := open(), open(); first != OperationResultCreated || second != OperationResultUpdated {
		t.Errorf("in what is embedded: %q, then %q", first, second)
	}
	if first, second := add(), add(); first != OperationResultCreated || second != OperationResultUpdated {
		t.Errorf("%q, then %q", first, second)
	}
	got, err := devices.Get(t.Context(), "one")
	must(t, err)
	if want := "1267650600228229401496703205378"; got.Spec.Size.String() != want {
		t.Errorf("stored %s, want %s", got.Spec.Size, want)
	}
}

// TestANumberThatTheTypeRoundsIsNotWrittenForEver: what was written stays, since one more write would not make the type
// read another number.
func TestANumberThatTheTypeRoundsIsNotWrittenForEver(t *testing.T) {
	for name, number := range map[string]any{
		"a whole one": int64(9007199254740993), "a natural one": uint64(9007199254740993),
		"a fraction": json.RawMessage("0.1000000000000000055511151231257827"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			devices := w.devices()
			for i := range 3 {
				result, err := CreateOrUpdate(t.Context(), devices, &device{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
					func(d *device) error { d.Spec.Free = map[string]any{"id": number}; return nil })
				must(t, err)
				if want := []OperationResult{OperationResultCreated, OperationResultNone, OperationResultNone}[i]; result != want {
					t.Errorf("call %d: %q, want %q", i, result, want)
				}
			}
		})
	}
}
