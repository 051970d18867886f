package denials

// mostExpected are remembered. What the server does not deny is not heard of, so a few may be left over.
const mostExpected = 64

// Expect says that a message is about to be published to see whether the server denies it. That denial is told to
// watches and is the connection's last error (nats.Conn.LastError), and nothing else: neither a right that is missing,
// nor told to the connection's error handler. It holds for one denial, until over is called: others may use the
// subject.
func (d *Denials) Expect(subject string) (over func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listen(d.nc)
	if d.expected == nil || len(d.expected) >= mostExpected {
		d.expected = map[string]struct{}{}
	}
	d.expected[subject] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.expected, subject)
	}
}

// isExpected reports whether an error is a denial that is expected, which it then is no more.
func (b *book) isExpected(err error) bool {
	denied, ok := parse(err)
	if !ok || denied.subscription {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, expected := b.expected[denied.subject]
	delete(b.expected, denied.subject)
	return expected
}
