package page

import (
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// policy lets a browser load what this server serves, and nothing else: no text of others becomes a script, a style, a
// picture or a form that leads elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard sets the headers of each answer, and refuses what did not come for this page.
func (p *Page) guard(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a browser hides where the page's own forms come from
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(p.cfg.Hosts, hostOf(r.Host)) {
		http.Error(w, "The page is not served under this name. It is under "+strings.Join(p.cfg.Hosts, ", ")+
			": open it there, or have it served under this name too (nagi ui --listen, Config.Hosts of package "+
			"livepage).",
			http.StatusMisdirectedRequest)
		return false
	}
	origin, own := r.Header.Get("Origin"), origins(r)
	if origin != "" && !slices.Contains(own, origin) {
		http.Error(w, "Nothing was done: the request says that a page at "+printable.Quote(origin)+" has sent it, "+
			"and this page is at "+printable.Text(strings.Join(own, " or "))+". If it was this page, a proxy between "+
			"it and the browser has changed the header Host: have it pass on the one that the browser sends, with the "+
			"port (nginx: proxy_set_header Host $http_host), and have the page served under that name.",
			http.StatusForbidden)
		return false
	}
	return true
}

// origins are those of this page, as a browser names them. Over plain HTTP a proxy may be between them that does TLS.
func origins(r *http.Request) []string {
	if r.TLS != nil {
		return []string{"https://" + r.Host}
	}
	return []string{"http://" + r.Host, "https://" + r.Host}
}

func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

var errReadOnly = &failure{http.StatusForbidden, "The page is read-only: nagi ui --allow-actions, or " +
	"Config.AllowActions of package livepage, lets it act."}

// mayAct refuses a request to act that this page's own form did not send.
func (p *Page) mayAct(w http.ResponseWriter, r *http.Request) error {
	refuse := func(why string) error { return &failure{http.StatusForbidden, why} }
	if !p.cfg.Actions {
		return errReadOnly
	}
	if r.Header.Get("Origin") == "" {
		return refuse("The request does not say which page has sent it (Origin).")
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return &failure{http.StatusBadRequest, "The form cannot be read."}
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(p.token)) != 1 {
		return refuse("Nothing was done: what serves the page was started again since the form was shown. Go back, " +
			"reload the page, and look again.")
	}
	return nil
}
