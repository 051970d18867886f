package recorder

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/recorder/kuberecorder"
)

// roundTripper is a function that stands between a client and the API server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recorderOnBadDays makes a recorder. For its first writes it gets the results of spoil, one each, instead of the
// server's answers. If ask is false, those writes do not reach the server. Where spoil is nil, and later, writes pass.
func recorderOnBadDays(t *testing.T, ask bool, spoil ...func() (*http.Response, error)) *recorder.Recorder {
	t.Helper()
	cfg := shared.Config()
	var writes atomic.Int32
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return next.RoundTrip(r)
			}
			write := int(writes.Add(1))
			if write > len(spoil) || spoil[write-1] == nil {
				return next.RoundTrip(r)
			}
			if ask {
				response, err := next.RoundTrip(r)
				if err != nil {
					return nil, err
				}
				response.Body.Close()
			}
			return spoil[write-1]()
		})
	}
	return newRecorder(t, recorder.Config{Kubernetes: kuberecorder.New(client(t, cfg))})
}

func reset() (*http.Response, error) { return nil, errors.New("connection reset by peer") }

// answer returns the answer of an API server that refuses a request.
func answer(code int, reason metav1.StatusReason) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		body := fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"spoilt","reason":%q,"code":%d}`,
			reason, code)
		return &http.Response{
			StatusCode: code,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

func TestAnEventWhoseAnswerWasLostIsThereOnceAndIsRepeatedWithACount(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := recorderOnBadDays(t, true, reset)
	for range 3 {
		rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	}
	flush(t, rec)
	if found := events(t, clientset, ns, web); len(found) != 1 || found[0].Count != 3 {
		t.Errorf("%+v", found)
	}
	if s := rec.Stats().Kubernetes; s.Published != 3 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAnAPIServerThatIsNotItselfIsAskedAgain(t *testing.T) {
	t.Parallel()
	forbidden := answer(http.StatusForbidden, metav1.StatusReasonForbidden)
	for name, answers := range map[string][]func() (*http.Response, error){
		"busy":                          {answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		"etcd changes its leader":       {answer(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		"has started unnoticed":         {forbidden, forbidden},
		"starts, no rules loaded yet":   {reset, forbidden},
		"starts, no tokens loaded yet":  {reset, answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)},
		"starts behind a load balancer": {answer(http.StatusServiceUnavailable, ""), forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clientset := client(t, shared.Config())
			ns := namespace(t, clientset)
			web := deployment(t, clientset, ns, "web")
			rec := recorderOnBadDays(t, false, answers...)
			rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
			flush(t, rec)
			if found := events(t, clientset, ns, web); len(found) != 1 {
				t.Errorf("%+v", found)
			}
			if s := rec.Stats().Kubernetes; s.Published != 1 || s.Failed != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A refusal is final if the server has just taken another event. Else one missing right would hold up all events.
func TestARefusalHoldsUpNoOtherEvents(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := recorderOnBadDays(t, false, nil, answer(http.StatusForbidden, metav1.StatusReasonForbidden))
	for _, reason := range []string{"Created", "Refused", "Synced"} {
		rec.Event(web, corev1.EventTypeNormal, reason, "done")
	}
	flush(t, rec)
	if s := rec.Stats().Kubernetes; s.Published != 2 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}
