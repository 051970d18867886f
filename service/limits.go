package service

import "golang.org/x/time/rate"

// limits are those of requests to read, or to act. Who may ask about one namespace takes nothing from those who may ask
// about the whole.
type limits struct {
	whole, confined limit
}

// limit is one of either.
type limit struct {
	rate *rate.Limiter
	// turns has an element for each request that has, or waits for, its turn. When it is full no more are taken.
	turns chan struct{}
	// standby has an element for each request that waits whether a replica leads. When it is full no more are taken.
	standby chan struct{}
}

func newLimits(perSecond float64) limits {
	one := func() limit {
		return limit{
			rate:  rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond))),
			turns: make(chan struct{}, mostWaiting), standby: make(chan struct{}, mostWaiting),
		}
	}
	return limits{whole: one(), confined: one()}
}

func (s *Service) limit(r *request) limit {
	all := s.reading
	if r.verb.access == act {
		all = s.acting
	}
	if r.confined {
		return all.confined
	}
	return all.whole
}
