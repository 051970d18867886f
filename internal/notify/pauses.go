package notify

import "time"

// Pauses say when something that comes and goes may be told again: after longer and longer pauses, from Least to Most,
// and after Least again once nothing was told for twice as long as Most. The first time is free.
type Pauses struct {
	Least, Most time.Duration

	last  time.Time
	pause time.Duration
}

// Rest is for how long it must not be told yet; at most 0 if it may be told now.
func (p *Pauses) Rest() time.Duration { return p.pause - time.Since(p.last) }

// Told notes that it was told now.
func (p *Pauses) Told() {
	p.pause = min(2*p.pause, p.Most)
	if p.pause == 0 || time.Since(p.last) > 2*p.Most {
		p.pause = p.Least
	}
	p.last = time.Now()
}
