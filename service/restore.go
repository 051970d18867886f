package service

import (
	"context"
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
)

// Vanished is a document that is gone.
type Vanished = controller.Vanished

// Restorer is a controller that can put vanished documents back.
type Restorer interface {
	// ListVanished lists them, in the order of their keys.
	ListVanished(ctx context.Context) ([]Vanished, error)
	// RestoreVanished makes those anew that can be, if engagement and count are the brake's and theirs. It never writes
	// over what is there.
	RestoreVanished(ctx context.Context, engagement string, count int) (restored int, err error)
}

// restorerOf is a controller as a Restorer; nil if it is none.
func restorerOf(c any) Restorer {
	r, _ := c.(Restorer)
	return r
}

// vanished lists what is missing, and counts what can be put back.
func (r *request) vanished(ctx context.Context) (all []Vanished, restorable int, err error) {
	if err := r.hasBrake(); err != nil {
		return nil, 0, err
	}
	if r.restorer == nil {
		return nil, 0, refuse(codeNotThere, "controller %q cannot restore documents", r.name())
	}
	all, err = r.restorer.ListVanished(ctx)
	for _, v := range all {
		if v.NotRestorable == "" {
			restorable++
		}
	}
	return all, restorable, err
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
	all, restorable, err := r.vanished(ctx)
	if err != nil {
		return nil, err
	}
	answer := &BrakeVanished{
		Engagement: r.brake().Engagement, Count: restorable, NotRestorable: len(all) - restorable,
		Vanished: []Vanished{},
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
	engagement, count, err := r.named()
	if err != nil {
		return nil, err
	}
	_, restorable, err := r.vanished(ctx)
	if err != nil {
		return nil, err
	}
	if now := r.brake(); restorable != count || now.Engagement != engagement || count == 0 {
		e := refuse(codeConflict, "%d documents that are missing can be restored, in engagement %q, and the request "+
			"names something else: look which they are, and ask again", restorable, now.Engagement)
		e.Brake, e.Restorable = now, &restorable
		return nil, e
	}
	restored, err := r.restorer.RestoreVanished(ctx, engagement, count)
	if restored > 0 {
		r.did(ctx, "", ReasonBrakeRestore, fmt.Sprintf(
			"%d documents that were missing were restored, of %d in engagement %s", restored, count, engagement))
	}
	if err != nil {
		return nil, fmt.Errorf("%d of %d documents were restored: %w", restored, count, err)
	}
	return &BrakeRestored{Count: restored}, nil
}
