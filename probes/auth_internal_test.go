package probes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// answers asks the handlers of a server as it would serve them, without a socket.
func (s *Server) answers(t *testing.T, path, authorization string) int {
	t.Helper()
	h, err := s.handlers(&gate{auth: s.Auth})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s: it does not say how to authenticate: %v", path, w.Header())
	}
	if again := w.Header().Get("Retry-After"); (w.Code == http.StatusTooManyRequests) != (again == "1") {
		t.Errorf("%s: %d says to ask again after %q", path, w.Code, again)
	}
	return w.Code
}

func served200() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
}

// TestProbesAreOpenAndAllElseAsksForAToken, unless Open says otherwise.
func TestProbesAreOpenAndAllElseAsksForAToken(t *testing.T) {
	s := &Server{Handlers: map[string]http.Handler{
		"/healthz": served200(), "/readyz": served200(), "/metrics": served200(), "/debug/nagi/": served200(),
	}}
	for path := range s.Handlers {
		if code := s.answers(t, path, ""); code != http.StatusOK {
			t.Errorf("%s without Auth: %d", path, code)
		}
	}
	s.Auth = func(r *http.Request, token string) error {
		switch token {
		case "good":
			return nil
		case "known":
			return fmt.Errorf("%w: ask somebody", ErrForbidden)
		case "often":
			return fmt.Errorf("%w: not that often", ErrTooManyRequests)
		case "away":
			return errors.New("the server is away")
		}
		return ErrUnauthenticated
	}
	for _, path := range []string{"/metrics", "/debug/nagi/", "/debug/nagi/kinds"} {
		for authorization, want := range map[string]int{
			"": 401, "Bearer bad": 401, "Basic good": 401, "good": 401, "Bearer good": 200, "bearer  good ": 200,
			"Bearer known": 403, "Bearer often": 429, "Bearer away": 503,
		} {
			if code := s.answers(t, path, authorization); code != want {
				t.Errorf("%s for %q: %d, want %d", path, authorization, code, want)
			}
		}
	}
	for _, open := range [][]string{nil, {}, {"/metrics"}} {
		s.Open = open
		for path := range s.Handlers {
			want := http.StatusUnauthorized
			if open == nil && strings.HasSuffix(path, "z") || len(open) > 0 && path == open[0] {
				want = http.StatusOK
			}
			if code := s.answers(t, path, ""); code != want {
				t.Errorf("%s with Open %v: %d, want %d", path, open, code, want)
			}
		}
	}
	s.Open = []string{"/metric"}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"/metric"`) {
		t.Errorf("a path that is not there: %v", err)
	}
}

// keptLog has what was logged and not read yet.
type keptLog struct {
	mu   sync.Mutex
	text string
}

// logged is a context whose log is kept.
func logged(ctx context.Context) (context.Context, *keptLog) {
	l := &keptLog{}
	logger := funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text += args + "\n"
	}, funcr.Options{})
	return klog.NewContext(ctx, logger), l
}

// read returns what was logged since it was called last.
func (l *keptLog) read() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.text = ""
	return text
}

// TestThatNobodyCanBeAuthenticatedIsToldOnce, and when it is over, not for each request.
func TestThatNobodyCanBeAuthenticatedIsToldOnce(t *testing.T) {
	var away error
	g := &gate{auth: func(*http.Request, string) error { return away }}
	h := g.protect(served200())
	ctx, log := logged(t.Context())
	ask := func(n int) {
		for range n {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
		}
	}
	for range 2 {
		away = errors.New("no answer from 10.0.0.1:443")
		ask(5)
		away = ErrUnauthenticated
		ask(5)
	}
	told := log.read()
	if strings.Count(told, "10.0.0.1") != 2 || strings.Count(told, "authenticated again") != 2 ||
		strings.Count(told, "\n") != 4 {
		t.Errorf("it told\n%s", told)
	}
}

// TestTooManyRequestsAreToldOnceAnHour, also where others are decided between them.
func TestTooManyRequestsAreToldOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, log := logged(t.Context())
		var err error
		h := (&gate{auth: func(*http.Request, string) error { return err }}).protect(served200())
		for range 90 {
			for _, err = range []error{ErrTooManyRequests, nil, ErrUnauthenticated} {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
			}
			time.Sleep(time.Minute)
		}
		if told := log.read(); strings.Count(told, "429") != 2 || strings.Count(told, "\n") != 2 {
			t.Errorf("it told\n%s", told)
		}
	})
}

// TestATokenFileIsReadAgain within a second, with what replaces it; and where it cannot be read, nobody is let in.
func TestATokenFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := TokenFile(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a file that is not there: %v", err)
		}
		write("# none\n\n")
		if _, err := TokenFile(path); err == nil || !strings.Contains(err.Error(), "no token") {
			t.Errorf("a file without a token: %v", err)
		}
		write("# of Prometheus\r\n one \r\ntwo")
		auth, err := TokenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		knows := func(want map[string]error) {
			t.Helper()
			for token, want := range want {
				if err := auth(nil, token); !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("%q: %v, want %v", token, err, want)
				}
			}
		}
		refused := ErrUnauthenticated
		knows(map[string]error{"one": nil, "two": nil, "": refused, "# of Prometheus": refused, "on": refused})
		write("two\nthree\n")
		time.Sleep(time.Second - time.Nanosecond)
		knows(map[string]error{"one": nil, "three": refused})
		time.Sleep(time.Nanosecond)
		knows(map[string]error{"one": refused, "two": nil, "three": nil})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		knows(map[string]error{"two": os.ErrNotExist, "": refused})
		write("two")
		time.Sleep(time.Second)
		knows(map[string]error{"two": nil, "three": refused})
		write("")
		time.Sleep(time.Second)
		knows(map[string]error{"two": refused})
	})
}

// TestTokensOverPlainHTTPAreWarnedAbout, unless they stay on the machine.
func TestTokensOverPlainHTTPAreWarnedAbout(t *testing.T) {
	for address, want := range map[string]bool{"0.0.0.0": true, "10.1.2.3": true, "127.0.0.1": false, "::1": false} {
		for _, plain := range []bool{true, false} {
			ctx, log := logged(t.Context())
			one := &served{what: "handlers", listener: at{&net.TCPAddr{IP: net.ParseIP(address), Port: 1}}}
			one.warn(ctx, plain)
			if got := strings.Contains(log.read(), "Server.TLS"); got != (want && plain) {
				t.Errorf("on %s, plain %t: warned %t", address, plain, got)
			}
		}
	}
}

type at struct{ where net.Addr }

func (a at) Addr() net.Addr          { return a.where }
func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }
