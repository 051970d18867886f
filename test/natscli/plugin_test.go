package natscli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNagiIsAPluginOfTheNatsCommandLine: "nats nagi" has the commands of nagi, connects as nats was told to, and hands
// on words, flags and what comes out.
func TestNagiIsAPluginOfTheNatsCommandLine(t *testing.T) {
	w := begin(t)
	beginQuickstart(w)
	w.sh("", "nats plugins register nagi "+filepath.Join(w.programs, "nagi"))
	w.has(w.sh("", "nats nagi --help"), "kinds")
	if out := w.sh("", "nats --server="+w.url+" nagi kinds -o json"); strings.TrimSpace(out) != "null" && !strings.HasPrefix(out, "[") {
		t.Errorf("nats nagi kinds printed %s", out)
	}
}
