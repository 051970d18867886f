// What came with which version of nats-server.

package kvstream

import (
	"fmt"
)

const (
	// OldestServer is the line of releases that first has all that Nagi needs: consumers that are created under a name
	// and with a filter in the subject, and reads of the next message of a subject (next_by_subj).
	OldestServer = "2.9"
	// TTLs is the line that first has TTLs of messages, and markers of what a limit removes.
	TTLs = "2.11"
)

// VersionBefore reports whether a server's version ("2.8.4") is before a line of releases ("2.11"). A version that
// cannot be read is before none.
func VersionBefore(version, line string) bool {
	var is, want struct{ major, minor int }
	if n, _ := fmt.Sscanf(version, "%d.%d", &is.major, &is.minor); n < 2 {
		return false
	}
	if n, _ := fmt.Sscanf(line, "%d.%d", &want.major, &want.minor); n < 2 {
		return false
	}
	if is.major != want.major {
		return is.major < want.major
	}
	return is.minor < want.minor
}

// TooOld is the error about a server before OldestServer. connected is the version of the server that the client is
// connected to, which may be another one than the server that answered.
func TooOld(connected string) error {
	return fmt.Errorf("nats-server is too old: %s or newer is needed, and the connected server is %s: upgrade it",
		OldestServer, connected)
}
