package kvstream

import (
	"time"

	"github.com/nats-io/nats.go"
)

// ExpiresHeader is when a document is to expire, as RFC 3339, where its TTL says the next whole second.
const ExpiresHeader = "Nagi-Expires"

// MeantExpiry is when a document is to expire that the server drops at a time: what its writer says, if that is the
// whole second before. Another program may have copied the header to a message with another TTL.
func MeantExpiry(header nats.Header, drops time.Time) time.Time {
	said, err := time.Parse(time.RFC3339Nano, header.Get(ExpiresHeader))
	if err == nil && !said.After(drops) && drops.Sub(said) < 2*time.Second { // the message takes a part of it
		return said
	}
	return drops
}
