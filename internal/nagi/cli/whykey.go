package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/nagi/screen"
	"github.com/nagi-runtime/nagi/internal/printable"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// whyAnswer is all that is known of why a key is where it is.
type whyAnswer struct {
	Kind       string         `json:"kind"`
	Key        string         `json:"key"`
	Says       []controllerIs `json:"controllers"`
	Unanswered []unanswered   `json:"unanswered,omitempty"`
	Record     *recordSays    `json:"record,omitempty"` // if no controller answers
	Commands   []help         `json:"commands"`

	unrecorded error // why there is no Record
}

type controllerIs struct {
	Controller string `json:"controller"`
	controller.Explanation
}

// recordSays is what the record says where no controller does.
type recordSays struct {
	Phase      entity.Phase `json:"phase"`
	Message    string       `json:"message,omitempty"`
	Controller string       `json:"controller,omitempty"`
	Since      time.Time    `json:"since,omitzero"`
}

func (s *session) whyKey(ctx context.Context, a target, f whyFlags) error {
	all, err := s.askedOf(ctx, a.kind)
	if err != nil {
		return err
	}
	look := func(ctx context.Context) *whyAnswer { return s.askWhy(ctx, a, all) }
	switch {
	case f.watch && f.output == "text" && s.t.Terminal:
		return screen.Show(ctx, &s.t.Streams, time.Second, func(ctx context.Context, to *out.Streams) error {
			look(ctx).print(to, a)
			to.Printf("\n%s\n", to.Paint(out.Faint, "q ends"))
			return nil
		})
	case f.watch:
		return s.followWhy(ctx, a, look, f)
	}
	w := look(ctx)
	if err := printAs(&s.t.Streams, f.output, w, func() error { w.print(&s.t.Streams, a); return nil }); err != nil {
		return err
	}
	return s.endOf(ctx, a, w)
}

// endOf is how the command ends that has printed this.
func (s *session) endOf(ctx context.Context, a target, w *whyAnswer) error {
	if err := s.t.tellUnanswered(ctx, w.Unanswered, len(w.Says)); err != nil {
		return err
	}
	for _, e := range w.Says {
		if e.State != controller.StateUnknown && e.State != controller.StateMalformed {
			return nil
		}
	}
	return withCode(CodeNotFound, fmt.Errorf("there is no document %s: nagi get %s lists those that there are", a,
		printable.Text(a.kind.Name())))
}

// askWhy asks all controllers, and reads the record if none answers.
func (s *session) askWhy(ctx context.Context, a target, all []asked) *whyAnswer {
	answers, errs := make([]controllerIs, len(all)), make([]error, len(all))
	eachAsked(all, func(i int, c asked) {
		answers[i].Controller = c.Name
		answers[i].Explanation, errs[i] = c.Explain(ctx, a.namespace(), a.key)
	})
	w := &whyAnswer{Kind: a.kind.Name(), Key: a.key, Says: []controllerIs{}}
	for i, err := range errs {
		if err != nil {
			w.Unanswered = append(w.Unanswered, noAnswerOf(all[i], err))
			continue
		}
		w.Says = append(w.Says, answers[i])
	}
	if len(w.Says) == 0 {
		w.Record, w.unrecorded = s.recordOf(ctx, a)
	}
	w.Commands = s.helps(a, w)
	return w
}

// recordOf is what the record of a key says.
func (s *session) recordOf(ctx context.Context, a target) (*recordSays, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	c, err := a.kind.Client(ctx, s.js)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.Record(ctx, a.key)
	if err != nil {
		return nil, err
	}
	says := &recordSays{Phase: r.Phase(), Controller: printable.Text(r.Controller)}
	about := entity.ConditionReconciled
	if says.Phase == entity.PhaseDeleting {
		about = entity.ConditionDeleting
	}
	if c := meta.FindStatusCondition(r.Conditions, about); c != nil {
		says.Message, says.Since = printable.Message(c.Message), c.LastTransitionTime.Time
	}
	return says, nil
}

// followWhy prints what is said whenever it changes, until the context ends.
func (s *session) followWhy(ctx context.Context, a target, look func(context.Context) *whyAnswer, f whyFlags) error {
	var last []byte
	for {
		w := look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		now, err := json.Marshal(w)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, last) {
			last = now
			switch f.output {
			case "json":
				err = s.t.JSON(w)
			case "yaml":
				s.t.Printf("---\n")
				err = s.t.YAML(w)
			default:
				w.printLine(&s.t.Streams, a)
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// printLine prints one line for each controller: when, what and why.
func (w *whyAnswer) printLine(s *out.Streams, a target) {
	now := time.Now().Format(time.TimeOnly)
	for _, e := range w.Says {
		s.Printf("%s  %s  %s  %s  %s\n", now, a, printable.Text(e.Controller), e.State, printable.Message(e.Says))
	}
	for _, u := range w.Unanswered {
		s.Printf("%s  %s  %s\n", now, a, u.Error)
	}
	if w.Record != nil {
		s.Printf("%s  %s  record  %s  %s\n", now, a, printable.Text(string(w.Record.Phase)), w.Record.Message)
	}
}

// notRecorded says why there is no record.
func (w *whyAnswer) notRecorded() string {
	if apierrors.IsNotFound(w.unrecorded) {
		return "there is no record of it: no controller has seen it yet, or it is torn down"
	}
	return "its record was not read: " + printable.Message(w.unrecorded.Error())
}
