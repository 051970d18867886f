package denials

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Call calls do, which makes one request of nats.go and publishes it to this subject. It ends the context of do at once
// if the server denies the request or its answer. Then the error is an *Error.
func (d *Denials) Call(ctx context.Context, subject string, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := d.Publish(subject, cancel)
	defer request.Stop()
	replies := d.watch(d.replies, cancel)
	defer replies.Stop()
	if d.deaf() { // it became so before this watch was made
		return d.noAnswers(true)
	}
	err := do(ctx)
	if err == nil {
		return nil
	}
	for _, w := range []*Watch{request, replies} {
		if denied := w.denied(); denied != nil {
			return denied
		}
	}
	if d.deaf() {
		return d.noAnswers(false)
	}
	return err
}

// noAnswers is the error of a request for which the library can take no answer. unsent says that it was not sent.
func (d *Denials) noAnswers(unsent bool) error {
	return &Error{Subject: d.replies.subject, Subscription: true, Grant: d.inboxes, Dropped: unsent}
}

// Request sends a request and returns its answer. If the server denies one of the two, it fails at once with an
// *Error. ctx must have a deadline.
func (d *Denials) Request(ctx context.Context, msg *nats.Msg) (answer *nats.Msg, err error) {
	if d.deaf() {
		return d.requestAlone(ctx, msg)
	}
	err = d.Call(ctx, msg.Subject, func(ctx context.Context) (err error) {
		answer, err = d.nc.RequestMsgWithContext(ctx, msg)
		return err
	})
	if err == nil {
		d.Granted(msg.Subject)
	}
	return answer, err
}

// requestAlone is Request with an inbox of its own, for a connection whose inbox for all requests was denied: the
// library does not subscribe that again when the permission is back. The request is sent only if its inbox is granted.
func (d *Denials) requestAlone(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	inbox := d.nc.NewInbox()
	replies := d.Subscribe(inbox, cancel)
	defer replies.Stop()
	sub, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only, which has no subscriptions
	err = d.nc.FlushWithContext(ctx)
	if err == nil {
		err = replies.heardAll(ctx)
	}
	if denied := replies.denied(); denied != nil {
		unsent := *denied
		unsent.Dropped = true
		return nil, &unsent
	}
	if err != nil {
		return nil, err
	}
	request := d.Publish(msg.Subject, cancel)
	defer request.Stop()
	own := *msg
	own.Reply = inbox
	if err := d.nc.PublishMsg(&own); err != nil {
		return nil, err
	}
	answer, err := sub.NextMsgWithContext(ctx)
	for _, w := range []*Watch{request, replies} {
		if denied := w.denied(); err != nil && denied != nil {
			return nil, denied
		}
	}
	return answer, err
}
