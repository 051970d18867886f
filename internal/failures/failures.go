// Package failures says which of the failures of a key are told, in the log and as events: a key that fails a thousand
// times in the same way is one piece of news.
//
// The rule: the first failure is told, and then each time that the attempts have doubled. One that fails in another way
// than what was told last is told too, but not more than one a second. The others are counted, and logged at a higher
// verbosity.
package failures

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Reasons of the events about attempts that failed.
const (
	ReasonFailed   = "ReconcileFailed"
	ReasonPanicked = "Panicked"
	ReasonTeardown = "TeardownFailed"
)

// changePause is how long what was told last rests before another way of failing is told.
const changePause = time.Second

// Told is what was told last of the failures of a key. The zero value says that nothing was.
type Told struct {
	kind uint64
	at   time.Time
}

// Tell reports whether the failure is to be told; attempt counts from 1. Then it notes that it was. message is that of
// Reason.
func (t *Told) Tell(now time.Time, attempt int, err error) (message string, news bool) {
	_, message = Reason(err)
	kind := kindOf(message)
	another := kind != t.kind && now.Sub(t.at) >= changePause
	if !Doubled(attempt) && !another {
		return message, false
	}
	t.kind, t.at = kind, now
	return message, true
}

// Doubled reports whether attempts have doubled since they were told last: at 1, 2, 4, 8 and so on.
func Doubled(attempts int) bool { return bits.OnesCount(uint(attempts)) == 1 }

// Reason is the reason of the event about an error of a reconcile. The message is the error's, without a stack.
func Reason(err error) (reason, message string) {
	if panicked, ok := errors.AsType[*guard.Panic](err); ok {
		return ReasonPanicked, printable.Message(panicked.Message())
	}
	return ReasonFailed, printable.Message(printable.Error(err).Error())
}

var seed = maphash.MakeSeed()

// kindOf is the same for messages that differ in their numbers alone: a revision, a port, a duration, an address.
func kindOf(message string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	digit := false
	for i := range len(message) {
		c := message[i]
		if isDigit := c >= '0' && c <= '9'; isDigit {
			if !digit {
				_ = h.WriteByte('0')
			}
			digit = true
			continue
		}
		digit = false
		_ = h.WriteByte(c)
	}
	return h.Sum64()
}
