package health

import "time"

// Problem is why something does not work, and since when. Who knows that better than the board may report a Problem.
type Problem struct {
	Since time.Time
	Err   error
}

// Error is that of the reason.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the reason.
func (p *Problem) Unwrap() error { return p.Err }
