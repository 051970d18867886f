package page

import (
	"net/url"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// offered are the acts on a document that can apply to it now. It follows changes.
type offered struct {
	Token       string
	Kind, Key   string // as they are: the form sends them back
	Controllers []offer
	DeleteAt    string // where it can be deleted; "" if there is no document
}

// offer is what one controller can do about a key.
type offer struct {
	Name, Sent string // how it is called, and how a form sends that
	Acts       []button
	Not        string // why there is not more
}

// button asks for an act. Why says when that is of use.
type button struct{ Do, Label, Why string }

// futile says of states in which nothing is reconciled what is to be done first.
var futile = map[controller.KeyState]string{
	controller.StateInvalid:    "Its document is invalid: mend it, and it is reconciled by itself.",
	controller.StateUnreadable: "Its record cannot be read: mend or delete the record.",
	controller.StateHeld:       "The brake holds its delete: release the brake, or put the document back.",
}

// offersOf says what the controllers of a kind can do about a key.
func (p *Page) offersOf(kind *kinds.Kind, key string, w *writing, asked []why) offered {
	o := offered{Token: p.token, Kind: kind.Name(), Key: key}
	for i, c := range kind.Controllers {
		one := offer{Name: printable.Text(c.Name), Sent: url.QueryEscape(c.Name)}
		one.choose(w, &asked[i])
		o.Controllers = append(o.Controllers, one)
	}
	if !w.Gone && w.Err == "" {
		o.DeleteAt = deletePath(kind.Name(), key)
	}
	return o
}

// choose offers what applies to a document and to what its controller says of it. Whether it is suspended says the
// document, which the controller may not have seen yet.
func (o *offer) choose(w *writing, says *why) {
	if says.Err != "" {
		o.Not = "What can be done about it is offered once its controller answers."
		return
	}
	known := says.State != controller.StateUnknown && says.State != controller.StateMalformed
	o.Not = futile[says.State]
	switch {
	case !known || w.Suspended || o.Not != "":
	case says.Parked:
		o.add("unpark", "Unpark", "Its reconcile failed for good: try it again")
	default:
		o.add("reconcile", "Reconcile", "Reconcile it now, without waiting for a change or its next attempt")
	}
	switch {
	case w.Gone || w.Err != "":
	case w.Suspended:
		why := "It is suspended"
		if w.SuspendReason != "" {
			why += " (" + w.SuspendReason + ")"
		}
		o.Not = why + ": it is not reconciled until it is resumed."
		o.add("resume", "Resume", why+": have its controller look after it again")
	default:
		o.add("suspend", "Suspend", "Have its controller leave it alone until it is resumed")
	}
}

func (o *offer) add(do, label, why string) { o.Acts = append(o.Acts, button{do, label, why}) }
