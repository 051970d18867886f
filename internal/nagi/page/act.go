package page

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/ask"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// act is something that the page can do, or ask a controller for.
type act struct {
	did   string // what is said when it was done
	brake bool   // it is about the brake, and names what it holds
}

// acts are all of them, by their verbs of the services API; a document the page deletes itself.
var acts = map[string]act{
	"reconcile":     {did: "It is reconciled now."},
	"unpark":        {did: "It is tried again."},
	"suspend":       {did: "It is suspended: its controller leaves it alone until it is resumed."},
	"resume":        {did: "It is resumed."},
	"brake-release": {did: "What was held goes on.", brake: true},
	"brake-restore": {did: "The documents were put back.", brake: true},
	"delete":        {did: "It is deleted. What it owned goes as its controllers take it down."},
}

// act does what a form asks for, and shows what it was about again.
func (p *Page) act(w http.ResponseWriter, r *http.Request) {
	if err := p.mayAct(w, r); err != nil {
		p.fail(w, r, err, "")
		return
	}
	verb := r.PostForm.Get("do")
	a, known := acts[verb]
	if !known {
		p.fail(w, r, &failure{http.StatusBadRequest, "There is no such act."}, "")
		return
	}
	do := func(ctx context.Context, form url.Values) (string, error) { return p.do(ctx, verb, a, form) }
	if verb == "delete" {
		do = p.delete
	}
	back, err := do(r.Context(), r.PostForm)
	if err != nil {
		p.fail(w, r, err, back)
		return
	}
	p.news.tell()
	http.Redirect(w, r, p.at(back)+"?did="+verb, http.StatusSeeOther)
}

var errNoCount = &failure{http.StatusBadRequest, "How many? Write the number that the page shows."}

// do asks a controller, and returns where its effect is seen; "" with an error that comes before that is known.
func (p *Page) do(ctx context.Context, verb string, a act, form url.Values) (back string, err error) {
	found, err := p.kinds(ctx)
	if err != nil {
		return "", err
	}
	name, there := unescapedForm(form.Get("controller")), false
	for _, e := range found.Entries {
		for _, c := range e.Controllers {
			there = there || c.Name == name
		}
	}
	if !there {
		return "", &failure{http.StatusNotFound, "The registry has no controller " + printable.Quote(name) + "."}
	}
	var request any
	if a.brake {
		back = brakePath(name)
		count, err := strconv.Atoi(strings.TrimSpace(form.Get("count")))
		if err != nil || count < 0 {
			return back, errNoCount
		}
		engagement := form.Get("engagement")
		request = service.BrakeRequest{Engagement: engagement, Count: &count}
		if verb == "brake-release" {
			request = service.BrakeReleaseRequest{Engagement: engagement, Count: &count, List: form.Get("list")}
		}
	} else {
		kind, err := p.kind(ctx, form.Get("kind"))
		if err != nil {
			return "", err
		}
		back = pathOf(kind.Name(), form.Get("key"))
		request = service.KeyRequest{Key: form.Get("key")}
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	return back, p.controller(name).Do(ctx, ask.Act, verb, "", request, nil)
}

func unescapedForm(s string) string {
	text, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return text
}
