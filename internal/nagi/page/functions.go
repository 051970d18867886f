package page

import (
	"html/template"
	"time"

	"github.com/nagi-runtime/nagi/internal/nagi/out"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// functions are what templates call.
var functions = template.FuncMap{
	"ago":     func(t time.Time) string { return out.Age(time.Since(t)) },
	"until":   func(t time.Time) string { return out.Age(time.Until(t)) },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"text":    func(s string) string { return printable.Text(firstLine(s)) },
	"inc":     func(n int) int { return n + 1 },
	"add":     func(a, b int) int { return a + b },
	"seconds": func(d time.Duration) string { return d.Round(max(time.Microsecond, d/1000)).String() },
}
