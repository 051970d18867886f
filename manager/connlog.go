package manager

import (
	"net/url"
	"time"

	"github.com/nagi-runtime/nagi/internal/connection"
	"github.com/nagi-runtime/nagi/internal/denials"
	"github.com/nagi-runtime/nagi/internal/notify"
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// connLog says what becomes of the connection. nats.go calls handlers one after the other.
//
// While it is lost each reason why a try to reconnect failed is told once. Servers that are away for different reasons
// take turns: that the reason has changed is told again with longer and longer pauses.
type connLog struct {
	log klog.Logger

	reasons notify.Facts  // that were told since the connection was lost
	last    notify.Fact   // the one that was told last
	pauses  notify.Pauses // before a change is told again
	lost    time.Time     // when the connection was lost

	rights map[string]time.Time // that are missing: when they were last
}

// mostRights are remembered that are missing.
const mostRights = 256

// patience is how long a server may be away before the log has why it cannot be reached: that the connection is lost
// says as much, while a server restarts.
const patience = 30 * time.Second

// mostReasons are told at once: some texts are new each time.
const mostReasons = 5

func newConnLog(log klog.Logger) *connLog {
	return &connLog{log: log, reasons: notify.Facts{Most: mostReasons}}
}

// connectionLog returns the handlers of a connection that tell a log of it.
func connectionLog(log klog.Logger) []nats.Option { return newConnLog(log).options() }

func (l *connLog) options() []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err == nil { // it was closed here
				return
			}
			l.lost = time.Now()
			connection.Of(nc).Look()
			if connection.Of(nc).TellDown() {
				l.log.Info("The connection to NATS is lost, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			took := time.Since(l.lost).Round(time.Millisecond)
			l.reconnected()
			connection.Of(nc).Look()
			if connection.Of(nc).TellBack() {
				l.log.Info("Reconnected to NATS", "url", redacted(nc.ConnectedUrl()),
					"server", nc.ConnectedServerName(), "after", took)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.notReconnected(err) }),
		nats.ErrorHandler(l.failed),
	}
}

// failed is called for what goes wrong beside requests. While the connection is lost, that is a server which refuses
// the user.
func (l *connLog) failed(nc *nats.Conn, sub *nats.Subscription, err error) {
	right := denials.RightOf(err)
	switch {
	case right != "" && !l.isNews(right):
	case right != "":
		l.log.Error(err, "The server denies the user a right; that is told once", "right", right)
	case sub != nil:
		l.log.Error(err, "NATS reports an error", "subject", sub.Subject)
	case nc.IsReconnecting():
		l.refused(err)
	default:
		l.log.Error(err, "NATS reports an error")
	}
}

// isNews reports whether it is to be told that a right is missing: unless it was denied within the last minutes.
func (l *connLog) isNews(right string) bool {
	last, told := l.rights[right]
	if l.rights == nil || len(l.rights) >= mostRights && !told {
		l.rights = map[string]time.Time{}
	}
	l.rights[right] = time.Now()
	return time.Since(last) > denials.Forgotten
}

// notReconnected is called for each server that cannot be reached.
func (l *connLog) notReconnected(err error) {
	if time.Since(l.lost) >= patience {
		l.refused(err)
	}
}

// refused is called for a server that is there, and does not let the user in, or after the patience.
func (l *connLog) refused(err error) {
	reason := notify.ButNumbers(err.Error())
	if l.reasons.Tell(reason, reason) {
		l.pauses = notify.Pauses{Least: time.Minute, Most: time.Hour} // with the least again
	} else if l.pauses.Rest() > 0 {
		return
	}
	if !l.last.Tell(reason) {
		return
	}
	l.pauses.Told()
	l.log.Error(err, "Reconnecting to NATS fails, it is tried again")
}

// reconnected forgets why it was not.
func (l *connLog) reconnected() {
	rights := l.rights
	*l = *newConnLog(l.log)
	l.rights = rights
}

// redacted is the URL of a server as logs and errors may show it. nats.go takes a user without a password for a token,
// which url.URL.Redacted would show.
func redacted(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return "xxxxx"
	}
	if parsed.User != nil {
		shown := url.User("xxxxx")
		if _, hasPassword := parsed.User.Password(); hasPassword {
			shown = url.UserPassword(parsed.User.Username(), "xxxxx")
		}
		parsed.User = shown
	}
	return parsed.String()
}
