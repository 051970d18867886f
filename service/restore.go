package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/printable"
	restoring "github.com/nagi-runtime/nagi/internal/restore"
)

// Vanished is a document that is gone: its Key, Revision, Since when, and why it is NotRestorable, if so.
type Vanished = controller.Vanished

// Restorer is a controller that can put vanished documents back. Each of its reads and writes is bounded, and how many
// there are is not known, so neither method gets a deadline.
type Restorer interface {
	// ListVanished lists them, in the order of their keys.
	ListVanished(ctx context.Context) ([]Vanished, error)
	// RestoreVanished makes those anew that can be, if engagement and count are the brake's and theirs. It never writes
	// over what is there.
	RestoreVanished(ctx context.Context, engagement string, count int) (restored int, err error)
}

// restorerOf is a controller as a Restorer; nil if it is none.
func restorerOf(c any) *listings {
	if r, ok := c.(Restorer); ok {
		return &listings{Restorer: r}
	}
	return nil
}

// canRestore refuses a request where nothing can be restored.
func (r *request) canRestore() error {
	if err := r.hasBrake(); err != nil {
		return err
	}
	if r.restorer == nil {
		return refuse(codeNotThere, "controller %q cannot restore documents", r.name())
	}
	return nil
}

// listingKept is how long a listing is there for the next page of it.
const listingKept = time.Minute

// listings keep the last listing for its next pages: to list is to read each record.
type listings struct {
	Restorer

	mu         sync.Mutex
	engagement string
	all        []Vanished
	forget     *time.Timer // nil: nothing is kept
}

// page is what vanished, for the page after a key. The first one lists anew.
func (l *listings) page(ctx context.Context, engagement, after string) ([]Vanished, error) {
	if all, ok := l.kept(engagement); ok && after != "" {
		return all, nil
	}
	all, err := l.ListVanished(ctx)
	if err == nil {
		l.keep(engagement, all)
	}
	return all, err
}

func (l *listings) kept(engagement string) (all []Vanished, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget == nil || l.engagement != engagement {
		return nil, false
	}
	l.forget.Reset(listingKept)
	return l.all, true
}

func (l *listings) keep(engagement string, all []Vanished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget == nil {
		l.forget = time.AfterFunc(listingKept, l.drop)
	}
	l.forget.Reset(listingKept)
	l.engagement, l.all = engagement, all
}

func (l *listings) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engagement, l.all, l.forget = "", nil, nil
}

// BrakeVanished is the answer to "brake-vanished": a page of the documents that are missing.
type BrakeVanished struct {
	// Engagement and Count are what a request to restore them has to name. Count is how many can be restored,
	// NotRestorable how many cannot.
	Engagement    string     `json:"engagement,omitempty"`
	Count         int        `json:"count"`
	NotRestorable int        `json:"notRestorable"`
	Vanished      []Vanished `json:"vanished"`
	Next          string     `json:"next,omitempty"`
}

func listVanished(ctx context.Context, r *request) (any, error) {
	of, err := r.pageOf()
	if err != nil {
		return nil, err
	}
	p, err := r.newPage(of.Limit, brakeBytes)
	if err != nil {
		return nil, err
	}
	if err := r.canRestore(); err != nil {
		return nil, err
	}
	answer := &BrakeVanished{Engagement: r.brake().Engagement, Vanished: []Vanished{}}
	all, err := r.restorer.page(context.WithoutCancel(ctx), answer.Engagement, of.After)
	if err != nil {
		return nil, r.notRestored(err)
	}
	for _, v := range all {
		if v.NotRestorable == "" {
			answer.Count++
		} else {
			answer.NotRestorable++
		}
	}
	for _, v := range all {
		if v.Key <= of.After {
			continue
		}
		if !p.fits(&v) {
			answer.Next, err = r.next(len(answer.Vanished), func() string {
				return answer.Vanished[len(answer.Vanished)-1].Key
			})
			break
		}
		answer.Vanished = append(answer.Vanished, v)
	}
	return answer, err
}

// BrakeRestored is the answer to "brake-restore".
type BrakeRestored struct {
	// Count is how many documents were made anew.
	Count int `json:"count"`
}

func restore(ctx context.Context, r *request) (any, error) {
	of, err := r.named()
	if err != nil {
		return nil, err
	}
	engagement, count := of.Engagement, *of.Count
	if err := r.canRestore(); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	restored, err := r.restorer.RestoreVanished(ctx, engagement, count)
	if restored > 0 {
		r.did(ctx, "", ReasonBrakeRestore, fmt.Sprintf(
			"%d documents that were missing were restored, of %d in engagement %s", restored, count, engagement))
	}
	if err != nil {
		return nil, r.notRestored(fmt.Errorf("%d of %d documents were restored: %w", restored, count, err))
	}
	return &BrakeRestored{Count: restored}, nil
}

// notRestored is what is told of an error of the Restorer.
func (r *request) notRestored(err error) error {
	if mismatch, ok := errors.AsType[*restoring.Mismatch](err); ok {
		now := r.brake()
		e := refuse(codeConflict, "%d documents that are missing can be restored, in engagement %q, and the request "+
			"names something else: look which they are, and ask again", mismatch.Restorable, now.Engagement)
		e.Brake, e.Restorable = now, &mismatch.Restorable
		return e
	}
	if partly, ok := errors.AsType[*restoring.Error](err); ok && partly.Overtaken() {
		e := refuse(codeConflict, "%v", printable.Error(err))
		e.Brake = r.brake()
		return e
	}
	if other, ok := errors.AsType[*restoring.NotLeading](err); ok {
		e := refuse(codeNotDone, "%v", printable.Error(err))
		e.Leader = printable.Text(other.Holder)
		return e
	}
	return err
}

// RestoreCommand is how an operator has the service put documents back: the command that lists them, with their count,
// and the one that restores them. How many can be restored is not known before they are listed, so the second command
// has COUNT in that place, with which it is refused.
func (c *served) RestoreCommand(controller, engagement string) string {
	subject := c.service.cfg.Prefix + "." + token(controller)
	return fmt.Sprintf(`nats req %s.read.brake-vanished '' lists it, with a count; with that count, `+
		`nats req %s.act.brake-restore '{"engagement":%q,"count":COUNT}' puts it back`, subject, subject, engagement)
}
