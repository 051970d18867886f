package manager_test

import (
	"os"
	"strings"
	"testing"
)

// TestTheMainOfThePageIsTheOneThatRuns: docs/production.md shows Example_production as it is.
func TestTheMainOfThePageIsTheOneThatRuns(t *testing.T) {
	page, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_production_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "func main() {") {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
			shown++
			if !strings.Contains(string(source), "\n"+strings.TrimSpace(part)+"\n") {
				t.Errorf("example_production_test.go does not have:\n%s", part)
			}
		}
	}
	if shown < 4 {
		t.Errorf("the page shows %d parts of Reconcile, the flags, run and main", shown)
	}
}
