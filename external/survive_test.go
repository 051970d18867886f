package external

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Ports []int             `json:"ports,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
}

type wanted struct {
	inner
	Name   string            `json:"name"`
	Secret string            `json:"-"`
	Since  time.Time         `json:"since"`
	Addr   netip.Addr        `json:"addr"`
	Next   *wanted           `json:"next,omitempty"`
	Extra  map[string]any    `json:"extra,omitempty"`
	Many   map[string]wanted `json:"many,omitempty"`
	hidden int
}

func TestReconcileRefusesADesiredThatIsLostWhenItIsWrittenDown(t *testing.T) {
	for name, test := range map[string]struct {
		desired wanted
		field   string // "": it survives
	}{
		"all that JSON has": {wanted{
			inner: inner{Ports: []int{1}, Tags: map[string]string{"a": "b"}},
			Name:  "x", Since: time.Now(), Addr: netip.MustParseAddr("::1"),
			Next: &wanted{Name: "y"}, Extra: map[string]any{"size": int64(9007199254740993)}, Many: map[string]wanted{"z": {}},
		}, ""},
		"empty becomes nil": {wanted{inner: inner{Ports: []int{}, Tags: map[string]string{}}}, ""},
		"not encoded":       {wanted{Secret: "hush"}, "external.wanted.Secret"},
		"not exported":      {wanted{hidden: 1}, "external.wanted.hidden"},
		"behind a pointer":  {wanted{Next: &wanted{Secret: "hush"}}, "external.wanted.Next.Secret"},
		"in a map": {
			wanted{Many: map[string]wanted{"z": {Secret: "hush"}}}, "external.wanted.Many[z].Secret",
		},
		"set, though to zero": {wanted{}, ""},
	} {
		_, err := Reconcile(t.Context(), Driver[wanted, int](uncalled{}), test.desired)
		if test.field == "" && err != nil && !strings.Contains(err.Error(), errNoRuntime.Error()) {
			t.Errorf("%s: %v", name, err)
		}
		if test.field != "" && (err == nil || !strings.Contains(err.Error(), test.field+" is not in its JSON")) {
			t.Errorf("%s: error %v does not name %s", name, err, test.field)
		}
	}
}

// uncalled is never called.
type uncalled struct{ Driver[wanted, int] }

func (uncalled) Kind() string { return "Wanted" }
