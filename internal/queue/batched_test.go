package queue

import (
	"fmt"
	"sync"
	"testing"
)

// TestKeysGivesTheLockBack again and again, and stands what others do meanwhile: also that they take another map.
func TestKeysGivesTheLockBack(t *testing.T) {
	var mu sync.Mutex
	const n = 20 * BatchSize
	m := make(map[string]int, n)
	for i := range n {
		m[fmt.Sprint("key-", i)] = i
	}
	all, between := m, 0
	keys := BatchedKeys(&mu, &m, nil, func() {
		mu.Lock()
		defer mu.Unlock()
		between++
		all[fmt.Sprint("new-", between)] = 0
		for key := range all {
			if key[:3] == "key" {
				delete(all, key)
				break
			}
		}
		m = nil
	})
	if least := (n - between) / BatchSize; between < least-1 || len(keys) < n-between {
		t.Errorf("%d keys in %d batches", len(keys), between)
	}
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			t.Fatalf("%s twice", key)
		}
		seen[key] = true
	}
	for key := range all {
		if !seen[key] && key[:3] == "key" {
			t.Errorf("%s is missing", key)
		}
	}
	if keys := BatchedKeys(&mu, &m, nil, nil); len(keys) > 0 {
		t.Errorf("an empty map has %d keys", len(keys))
	}
}
