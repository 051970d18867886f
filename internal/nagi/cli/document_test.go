package cli

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/nagi.md")

// TestThePageIsThatOfTheCommands: go generate ./cmd/nagi writes it.
func TestThePageIsThatOfTheCommands(t *testing.T) {
	const path = "../../../docs/nagi.md"
	if *update {
		if err := os.WriteFile(path, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil || string(page) != Page() {
		t.Errorf("docs/nagi.md is not what the commands say (%v): go generate ./cmd/nagi", err)
	}
}
