package apisource

import (
	"fmt"
	"testing"

	"github.com/nagi-runtime/nagi/external"
)

// BenchmarkExternalList compares a list of 100,000 resources with the one before, of which nothing, or one in a
// hundred, differs.
func BenchmarkExternalList(b *testing.B) {
	const many = 100_000
	lists := [2][]external.Resource{}
	for i := range many {
		r := external.Resource{ID: fmt.Sprintf("disk-%d", i), OwnerKey: fmt.Sprintf("site-%d", i), Version: "1"}
		lists[0] = append(lists[0], r)
		if i%100 == 0 {
			r.Version = "2"
		}
		lists[1] = append(lists[1], r)
	}
	for name, differ := range map[string]int{"same": 0, "one in 100 differs": 1} {
		b.Run(name, func(b *testing.B) {
			s := newController(b, external.Config{}).source
			s.cache.replace(s, lists[0])
			for i := 1; b.Loop(); i++ {
				s.cache.replace(s, lists[i%2*differ])
			}
		})
	}
}
