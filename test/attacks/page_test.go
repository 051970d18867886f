package attacks

import (
	"os"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
)

// TestThePageShowsThePermissionSets as they are.
func TestThePageShowsThePermissionSets(t *testing.T) {
	text, err := os.ReadFile(page)
	must(t, err)
	controllers, err := controllersSet()
	must(t, err)
	sets := map[string]*entity.PermissionSet{"controller": &controllers}
	for _, r := range roles(t) {
		if r.set != nil && r.password != "x" {
			sets[r.name] = r.set
		}
	}
	for name, set := range sets {
		block := "```text\n# " + name + ".conf\n" + set.NATS() + "```\n"
		if !strings.Contains(string(text), block) {
			t.Errorf("%s does not show\n%s", page, block)
		}
	}
}
