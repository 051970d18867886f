package page

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// view is what one address shows: some of it for good, and the fragments that follow changes.
type view struct {
	Title   string
	At      string // which entry of the navigation it is
	Head    any    // what does not change, for the template that Template names
	Heading string // the template of that; "" if there is none
	Parts   []part
	Failed  bool // it is no view: what went wrong is shown, and it is loaded again when that is over
	Actions bool
	Query   string // of the address, to follow it
	Now     time.Time
}

// part is a fragment. Its template makes one element that has the id.
type part struct {
	ID, Template string
	Data         any
}

// view reads what an address shows; live, what of it follows changes.
func (p *Page) view(ctx context.Context, at *url.URL, live bool) (*view, error) {
	if err := p.disconnected(); err != nil {
		return nil, err
	}
	v := &view{Actions: p.cfg.Actions, Query: at.RequestURI(), Now: time.Now()}
	v.Parts = append(v.Parts, part{"banner", "banner", p.brakes()})
	path := strings.Trim(at.EscapedPath(), "/")
	first, rest, _ := strings.Cut(path, "/")
	var err error
	switch {
	case path == "":
		err = p.overview(v)
	case path == "waits":
		err = p.waiting(ctx, v)
	case path == "kinds":
		err = p.listKinds(ctx, v)
	case first == "brake" && rest != "":
		err = p.showBrake(ctx, v, unescaped(rest), at.Query().Get("did"), live)
	case first == "delete" && strings.Contains(rest, "/"):
		name, key, _ := strings.Cut(rest, "/")
		err = p.showDelete(ctx, v, unescaped(name), unescaped(key), live)
	case first == "kinds":
		name, key, _ := strings.Cut(rest, "/")
		if key == "" {
			err = p.listDocuments(ctx, v, unescaped(name), at.Query())
		} else {
			err = p.showObject(ctx, v, unescaped(name), unescaped(key), at.Query().Get("did"))
		}
	default:
		err = errNoPage
	}
	return v, err
}

// disconnected is an error while there is no connection: nothing can be read then, and each question would wait.
func (p *Page) disconnected() error {
	if p.cfg.Conn.IsConnected() {
		return nil
	}
	return &failure{http.StatusServiceUnavailable, "There is no connection to NATS; it is made again as soon as the " +
		"server can be reached."}
}

func unescaped(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

var errNoPage = &failure{http.StatusNotFound, "There is no such page."}

// failure is an error with the code of its answer.
type failure struct {
	code int
	says string
}

func (f *failure) Error() string { return f.says }

// failed is what went wrong, and where to go on.
type failed struct{ Says, Back string }

// fail answers with what went wrong. back is where its user was; "" if that is not known.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error, back string) {
	v := &view{Title: "It did not work", Actions: p.cfg.Actions, Now: time.Now()}
	v.Parts = []part{{"failed", "failed", failed{printable.Message(err.Error()), back}}}
	code := codeOf(err)
	if r.Method == http.MethodGet && code >= http.StatusInternalServerError {
		v.Failed, v.Query = true, r.URL.RequestURI()
	}
	p.respond(w, code, v)
}

func codeOf(err error) int {
	switch e := err.(type) {
	case *failure:
		return e.code
	case *ask.Refused:
		if e.Body.Code >= 400 && e.Body.Code < 600 {
			return e.Body.Code
		}
	case *ask.NoAnswer:
		return http.StatusServiceUnavailable
	}
	if apierrors.IsNotFound(err) {
		return http.StatusNotFound
	}
	if apierrors.IsInvalid(err) {
		return http.StatusBadRequest
	}
	return http.StatusBadGateway
}
