package natstest

import (
	"fmt"
	"sync"
)

// serverLog is the logger of one run of a server. It passes lines on to logf until it is closed. It remembers the last
// fatal error, because nats-server reports a failed start nowhere else.
type serverLog struct {
	mu    sync.RWMutex
	logf  func(format string, args ...any)
	name  string
	fatal string
}

// close waits for lines being written; afterwards logf is not called any more. A t.Logf after its test would panic.
func (l *serverLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logf = nil
}

func (l *serverLog) lastFatal() string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.fatal
}

func (l *serverLog) write(level, format string, args []any) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.logf != nil {
		l.logf("[%s] %s %s", l.name, level, fmt.Sprintf(format, args...))
	}
}

func (l *serverLog) Fatalf(format string, args ...any) {
	l.mu.Lock()
	l.fatal = fmt.Sprintf(format, args...)
	l.mu.Unlock()
	l.write("FTL", format, args)
}

func (l *serverLog) Errorf(format string, args ...any)  { l.write("ERR", format, args) }
func (l *serverLog) Warnf(format string, args ...any)   { l.write("WRN", format, args) }
func (l *serverLog) Noticef(format string, args ...any) { l.write("INF", format, args) }
func (l *serverLog) Debugf(format string, args ...any)  { l.write("DBG", format, args) }
func (l *serverLog) Tracef(format string, args ...any)  { l.write("TRC", format, args) }
