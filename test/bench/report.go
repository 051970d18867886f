package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// report is everything that was measured.
type report struct {
	began   time.Time
	took    time.Duration
	load    string // of the machine, before
	scale   float64
	partial bool
	// kubernetes is the API server's version, "" if none was started.
	kubernetes string
	chapters   []*chapter
}

// chapter is a section's part of the report.
type chapter struct {
	title   string
	setup   string // the work, and how each competitor was set up
	figures []*figure
	reaches []reach
	notes   []string
	took    time.Duration
	failed  error
}

// figure is one quantity, measured for several subjects. The first is ours: the others are compared with it.
type figure struct {
	what     string
	unit     string
	more     bool // more is better; otherwise less is
	neutral  bool // neither is better
	subjects []*subject
}

// subject is one of those that were measured.
type subject struct {
	name    string
	samples []float64
}

// reach is a goal of the project, and whether it is met.
type reach struct {
	asked    string
	measured string
	met      bool
}

func (c *chapter) figure(what, unit string) *figure {
	f := &figure{what: what, unit: unit}
	c.figures = append(c.figures, f)
	return f
}

func (c *chapter) reach(met bool, asked, measured string, args ...any) {
	c.reaches = append(c.reaches, reach{asked: asked, measured: fmt.Sprintf(measured, args...), met: met})
}

func (c *chapter) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func (f *figure) higherIsBetter() *figure { f.more = true; return f }

// forInformation says that neither more nor less of the figure is better.
func (f *figure) forInformation() *figure { f.neutral = true; return f }

// add adds samples of a subject. A new subject comes after the others.
func (f *figure) add(name string, samples ...float64) {
	s := f.of(name)
	if s == nil {
		s = &subject{name: name}
		f.subjects = append(f.subjects, s)
	}
	s.samples = append(s.samples, samples...)
}

func (f *figure) of(name string) *subject {
	for _, s := range f.subjects {
		if s.name == name {
			return s
		}
	}
	return nil
}

// median returns the median of a subject. It is NaN if the subject was not measured; every comparison is then false.
func (f *figure) median(name string) float64 {
	if s := f.of(name); s != nil {
		return median(s.samples)
	}
	return math.NaN()
}

// markdown returns the whole report.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `make bench` (test/bench); do not edit. " +
		"Where a figure has several turns they were taken ours, theirs, ours, theirs, in one run;\n" +
		"median, and the least and the most. `better` and `worse` compare medians with Nagi's, " +
		"the first row of each figure;\n" +
		"**where somebody is better than Nagi it is in bold**. Absolute figures are this machine's: " +
		"all processes share its\n" +
		"cores, the servers and the one that plays the user included.\n\n")
	b.WriteString(r.machine())
	b.WriteString(r.caveat())
	for _, c := range r.chapters {
		c.markdown(&b)
	}
	return b.String()
}

// caveat says how this run differs from the full one, "" if it does not.
func (r *report) caveat() string {
	const tooSmall = 0.2
	var caveat string
	if r.scale != 1 {
		caveat += fmt.Sprintf(" Sizes and durations are %g of the full ones.", r.scale)
	}
	if r.scale < tooSmall {
		caveat += " With sizes so small the figures are worth nothing."
	}
	if r.partial {
		caveat += " Not all sections were run."
	}
	if caveat != "" {
		caveat = "\n**This is not the full run.**" + caveat + "\n"
	}
	return caveat
}

func (c *chapter) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", c.title, c.setup)
	if c.failed != nil {
		fmt.Fprintf(b, "\n**This section failed; what is below is what it had measured by then:**\n\n```\n%v\n```\n",
			c.failed)
	}
	if len(c.reaches) > 0 {
		b.WriteString("\n| asked | measured | |\n|---|---|---|\n")
		for _, r := range c.reaches {
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.asked, r.measured, verdict(r.met))
		}
	}
	if len(c.figures) > 0 {
		b.WriteString("\n| | | median | spread | turns | beside Nagi |\n|---|---|--:|--:|--:|---|\n")
		for _, f := range c.figures {
			f.markdown(b)
		}
	}
	for _, note := range c.notes {
		fmt.Fprintf(b, "\n%s\n", note)
	}
	fmt.Fprintf(b, "\nThis section took %.0f s.\n", c.took.Seconds())
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**not met**"
}

func (f *figure) markdown(b *strings.Builder) {
	what := f.what
	for _, s := range f.subjects {
		low, high := quantile(s.samples, 0), quantile(s.samples, 1)
		name, beside := s.name, f.beside(s)
		if strings.HasSuffix(beside, "better") && competes(name) {
			name, beside = "**"+name+"**", "**"+beside+"**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s – %s | %d | %s |\n", what, name, format(median(s.samples), f.unit),
			format(low, f.unit), format(high, f.unit), len(s.samples), beside)
		what = ""
	}
}

// competes reports whether a user could pick the subject instead of Nagi: it is no variant of ours, and it is a cache
// or a controller.
func competes(name string) bool {
	return !strings.HasPrefix(name, "Nagi") && !slices.Contains([]string{cacheRaw, jobBare, jobLess}, name)
}

// beside compares a subject with the first.
func (f *figure) beside(s *subject) string {
	if s == f.subjects[0] || f.neutral {
		return ""
	}
	ours, theirs := median(f.subjects[0].samples), median(s.samples)
	ratio := theirs / ours
	if f.more {
		ratio = ours / theirs
	}
	switch {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio <= 0:
		return ""
	case ratio >= 0.99 && ratio <= 1.01:
		return "the same"
	case ratio > 1:
		return times(ratio) + " worse"
	default:
		return times(1/ratio) + " better"
	}
}

// times writes a ratio with more digits the smaller it is.
func times(ratio float64) string {
	switch {
	case math.IsNaN(ratio):
		return "not measured"
	case ratio >= 20:
		return fmt.Sprintf("%.0f×", ratio)
	case ratio >= 10:
		return fmt.Sprintf("%.1f×", ratio)
	default:
		return fmt.Sprintf("%.2f×", ratio)
	}
}

// format writes a value with its unit in a readable size: seconds, bytes, or any other unit.
func format(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case unit == "s" && v < 1e-3:
		return fmt.Sprintf("%.0f µs", v*1e6)
	case unit == "s" && v < 1:
		return fmt.Sprintf("%.3g ms", v*1e3)
	case unit == "s":
		return fmt.Sprintf("%.2f s", v)
	case unit == "B" && v >= 1<<20:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case unit == "":
		return number(v)
	default:
		return number(v) + " " + unit
	}
}

// number writes 12345.6 as 12,346, and small ones with two digits after the point.
func number(v float64) string {
	if v != 0 && math.Abs(v) < 100 && v != math.Trunc(v) {
		return fmt.Sprintf("%.2f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
