package conn

import (
	"strings"
	"testing"
)

// What the client library says of a URL quotes all of it.
func TestAPasswordInABrokenURLIsNotQuoted(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := Flags{Server: "nats://ann:hunt%er2@localhost:4222"}
	if err := f.Complete(); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.Connect()
	if err == nil || strings.Contains(err.Error(), "hunt") || strings.Contains(err.Error(), "%er") {
		t.Errorf("it says %v", err)
	}
}
