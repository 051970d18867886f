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

// Doubts reports whether an inferred delete of the key must not go, or is not decided yet.
func (b *Brake) Doubts(key string) bool {
	if !b.busy.Load() {
		return false
	}
	b.mu.Lock()
	defer b.unlock()
	return !b.disarmed && !b.allowed.Has(key) && (b.suspects.Has(key) || b.held.Has(key))
}
