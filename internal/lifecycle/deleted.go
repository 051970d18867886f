package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// mostRemembered is how many deleted objects of one teardown are remembered. What is deleted after that is not counted.
const mostRemembered = 10_000

// deleted is what teardowns have deleted, by key, until they end. A delete that is repeated counts once. The zero value
// is ready.
type deleted struct {
	mu    sync.Mutex
	byKey map[string]map[object]struct{}
}

// object is one that was deleted.
type object struct{ source, name string }

// NoteDeleted remembers that the teardown of a key has deleted an object.
func (t *Teardown) NoteDeleted(key, source, name string) {
	d := &t.deleted
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		d.byKey = map[string]map[object]struct{}{}
	}
	if d.byKey[key] == nil {
		d.byKey[key] = map[object]struct{}{}
	}
	if len(d.byKey[key]) < mostRemembered {
		d.byKey[key][object{source, name}] = struct{}{}
	}
}

// TakeDeleted says how many objects of which sources the teardown of a key has deleted, in order, and forgets them. It
// is "" if there were none.
func (t *Teardown) TakeDeleted(key string) string {
	d := &t.deleted
	d.mu.Lock()
	objects := d.byKey[key]
	delete(d.byKey, key)
	d.mu.Unlock()
	counts := map[string]int{}
	for o := range objects {
		counts[o.source]++
	}
	var parts []string
	for _, source := range slices.Sorted(maps.Keys(counts)) {
		atLeast := ""
		if len(objects) == mostRemembered {
			atLeast = "at least "
		}
		parts = append(parts, fmt.Sprintf("%s%d of %s", atLeast, counts[source], source))
	}
	return strings.Join(parts, ", ")
}

// ForgetDeleted is for the end of a term: another replica goes on with the teardowns.
func (t *Teardown) ForgetDeleted() {
	t.deleted.mu.Lock()
	defer t.deleted.mu.Unlock()
	clear(t.deleted.byKey)
}
