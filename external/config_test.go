package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

type things struct{}

func (things) Kind() string                             { return "Thing" }
func (things) List(context.Context) ([]Resource, error) { return nil, nil }
func (things) Delete(context.Context, string) error     { return nil }

func TestConfigureKeepsTheClientAndTheOuterSettingsCount(t *testing.T) {
	client := Configure(Configure(things{}, Config{Interval: 1}), Config{Interval: 2})
	inner, config := Unwrap(client)
	if inner != (things{}) || config.Interval != 2 {
		t.Errorf("Unwrap: %v, %+v", inner, config)
	}
	if inner, config = Unwrap(things{}); inner != (things{}) || config != (Config{}) {
		t.Errorf("Unwrap of a client that was not configured: %v, %+v", inner, config)
	}
	if client.Kind() != "Thing" {
		t.Errorf("Kind is %q", client.Kind())
	}
}

func TestConfigHasDefaultsAndSaysWhatIsWrong(t *testing.T) {
	config, err := Config{}.WithDefaults()
	want := Config{Interval: time.Minute, Timeout: 30 * time.Second, BackoffMin: time.Second, BackoffMax: time.Minute}
	if err != nil || config != want {
		t.Errorf("defaults: %+v, %v; want %+v", config, err, want)
	}
	for name, test := range map[string]struct{ have, want Config }{
		"a short longest backoff shortens the shortest": {Config{BackoffMax: 5}, Config{BackoffMin: 5, BackoffMax: 5}},
		"a long shortest backoff lengthens the longest": {
			Config{BackoffMin: time.Hour},
			Config{BackoffMin: time.Hour, BackoffMax: time.Hour},
		},
		"a rate without burst": {Config{Rate: 2}, Config{Rate: 2, Burst: 1}},
	} {
		config, err := test.have.WithDefaults()
		if err != nil || test.want.BackoffMax != 0 &&
			(config.BackoffMin != test.want.BackoffMin || config.BackoffMax != test.want.BackoffMax) ||
			config.Rate != test.want.Rate || config.Burst != test.want.Burst {
			t.Errorf("%s: %+v, %v", name, config, err)
		}
	}
	_, err = Config{Interval: -1, Timeout: -1, Settle: -1, Burst: 1, BackoffMin: 2, BackoffMax: 1}.WithDefaults()
	for _, word := range []string{"Interval", "Timeout", "Settle", "Burst 1", "BackoffMax"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not name %s", err, word)
		}
	}
}

func TestUnavailableIsWhatWasMarkedOrComesFromTheNetwork(t *testing.T) {
	_, refused := http.Get("http://127.0.0.1:1/")
	_, scheme := url.Parse(string([]byte("http://[::1"))) // put together, because a linter would know the result
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                    {nil, false},
		"marked":                 {fmt.Errorf("list: %w", Unavailable(errors.New("503"))), true},
		"connection refused":     {refused, true},
		"a name without address": {&net.DNSError{Name: "nowhere"}, true},
		"cut off":                {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		"timeout":                {context.DeadlineExceeded, true},
		"cancelled":              {&url.Error{Op: "Get", Err: context.Canceled}, false},
		"a URL that is none":     {scheme, false},
		"an answer":              {errors.New("404 Not Found"), false},
		"another system error":   {syscall.ENOENT, false},
		"refused by the API":     {Refused(errors.New("quota")), false},
	} {
		if got := IsUnavailable(test.err); got != test.want {
			t.Errorf("%s (%v): IsUnavailable is %v, want %v", name, test.err, got, test.want)
		}
	}
	why := errors.New("maintenance")
	err := UnavailableOf("Disk", why)
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, why) ||
		err.Error() != "API of Disk unavailable: maintenance" {
		t.Errorf("UnavailableOf: %v", err)
	}
	if Unavailable(nil) != nil || Refused(nil) != nil ||
		!errors.Is(Refused(why), ErrRefused) || !errors.Is(Refused(why), why) {
		t.Error("nil stays nil, and a mark keeps its error")
	}
}

func TestReconcileOutsideOfAReconcileSaysSo(t *testing.T) {
	_, err := ReconcileAbsent(t.Context(), Driver[int, int](nothing{}))
	if !errors.Is(err, errNoRuntime) || !strings.Contains(err.Error(), "Nothing") {
		t.Errorf("error %v", err)
	}
}

// nothing drives nothing.
type nothing struct{}

func (nothing) Kind() string                                              { return "Nothing" }
func (nothing) Observe(context.Context, Target) (Observation[int], error) { return Absent[int](), nil }
func (nothing) Diff(int, int) []Change                                    { return nil }
func (nothing) Apply(context.Context, ApplyRequest[int, int]) (Outcome, error) {
	return Done(), nil
}
func (nothing) Delete(context.Context, DeleteRequest[int]) (Outcome, error) { return Done(), nil }
