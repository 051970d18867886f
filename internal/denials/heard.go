package denials

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// heardAll returns when the book has heard of each denial that the library has read by now and that is newer than the
// watch. The library tells of them later, one after the other, and until then the watch may not know of its own: the
// connection's last error may be another one.
func (w *Watch) heardAll(ctx context.Context) error {
	select {
	case <-w.hearing():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hearing returns a channel that is closed when the book has heard of the connection's last error, if that is a denial
// newer than the watch.
func (w *Watch) hearing() <-chan struct{} {
	b := w.on.book
	b.mu.Lock()
	defer b.mu.Unlock()
	// The library sets its last error before it tells, and the book hears of it under this lock. So what the book has
	// not heard of now is still to come.
	last := w.on.nc.LastError()
	if _, denial := parse(last); !denial || last == w.before || last == b.noted {
		heard := make(chan struct{})
		close(heard)
		return heard
	}
	if b.awaited == nil {
		b.awaited = map[error]chan struct{}{}
	}
	if b.awaited[last] == nil {
		b.awaited[last] = make(chan struct{})
	}
	return b.awaited[last]
}

// hear notes that the book has heard of a denial. The mutex must be held.
func (b *book) hear(denial error) {
	b.noted = denial
	if heard := b.awaited[denial]; heard != nil {
		close(heard)
		delete(b.awaited, denial)
	}
}

// parse reads what the server denied from an error of the connection:
//
//	nats: permissions violation: Permissions Violation for Publish to "a.b"
//	nats: permissions violation: Permissions Violation for Subscription to "a.*" using queue "q" (sid "3")
func parse(err error) (denied target, ok bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return target{}, false
	}
	_, rest, found := strings.Cut(err.Error(), " for Publish to ")
	if !found {
		if _, rest, found = strings.Cut(err.Error(), " for Subscription to "); !found {
			return target{}, false
		}
		denied.subscription = true
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return target{}, false
	}
	denied.subject, err = strconv.Unquote(quoted)
	return denied, err == nil
}
