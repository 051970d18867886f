package probes

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nagi-runtime/nagi/internal/printable"
	"k8s.io/klog/v2"
)

// Auth decides whether a request is answered: it is if the error is nil. token is that of the header "Authorization:
// Bearer …", and "" without one. An error for which errors.Is says ErrUnauthenticated is answered with status 401, one
// for which it says ErrForbidden with 403, or ErrTooManyRequests with 429, and its text. Any other says that it cannot
// be decided now: it is logged, and answered with 503. An Auth may be called concurrently, and must end when the
// context of the request does.
//
// TokenFile makes one of a file of tokens, and package probes/kubeauth one that asks a Kubernetes API server. Where a
// Server has TLS with a ClientCA, the certificate of the client is verified by then: r.TLS.PeerCertificates[0].
type Auth func(r *http.Request, token string) error

// What an Auth says of a request that is not answered.
var (
	// ErrUnauthenticated: it is not known who asks.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrForbidden: who asks is known, and may not.
	ErrForbidden = errors.New("forbidden")
	// ErrTooManyRequests: more is asked than can be decided now, and who asks may ask again in a second.
	ErrTooManyRequests = errors.New("too many requests")
)

// openPaths are those that Server.Open means if it is nil.
var openPaths = []string{"/healthz", "/readyz"}

// gate lets requests through to handlers.
type gate struct {
	auth  Auth   // nil if there is none
	certs *certs // nil without TLS

	mu   sync.Mutex
	told notify.Fact // that it could not be decided
	many notify.Fact // that there were too many requests
}

// remindMany is how long the log says no more of too many requests: those that are decided come between them.
const remindMany = time.Hour

// guards reports whether it may refuse a request.
func (g *gate) guards() bool { return g.auth != nil || g.certs != nil && g.certs.ClientCA != "" }

// protect returns a handler that answers those alone who may ask.
func (g *gate) protect(h http.Handler) http.Handler {
	if !g.guards() {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.decide(r)
		switch {
		case err == nil:
			h.ServeHTTP(w, r)
		case errors.Is(err, ErrUnauthenticated):
			if g.auth != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, printable.Message(err.Error()), http.StatusUnauthorized)
		case errors.Is(err, ErrForbidden):
			http.Error(w, printable.Message(err.Error()), http.StatusForbidden)
		case errors.Is(err, ErrTooManyRequests):
			w.Header().Set("Retry-After", "1")
			http.Error(w, printable.Message(err.Error()), http.StatusTooManyRequests)
		default:
			http.Error(w, "whether you may ask cannot be decided now: the log of this process says why",
				http.StatusServiceUnavailable)
		}
	})
}

func (g *gate) decide(r *http.Request) error {
	if g.certs != nil {
		if err := g.certs.verifyClient(r.TLS); err != nil {
			return err
		}
	}
	if g.auth == nil {
		return nil
	}
	err := g.auth(r, bearer(r))
	if err != nil && r.Context().Err() != nil {
		return err // who asked has gone
	}
	decided := err == nil || errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrForbidden)
	g.mu.Lock()
	defer g.mu.Unlock()
	log := printable.Logger(klog.FromContext(r.Context()))
	switch {
	case errors.Is(err, ErrTooManyRequests):
		if g.many.Remind("", remindMany) {
			log.Info("Warning: more requests come than can be authenticated, and some get status 429. Who asks that "+
				"often? Let only those reach the port who are to, by a NetworkPolicy for instance",
				"path", r.URL.Path, "from", r.RemoteAddr, "reason", err.Error())
		}
	case decided && g.told.Over():
		log.Info("Requests are authenticated again")
	case !decided && g.told.Tell(notify.ButNumbers(err.Error())):
		log.Error(err, "Requests cannot be authenticated, and are refused", "path", r.URL.Path)
	}
	return err
}

// bearer is the token of a request.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// tokenFileAge is how long what a token file says is believed.
const tokenFileAge = time.Second

// TokenFile is an Auth that knows tokens from a file: one a line, without spaces around it; empty lines and those that
// begin with # mean nothing. Who has one may ask for everything. The file is read again when a request comes a second
// or more after the last time, so a token is taken away by writing the file without it. Where the file cannot be read,
// nobody is let in until it can.
//
// TokenFile returns an error if the file cannot be read now, or has no token.
func TokenFile(path string) (Auth, error) {
	f := &tokenFile{path: path}
	if err := f.read(); err != nil {
		return nil, err
	}
	if len(f.tokens) == 0 {
		return nil, fmt.Errorf("probes: token file %s has no token: write one into it, one a line", path)
	}
	return f.auth, nil
}

type tokenFile struct {
	path string

	mu     sync.Mutex
	at     time.Time
	tokens [][sha256.Size]byte
	err    error
}

// read reads the file, unless it was read just now.
func (f *tokenFile) read() error {
	if !f.at.IsZero() && time.Since(f.at) < tokenFileAge {
		return f.err
	}
	text, err := os.ReadFile(f.path)
	f.at, f.tokens, f.err = time.Now(), nil, nil
	if err != nil {
		f.err = fmt.Errorf("probes: token file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			f.tokens = append(f.tokens, sha256.Sum256([]byte(line)))
		}
	}
	return f.err
}

func (f *tokenFile) auth(_ *http.Request, token string) error {
	if token == "" {
		return fmt.Errorf("%w: a bearer token is needed", ErrUnauthenticated)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return err
	}
	given, known := sha256.Sum256([]byte(token)), 0
	for _, one := range f.tokens { // all of them, so that the time tells nothing
		known |= subtle.ConstantTimeCompare(given[:], one[:])
	}
	if known == 0 {
		return fmt.Errorf("%w: the token is not known", ErrUnauthenticated)
	}
	return nil
}
