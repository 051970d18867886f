package ownwrites

// Turns returns how many turns an overlay keeps.
func Turns[W any](o *Overlay[W]) int {
	o.mu.Lock() // an overlay tidies up by itself
	defer o.mu.Unlock()
	return len(o.order)
}

// Logged returns how many writes a log keeps.
func Logged(l *Log) int { return len(l.writes) }
