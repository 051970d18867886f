package page

import (
	"context"
	"net/url"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/service"
)

// brakeHead is what can be done about a brake. It names what was held when the page was read: of other numbers an act
// is refused.
type brakeHead struct {
	Controller, Sent string
	Did              string
	Actions          bool
	Token            string
	Engagement       string
	List             string // the id of what is held
	Held             int
	Vanished         []vanished
	Restorable       int
	NotRestorable    int
	More             bool
	Err              string
}

type vanished struct {
	Key string
	Why string // it cannot be restored
}

// held is what a brake holds.
type held struct {
	service.Brake
	Path             string
	Keys, PrunedKeys []string
	More             bool
	Err              string
}

// mostHeld is how many keys are listed.
const mostHeld = 200

func brakePath(controller string) string { return "/brake/" + url.PathEscape(controller) }

func (p *Page) showBrake(ctx context.Context, v *view, name, did string, live bool) error {
	v.Title, v.At = printable.Text("The brake of "+name), "overview"
	var list service.BrakeList
	h := held{Path: brakePath(name)}
	if err := p.ask(ctx, name, "brake-list", service.BrakeListRequest{Limit: mostHeld}, &list); err != nil {
		h.Err = printable.Message(err.Error())
	}
	h.Brake, h.More = list.Brake, list.Next != ""
	h.Reason = printable.Message(h.Reason)
	for _, key := range list.Keys {
		h.Keys = append(h.Keys, printable.Text(key))
	}
	for _, key := range list.Pruned {
		h.PrunedKeys = append(h.PrunedKeys, printable.Text(key))
	}
	v.Parts = append(v.Parts, part{"held", "held", h})
	if live {
		return nil // a form does not change under the hand that fills it in
	}
	head := brakeHead{
		Controller: printable.Text(name), Sent: url.QueryEscape(name), Did: acts[did].did,
		Actions: p.cfg.Actions, Token: p.token, Engagement: list.Brake.Engagement, Held: list.Brake.Count,
		List: list.List,
	}
	if !p.cfg.Actions {
		head.Token = ""
	}
	if list.Brake.Engaged {
		p.vanished(ctx, name, &head)
	}
	v.Heading, v.Head = "brakehead", head
	return nil
}

func (p *Page) vanished(ctx context.Context, name string, head *brakeHead) {
	var answer service.BrakeVanished
	if err := p.ask(ctx, name, "brake-vanished", service.BrakeListRequest{Limit: mostHeld}, &answer); err != nil {
		head.Err = printable.Message(err.Error())
		return
	}
	head.Restorable, head.NotRestorable, head.More = answer.Count, answer.NotRestorable, answer.Next != ""
	for _, one := range answer.Vanished {
		head.Vanished = append(head.Vanished, vanished{printable.Text(one.Key), printable.Text(one.NotRestorable)})
	}
}
