package page

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// plot is a line over the last minutes, as SVG.
type plot struct {
	Name   string
	Points string // of a polyline
	Now    string // the last value, with its unit
	Most   string // the largest, if it is another one; "" if it is not
	Label  string // for who does not see it
}

// The size of a plot, in its own units.
const (
	plotWidth  = 240.0
	plotHeight = 40.0
	plotTime   = mostSamples * sampleInterval
)

// point is a value at a time. One that is not known is NaN.
type point struct {
	at    time.Time
	value float64
}

// newPlot draws points up to now, from 0 to the largest.
func newPlot(name, unit string, points []point, now time.Time) plot {
	highest, last := 0.0, math.NaN()
	for _, p := range points {
		if !math.IsNaN(p.value) {
			highest, last = max(highest, p.value), p.value
		}
	}
	var b strings.Builder
	for _, p := range points {
		x := plotWidth * (1 - float64(now.Sub(p.at))/float64(plotTime))
		if math.IsNaN(p.value) || x < 0 {
			continue
		}
		y := plotHeight - 1
		if highest > 0 {
			y -= (plotHeight - 2) * p.value / highest
		}
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	shown := plot{Name: name, Points: strings.TrimSpace(b.String()), Now: "–"}
	if !math.IsNaN(last) {
		shown.Now = short(last) + unit
	}
	if most := short(highest) + unit; highest > 0 && most != shown.Now {
		shown.Most = most
	}
	shown.Label = fmt.Sprintf("%s of the last ten minutes: now %s, at most %s%s", name, shown.Now, short(highest), unit)
	return shown
}

// short is a number with as many digits as people read.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.1f", v)
	case v < 10000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.0fk", v/1000)
}

// gauge are the values that the samples have.
func (c *controllerHistory) gauge(of func(s *sample) float64) (points []point) {
	for i := range c.samples {
		value := math.NaN()
		if c.samples[i].stats != nil {
			value = of(&c.samples[i])
		}
		points = append(points, point{c.samples[i].at, value})
	}
	return points
}

// rate are the differences of a counter, in a second. Where it went back another replica counts from its own start.
func (c *controllerHistory) rate(of func(s *sample) float64) (points []point) {
	all := c.gauge(of)
	for i := 1; i < len(all); i++ {
		seconds := all[i].at.Sub(all[i-1].at).Seconds()
		value := (all[i].value - all[i-1].value) / seconds
		if seconds <= 0 || value < 0 {
			value = math.NaN()
		}
		points = append(points, point{all[i].at, value})
	}
	return points
}
