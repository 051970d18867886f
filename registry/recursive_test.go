package registry

import (
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/entity"
)

type (
	embedsItself struct {
		Title string `json:"title,omitempty"`
		//lint:ignore U1000 the library for schemas reads it
		*embedsItself
	}
	tree struct {
		Title string `json:"title,omitempty"`
		Below []tree `json:"below,omitempty"`
	}
)

// withoutSchema are the lines that tell of a kind without a schema.
func (l *lines) withoutSchema() (errs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line["msg"] == "The kind is published without a schema" {
			errs = append(errs, line["error"].(string))
		}
	}
	return errs
}

// publishes publishes a kind of this type, and reconciles a document of it.
func publishes[Spec any](t *testing.T, why string) {
	t.Helper()
	w := newWorld(t)
	sites := client[*entity.Object[Spec, status]](w, w.js, sitesConfig)
	c := run(w, "sites", sites, Publish(Options{Interval: soon}))
	entry := w.published("the kind is published", anything)
	kv, err := w.js.KeyValue(t.Context(), "sites")
	w.must(err)
	revision, err := kv.PutString(t.Context(), "home", `{"spec":{"title":"t"}}`)
	w.must(err)
	w.must(entity.WaitReconciled(t.Context(), sites, "home", revision))
	if why == "" {
		if entry.Schema == nil || len(c.log.withoutSchema()) != 0 {
			t.Errorf("it is published with the schema %s, and told: %q", entry.Schema, c.log.withoutSchema())
		}
		return
	}
	if told := c.log.withoutSchema(); entry.Schema != nil || len(told) != 1 || !strings.Contains(told[0], why) {
		t.Errorf("it is published with the schema %s, and told: %q", entry.Schema, told)
	}
}

// TestATypeThatHoldsItselfIsPublished, without a schema if that has no end, and the controller works.
func TestATypeThatHoldsItselfIsPublished(t *testing.T) {
	publishes[tree](t, "")
	publishes[embedsItself](t, "registry.embedsItself embeds itself")
}
