package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/internal/printable"
)

// news wakes who waits for a change.
type news struct {
	mu      sync.Mutex
	changed chan struct{} // closed with the next change
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

const (
	// pushInterval is how often a view is looked at while things change, at most, and lookInterval how often while
	// nothing is known to: controllers tell of themselves only when they are asked.
	pushInterval = time.Second
	lookInterval = 5 * time.Second
	pushPatience = 30 * time.Second
)

// live follows a view: it sends each fragment when it has changed, as server-sent events. The first ones bring a
// browser that was cut off back to what is.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	at, err := url.Parse(r.URL.Query().Get("view"))
	if err != nil || !strings.HasPrefix(at.Path, "/") || at.Host != "" {
		http.Error(w, "view is not an address of this page", http.StatusBadRequest)
		return
	}
	select {
	case p.viewers <- struct{}{}:
		defer func() { <-p.viewers }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "Too many follow this page.", http.StatusServiceUnavailable)
		return
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	sent := map[string]string{}
	for {
		changed := p.news.next()
		_ = out.SetWriteDeadline(time.Now().Add(pushPatience)) // who reads no more leaves his place to others
		if p.push(w, r, at, sent) != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		case <-time.After(pushInterval):
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		case <-changed:
		case <-time.After(lookInterval):
		}
	}
}

// push sends the fragments that are not as they were sent. A view that cannot be read now is told as one, too.
func (p *Page) push(w http.ResponseWriter, r *http.Request, at *url.URL, sent map[string]string) error {
	v, err := p.view(r.Context(), at, true)
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	if err != nil {
		return send(w, "trouble", sentence(err))
	}
	for _, part := range v.Parts {
		html, err := p.render(part.Template, part.Data)
		if err != nil {
			return err
		}
		// Ages go on by themselves in the browser.
		same := ages.ReplaceAllString(string(html), "$1")
		if sent[part.ID] == same {
			continue
		}
		sent[part.ID] = same
		if err := send(w, "fragment", map[string]string{"id": part.ID, "html": string(html)}); err != nil {
			return err
		}
	}
	return send(w, "seen", v.Now.UTC().Format(time.RFC3339))
}

// sentence is an error as one.
func sentence(err error) string {
	return strings.TrimSuffix(printable.Message(err.Error()), ".") + "."
}

// ages are the texts that tell how long ago or ahead something is.
var ages = regexp.MustCompile(`(<time [^>]*>)[^<]*`)

func send(w http.ResponseWriter, name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
	return err
}
