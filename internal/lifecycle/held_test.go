package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatIsBeingDeletedAndStaysIsHeld, with finalizers or without: a Namespace has them elsewhere, and a Pod on a dead
// node has none. Until its deletionTimestamp a Pod may take its time.
func TestWhatIsBeingDeletedAndStaysIsHeld(t *testing.T) {
	past, ahead := metav1.NewTime(time.Now().Add(-time.Minute)), metav1.NewTime(time.Now().Add(time.Minute))
	for name, tt := range map[string]struct {
		deleted    *metav1.Time
		finalizers []string
		says       string // empty: it is not held
	}{
		"not deleted":                  {nil, []string{"example.com/held"}, ""},
		"with finalizers":              {&past, []string{"example.com/held"}, "the finalizers example.com/held of OwnsKube"},
		"without":                      {&past, nil, `waits for OwnsKube "web"`},
		"without, not due yet":         {&ahead, nil, ""},
		"with finalizers, not due yet": {&ahead, []string{"example.com/held"}, "example.com/held"},
	} {
		obj := secondary("web", "1")
		obj.SetDeletionTimestamp(tt.deleted)
		obj.SetFinalizers(tt.finalizers)
		err := heldBy([]owned{{owns{deletable: true}, obj}})
		if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
