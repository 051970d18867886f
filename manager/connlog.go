package manager

import (
	"github.com/nats-io/nats.go"
	"k8s.io/klog/v2"
)

// connLog says what becomes of the connection. nats.go calls handlers one after the other.
type connLog struct {
	log klog.Logger
	// refused is why the last try to reconnect failed: each reason is told once.
	refused string
}

func (l *connLog) options() []nats.Option {
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil if it was closed here
				l.log.Info("The connection to NATS is lost, reconnecting", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			l.refused = ""
			l.log.Info("Reconnected to NATS", "url", nc.ConnectedUrlRedacted(), "server", nc.ConnectedServerName())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.notReconnected(err) }),
		nats.ErrorHandler(l.failed),
	}
}

// failed is called for what goes wrong beside requests. While the connection is lost, that is a server which refuses
// the user.
func (l *connLog) failed(nc *nats.Conn, sub *nats.Subscription, err error) {
	switch {
	case sub != nil:
		l.log.Error(err, "NATS reports an error", "subject", sub.Subject)
	case nc.IsReconnecting():
		l.notReconnected(err)
	default:
		l.log.Error(err, "NATS reports an error")
	}
}

func (l *connLog) notReconnected(err error) {
	if l.refused != err.Error() {
		l.refused = err.Error()
		l.log.Error(err, "Reconnecting to NATS fails, it is tried again")
	}
}
