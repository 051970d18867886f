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

// RuntimeAnnotations and RuntimeLabels are those that a transform cannot take away.
var RuntimeAnnotations, RuntimeLabels = runtimeAnnotations, runtimeLabels
