package entity

// What tests compare times and amounts with.
const (
	AttemptTimeout = attemptTimeout
	SettleTimeout  = settleTimeout
	AsyncLook      = asyncLook
	AsyncPending   = asyncPending
	AsyncTimeout   = asyncTimeout
	WaitPollMax    = waitPollMax
)
