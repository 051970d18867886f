package loops

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/mergediff"
	"github.com/nagi-runtime/nagi/internal/printable"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason is the reason of the event about a reconcile that wakes itself.
const Reason = "ReconcileLoop"

// mostPaths is how many paths are named.
const mostPaths = 3

// Message says in one sentence what a loop is, and what to do. It names objects and paths, and never values.
func (t *Trip) Message() string {
	return fmt.Sprintf("%d reconciles in a row had no cause but what the reconcile itself did: %s. The next ones are "+
		"delayed, by up to %v, until somebody else changes something. Write only what has to change: no times, "+
		"counters or random values, and lists in a fixed order", Most, t.what(), longestDelay)
}

func (t *Trip) what() string {
	c := t.Cause
	if c == nil {
		return fmt.Sprintf("each asked for the next with a RequeueAfter of less than %v", ShortestRequeue)
	}
	object := c.Kind + " " + printable.Quote(c.Key)
	if c.Primary {
		object += ", which is the primary itself"
	}
	if c.Before == nil || c.After == nil {
		return fmt.Sprintf("each created or deleted %s", object)
	}
	paths := Changed(c.Before, c.After)
	if len(paths) == 0 {
		return fmt.Sprintf("each wrote %s, though nothing in it changed", object)
	}
	return fmt.Sprintf("each changed %s of %s", strings.Join(paths, ", "), object)
}

// eachWrite are the members of metadata that each write may change.
var eachWrite = []string{"resourceVersion", "generation", "managedFields", "creationTimestamp", "uid"}

// Changed returns the paths at which two states of an object differ, at most three; none if that cannot be told. What
// each write changes does not count.
func Changed(before, after metav1.Object) (paths []string) {
	_ = guard.Call(func() error { // the user's types may have methods for it
		old, err := mergediff.FieldsOf(before)
		if err != nil {
			return err
		}
		now, err := mergediff.FieldsOf(after)
		if err != nil {
			return err
		}
		for _, fields := range []map[string]any{old, now} {
			if metadata, ok := fields["metadata"].(map[string]any); ok {
				for _, name := range eachWrite {
					delete(metadata, name)
				}
			}
		}
		paths = differ(nil, "", old, now)
		return nil
	})
	return paths
}

func differ(found []string, path string, before, after any) []string {
	if len(found) >= mostPaths || reflect.DeepEqual(before, after) {
		return found
	}
	old, wasObject := before.(map[string]any)
	now, isObject := after.(map[string]any)
	if wasObject && isObject {
		for _, name := range members(old, now) {
			found = differ(found, path+member(path, name), old[name], now[name])
		}
		return found
	}
	oldList, wasList := before.([]any)
	nowList, isList := after.([]any)
	if wasList && isList && len(oldList) == len(nowList) {
		for i := range nowList {
			found = differ(found, path+"["+strconv.Itoa(i)+"]", oldList[i], nowList[i])
		}
		return found
	}
	return append(found, printable.Text(path))
}

// members are the names in either object, sorted.
func members(a, b map[string]any) (names []string) {
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// member is how a path goes on: ".title", or ["example.com/title"] where that is not a plain name.
func member(path, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	switch {
	case !plain:
		return "[" + printable.Quote(name) + "]"
	case path == "":
		return name
	}
	return "." + name
}
