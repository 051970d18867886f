package shards

import "context"

// Expel ends the member's work at once, because somebody works who must not meet it. It joins anew, when Host.Join lets
// it. Where it waits for that, Host.Join is asked once more.
func (s *Shards) Expel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.life; {
	case l == nil:
	case !l.joined:
		l.expelled = true
	default:
		s.die(l)
		s.look()
	}
}

// join asks the host until the member may work, or ctx ends.
func (s *Shards) join(ctx context.Context, l *life) {
	for ctx.Err() == nil {
		s.Host.Join(ctx)
		s.mu.Lock()
		l.joined, l.expelled = !l.expelled, false
		s.mu.Unlock()
		if l.joined {
			return
		}
	}
}
