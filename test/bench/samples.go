package main

import (
	"math"
	"slices"
)

// quantile returns a quantile of samples by the nearest rank, NaN without samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func median(samples []float64) float64 { return quantile(samples, 0.5) }
