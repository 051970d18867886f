package kinds

import (
	"fmt"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/registry"
)

// Sharing says how many replicas of a controller share the keys, as the registry has it, such as "1024 slots, 4
// members"; "" if they do not.
func Sharing(c *registry.Controller) string {
	if c.Shards == nil {
		return ""
	}
	slots := fmt.Sprintf("%d slots", c.Shards.Slots)
	switch n := len(c.Shards.Members) + c.Shards.More; n {
	case 0:
		return slots
	case 1:
		return slots + ", 1 member"
	default:
		return fmt.Sprintf("%s, %d members", slots, n)
	}
}

// Sharers says which replicas these are, such as "1024 slots: a, b (weight 3) and 7 more".
func Sharers(c *registry.Controller) string {
	if c.Shards == nil || len(c.Shards.Members) == 0 {
		return Sharing(c)
	}
	var names []string
	for _, m := range c.Shards.Members {
		name := printable.Text(m.Name)
		if m.Weight > 1 {
			name += fmt.Sprintf(" (weight %d)", m.Weight)
		}
		names = append(names, name)
	}
	says := fmt.Sprintf("%d slots: %s", c.Shards.Slots, strings.Join(names, ", "))
	if c.Shards.More > 0 {
		says += fmt.Sprintf(" and %d more", c.Shards.More)
	}
	return says
}
