package recorder

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nagi-runtime/nagi/recorder"
)

// roundTripper is a function that stands between a client and the API server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recorderOnABadDay gets, for its first write, what spoil returns instead of the server's answer. If ask is false, the
// server was not even asked. All later writes pass.
func recorderOnABadDay(t *testing.T, ask bool, spoil func() (*http.Response, error)) *recorder.Recorder {
	t.Helper()
	cfg := shared.Config()
	var spoiled atomic.Bool
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || !spoiled.CompareAndSwap(false, true) {
				return next.RoundTrip(r)
			}
			if ask {
				response, err := next.RoundTrip(r)
				if err != nil {
					return nil, err
				}
				response.Body.Close()
			}
			return spoil()
		})
	}
	return newRecorder(t, recorder.Config{Clientset: client(t, cfg)})
}

func TestAnEventWhoseAnswerWasLostIsThereOnceAndIsRepeatedWithACount(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := recorderOnABadDay(t, true, func() (*http.Response, error) { return nil, errors.New("connection reset by peer") })
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

func TestAnAPIServerThatIsBusyIsAskedAgain(t *testing.T) {
	t.Parallel()
	clientset := client(t, shared.Config())
	ns := namespace(t, clientset)
	web := deployment(t, clientset, ns, "web")
	rec := recorderOnABadDay(t, false, func() (*http.Response, error) {
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd is away","reason":"ServiceUnavailable","code":503}`
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(body)),
		}, nil
	})
	rec.Event(web, corev1.EventTypeNormal, "Synced", "done")
	flush(t, rec)
	if found := events(t, clientset, ns, web); len(found) != 1 {
		t.Errorf("%+v", found)
	}
	if s := rec.Stats().Kubernetes; s.Published != 1 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}
