package page

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/recorder"
	"github.com/nagi-runtime/nagi/service"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// why is what a controller says of a key.
type why struct {
	Controller string
	Err        string
	controller.Explanation
}

// writing is the document beside what is written of it.
type writing struct {
	Document   string // as YAML, without secrets
	Gone       bool
	Revision   uint64
	Phase      string
	Bad        bool
	Conditions []condition
	Status     string
	Observed   string
	Err        string

	Suspended     bool // by its annotation, and why
	SuspendReason string
}

type condition struct {
	Type, Status, Reason, Message string
	Bad                           bool
	Since                         time.Time
}

type eventRow struct {
	Type, Reason, Message, From string
	Bad                         bool
	Count                       int
	Last                        time.Time
}

type events struct {
	Events []eventRow
	Err    string
	read   time.Time
}

// objectHead has what does not change: where one is, and what was done.
type objectHead struct{ Kind, Path, Key, Did string }

func (p *Page) showObject(ctx context.Context, v *view, name, key, did string) error {
	kind, err := p.kind(ctx, name)
	if err != nil {
		return err
	}
	cfg := kind.Config()
	if err := cfg.CheckKey(key); err != nil {
		return err
	}
	v.Title, v.At = nameOf(kind, key), "kinds"
	head := objectHead{
		Kind: printable.Text(kind.Name()), Path: pathOf(kind.Name(), ""), Key: printable.Text(key), Did: acts[did].did,
	}
	var asked []why
	for _, c := range kind.Controllers {
		asked = append(asked, p.why(ctx, c.Name, kind, key))
	}
	v.Heading, v.Head = "objecthead", head
	written, err := p.writing(ctx, kind, key)
	if err != nil {
		return err
	}
	if p.cfg.Actions {
		v.Parts = append(v.Parts, part{"acts", "acts", p.offersOf(kind, key, &written, asked)})
	}
	v.Parts = append(v.Parts, part{"why", "why", asked}, part{"writing", "writing", written},
		part{"attempts", "attempts", attemptsOf(asked, &written)},
		part{"tree", "tree", p.treeOf(ctx, kind, key)}, part{"events", "events", p.eventsOf(ctx, kind, key)},
		part{"writes", "writes", p.writesOf(ctx, kind, key, written.Revision)})
	return nil
}

// nameOf is what commands call a document: Website.example.com/shop/home.
func nameOf(kind *kinds.Kind, key string) string { return printable.Text(kind.Name() + "/" + key) }

func (p *Page) why(ctx context.Context, name string, kind *kinds.Kind, key string) why {
	w := why{Controller: printable.Text(name)}
	err := p.ask(ctx, name, "explain", service.KeyRequest{Key: key}, &w.Explanation)
	if errors.Is(err, nats.ErrPermissionViolation) { // who may ask about one namespace is told less
		within, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
		defer cancel()
		w.Explanation, err = p.controller(name).Explain(within, kind.NamespaceOf(key), key)
	}
	if err != nil {
		w.Err = printable.Message(err.Error())
	}
	w.State = controller.KeyState(printable.Text(string(w.State)))
	w.Says, w.Error = printable.Message(w.Says), printable.Message(w.Error)
	w.WokenBy, w.Reasons, w.Member = printable.Text(w.WokenBy), printable.Text(w.Reasons), printable.Text(w.Member)
	return w
}

// writing reads a document and its record. It is an error if there is neither.
func (p *Page) writing(ctx context.Context, kind *kinds.Kind, key string) (w writing, err error) {
	d, err := p.read(ctx, kind, key)
	if apierrors.IsNotFound(err) && d.Record != nil {
		w.Gone, err = true, nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return w, err
	}
	if err != nil {
		w.Err = printable.Message(err.Error())
		return w, nil
	}
	seen := kind.View(d)
	kind.Hide(seen)
	w.Revision = d.Revision
	record, _ := seen["record"].(map[string]any)
	w.ofRecord(record)
	w.Suspended = annotation(seen, entity.SuspendAnnotation) == "true"
	w.SuspendReason = printable.Message(annotation(seen, entity.SuspendReasonAnnotation))
	w.Status = yamlOf(seen["status"])
	shown := kind.Object(seen)
	delete(shown, "status")
	w.Document = yamlOf(shown)
	return w, nil
}

// annotation is one of a document; "" if it has none.
func annotation(seen map[string]any, name string) string {
	meta, _ := seen["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	text, _ := all[name].(string)
	return text
}

func (w *writing) ofRecord(record map[string]any) {
	text := func(m map[string]any, name string) string {
		s, _ := m[name].(string)
		return printable.Message(s)
	}
	w.Phase = text(record, "phase")
	w.Bad = !slices.Contains([]string{"", "Synced", "Pending"}, w.Phase)
	if n, ok := record["observedRevision"].(interface{ String() string }); ok {
		w.Observed = printable.Text(n.String())
	}
	all, _ := record["conditions"].([]any)
	for _, one := range all {
		m, _ := one.(map[string]any)
		c := condition{
			Type: text(m, "type"), Status: text(m, "status"), Reason: text(m, "reason"), Message: text(m, "message"),
		}
		c.Since, _ = time.Parse(time.RFC3339, text(m, "lastTransitionTime"))
		c.Bad = c.Type == "Reconciled" && c.Status != "True"
		w.Conditions = append(w.Conditions, c)
	}
}

// yamlOf is a value as YAML; "" for none.
func yamlOf(value any) string {
	if value == nil {
		return ""
	}
	var text bytes.Buffer
	to := out.Streams{Out: &text}
	if err := to.YAML(value); err != nil {
		return printable.Message(err.Error())
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// eventsOf are the latest events of a document. Who follows it while it changes asks for them every few seconds.
func (p *Page) eventsOf(ctx context.Context, kind *kinds.Kind, key string) events {
	at := kind.Bucket + " " + key
	p.mu.Lock()
	known, ok := p.events[at]
	p.mu.Unlock()
	if ok && time.Since(known.read) < eventsKept {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	shown := events{read: time.Now()}
	all, err := recorder.List(ctx, p.cfg.JS, recorder.Query{Kind: kind.Kind, Key: key})
	if err != nil {
		shown.Err = printable.Message(err.Error())
	}
	for _, e := range slices.Backward(all) {
		if len(shown.Events) == mostEvents {
			break
		}
		shown.Events = append(shown.Events, eventRow{
			Type: printable.Text(e.Type), Reason: printable.Text(e.Reason), Message: printable.Message(e.Message),
			From: printable.Text(e.Source.Component), Bad: e.Type == corev1.EventTypeWarning,
			Count: int(e.Count), Last: e.LastTimestamp.Time,
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil || len(p.events) > mostViewers {
		p.events = map[string]events{}
	}
	p.events[at] = shown
	return shown
}

// eventsKept is for how long a list of events is shown, and a tree of what is in a cluster.
const eventsKept = 4 * time.Second

// mostEvents is how many events are shown, the latest first.
const mostEvents = 30
