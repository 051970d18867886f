package manager_test

import (
	"os"
	"strings"
	"testing"
)

// TestTheMainOfTheREADMEIsTheOneThatRuns: the README shows the functions of Example_production as they are.
func TestTheMainOfTheREADMEIsTheOneThatRuns(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_production_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "func main() {") {
			continue
		}
		for function := range strings.SplitSeq(strings.TrimSpace(block), "\n\n") {
			shown++
			if !strings.Contains(string(source), "\n"+strings.TrimSpace(function)+"\n") {
				t.Errorf("example_production_test.go does not have:\n%s", function)
			}
		}
	}
	if strings.Contains(string(readme), "Example_production") && shown < 3 {
		t.Errorf("the README names Example_production and shows %d of its functions Reconcile, main and run", shown)
	}
}
