package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/registry"
	"github.com/theory/jsonpath"
)

// Column is a column of a list, ready to be applied.
type Column struct {
	registry.Column
	path *jsonpath.Path
}

// ColumnsOf are the columns of a kind; those with a priority are for wide lists. A column whose path is none is left
// out.
func (k *Kind) ColumnsOf(wide bool) (columns []Column) {
	all := k.Columns
	if len(all) == 0 {
		all = registry.DefaultColumns()
	}
	for _, c := range all {
		if c.Priority > 0 && !wide {
			continue
		}
		if path, err := jsonpath.Parse(c.Path); err == nil {
			columns = append(columns, Column{c, path})
		}
	}
	return columns
}

// Text is what a column shows of a view, as [View] makes it. What the path does not find is empty.
func (c *Column) Text(view map[string]any, now time.Time) string {
	var texts []string
	for _, v := range c.path.Select(view) {
		texts = append(texts, text(v, c.Type, now))
	}
	return strings.Join(texts, ",")
}

// Time is the time that a column of dates shows as an age; zero if it shows none, or several.
func (c *Column) Time(view map[string]any) time.Time {
	if found := c.path.Select(view); c.Type == "date" && len(found) == 1 {
		if s, ok := found[0].(string); ok {
			if t, err := time.Parse(time.RFC3339, s); err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

func text(v any, kind string, now time.Time) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if kind == "date" {
			if t, err := time.Parse(time.RFC3339, v); err == nil {
				return out.Age(now.Sub(t))
			}
		}
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
