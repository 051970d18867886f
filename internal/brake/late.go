package brake

// CameLate is told that a source shows what it has which was away. What was weighed without it, and was let go without
// a release, is decided anew where it is still owed.
func (b *Brake) CameLate() {
	b.mu.Lock()
	defer b.unlock()
	b.came++
	if b.state.Released {
		return // which may be for them
	}
	for key := range b.allowed {
		if b.Anchors.Has(key) && !b.Primaries.Exists(key) {
			b.allowed.Delete(key)
			b.suspect(key)
		}
	}
	b.poke()
}

// LetsGo reports whether the delete of a key, which is owed, may go on: it is evidenced, or was let go and is not in
// doubt again.
func (b *Brake) LetsGo(key string) bool { return b.Primaries.Evidenced(key) || b.Admit(key) }

// poke makes Run decide again.
func (b *Brake) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
