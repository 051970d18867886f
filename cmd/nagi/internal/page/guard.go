package page

import (
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
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
		http.Error(w, "The page is not served under this name: open the address that nagi ui has printed.",
			http.StatusMisdirectedRequest)
		return false
	}
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host {
		http.Error(w, "Another page has asked for this one.", http.StatusForbidden)
		return false
	}
	return true
}

func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// mayAct refuses a request to act that this page's own form did not send.
func (p *Page) mayAct(w http.ResponseWriter, r *http.Request) error {
	refuse := func(why string) error { return &failure{http.StatusForbidden, why} }
	if !p.cfg.Actions {
		return refuse("The page is read-only: nagi ui --allow-actions lets it act.")
	}
	if r.Header.Get("Origin") == "" {
		return refuse("The request does not say which page has sent it (Origin).")
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return &failure{http.StatusBadRequest, "The form cannot be read."}
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(p.token)) != 1 {
		return refuse("Nothing was done: nagi ui was started again since the form was shown. Go back, reload the " +
			"page, and look again.")
	}
	return nil
}
