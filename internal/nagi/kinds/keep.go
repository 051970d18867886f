package kinds

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// NotKept is the error about a [Hidden] that stands for no value.
type NotKept struct{ Path string }

func (e *NotKept) Error() string {
	return fmt.Sprintf("%s is %s, which stands for a value that is not shown, and there is none: write the value, or "+
		"leave it out", e.Path, Hidden)
}

// KeepHidden puts back what [Kind.Hide] has hidden: where a secret member of a document is [Hidden], it gets the value
// that it has in current. Elements of a list are found by what is not secret of them. document is changed in place;
// the error is a *NotKept where there is no such value, or where it cannot be told which.
func (k *Kind) KeepHidden(document, current map[string]any) error {
	hidden, hiddenCurrent := clone(document), clone(current)
	for _, one := range []map[string]any{hidden, hiddenCurrent} {
		said(one)
		k.Hide(one)
	}
	_, err := keep(document, hidden, current, hiddenCurrent, "")
	return err
}

// keep returns a value with what is hidden put back.
func keep(v, hidden, current, hiddenCurrent any, path string) (any, error) {
	switch v := v.(type) {
	case string:
		if v != Hidden || hidden != any(Hidden) {
			return v, nil
		}
		if current == nil {
			return nil, &NotKept{path}
		}
		return current, nil
	case map[string]any:
		h, _ := hidden.(map[string]any)
		c, _ := current.(map[string]any)
		hc, _ := hiddenCurrent.(map[string]any)
		for name, member := range v {
			at := name
			if path != "" {
				at = path + "." + name
			}
			kept, err := keep(member, h[name], c[name], hc[name], at)
			if err != nil {
				return nil, err
			}
			v[name] = kept
		}
		return v, nil
	case []any:
		return v, keepList(v, hidden, current, hiddenCurrent, path)
	}
	return v, nil
}

// keepList finds the element of current that each element was. Of one that was changed beside its secret that is the
// one in its place, unless the list has another length, or that element is elsewhere now.
func keepList(v []any, hidden, current, hiddenCurrent any, path string) error {
	h, _ := hidden.([]any)
	c, _ := current.([]any)
	hc, _ := hiddenCurrent.([]any)
	if len(h) != len(v) {
		return nil // the list itself is secret, and was written anew
	}
	taken := make([]bool, len(hc))
	was := make([]int, len(v))
	for pass := range 2 {
		for i := range v {
			if pass == 0 {
				was[i] = -1
			}
			for j := range hc {
				if was[i] >= 0 || taken[j] || !reflect.DeepEqual(h[i], hc[j]) || pass == 0 && i != j {
					continue
				}
				was[i], taken[j] = j, true
			}
		}
	}
	for i := range v {
		if was[i] < 0 && len(v) == len(hc) && !taken[i] {
			was[i], taken[i] = i, true
		}
		var before, beforeHidden any
		if was[i] >= 0 {
			before, beforeHidden = c[was[i]], hc[was[i]]
		}
		kept, err := keep(v[i], h[i], before, beforeHidden, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return err
		}
		v[i] = kept
	}
	return nil
}

// said changes what says [Hidden] itself, so that it is not taken for a secret.
func said(v any) any {
	switch v := v.(type) {
	case string:
		if v == Hidden {
			return Hidden + " as text"
		}
	case map[string]any:
		for name, member := range v {
			v[name] = said(member)
		}
	case []any:
		for i, item := range v {
			v[i] = said(item)
		}
	}
	return v
}

// clone copies a document.
func clone(document map[string]any) map[string]any {
	text, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	copied, _ := decodeJSON(text)
	return copied
}
