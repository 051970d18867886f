package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/internal/nagi/documents"
	"github.com/nagi-runtime/nagi/internal/nagi/kinds"
	"k8s.io/client-go/util/jsonpath"
)

// paths prints what a template of kubectl's dialect finds: in each document where it is one range over all of them, or
// where each is on its own, else in the list of all, which is held.
type paths struct {
	t        *tool
	template *jsonpath.JSONPath
	each     bool               // it is for each document
	tail     *jsonpath.JSONPath // what is printed at the end; nil for nothing

	kind *kinds.Kind
	held []any
	n    int
}

// perItem splits a template that is one range over all items into what is for each, and what comes behind.
var perItem = regexp.MustCompile(`(?s)^\{range \.items\[\*\]\}(.*?)\{end\}(.*)$`)

func (t *tool) newPaths(text string, one bool) (p *paths, err error) {
	if !strings.Contains(text, "{") {
		text = "{" + text + "}" // as kubectl takes it, too
	}
	p = &paths{t: t, each: one}
	if parts := perItem.FindStringSubmatch(text); parts != nil && !one && !strings.Contains(parts[1], "range ") &&
		!strings.Contains(parts[1], "$") && !strings.ContainsAny(parts[2], ".$@") {
		p.each, text = true, parts[1]
		if parts[2] != "" {
			if p.tail, err = parsePath(parts[2]); err != nil {
				return nil, err
			}
		}
	}
	p.template, err = parsePath(text)
	return p, err
}

func parsePath(text string) (*jsonpath.JSONPath, error) {
	p := jsonpath.New("nagi").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, usage(fmt.Errorf("-o jsonpath: %w", err))
	}
	return p, nil
}

func (p *paths) begin(k *kinds.Kind) error { p.kind = k; return nil }
func (p *paths) count() int                { return p.n }
func (p *paths) flush() error              { return nil }

func (p *paths) show(_ documents.Change, view map[string]any) error {
	p.n++
	object := plainNumbers(p.kind.Object(view))
	if p.each {
		return p.print(p.template, object)
	}
	p.held = append(p.held, object)
	return nil
}

func (p *paths) end() error {
	if !p.each {
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]any{}, p.held...)}
		return p.print(p.template, list)
	}
	if p.tail == nil {
		return nil
	}
	return p.print(p.tail, map[string]any{})
}

func (p *paths) print(template *jsonpath.JSONPath, object any) error {
	var b bytes.Buffer
	if err := template.Execute(&b, object); err != nil {
		return usage(fmt.Errorf("-o jsonpath: %w", err))
	}
	_, err := p.t.Out.Write(visible(b.String()))
	return err
}

// visible escapes what a terminal must not see, as Go writes it. Lines and tabs stay: the template has them.
func visible(text string) []byte {
	var b bytes.Buffer
	for _, r := range text {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.Bytes()
}

// plainNumbers makes numbers that filters of a template can compare. What neither an int64 nor a float64 tells exactly
// stays as it is written.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, one := range v {
			m[name] = plainNumbers(one)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, one := range v {
			l[i] = plainNumbers(one)
		}
		return l
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == v.String() {
			return f
		}
		return v.String()
	}
	return v
}
