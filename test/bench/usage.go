package main

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// usage is what a process has consumed.
type usage struct {
	CPU      float64 // seconds, in user and kernel mode
	Resident float64 // bytes now
	Peak     float64 // the most bytes it ever had resident
}

func usageNow() (usage, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return usage{}, fmt.Errorf("getrusage: %w", err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage{}, fmt.Errorf("read the process's memory, which needs Linux: %w", err)
	}
	cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	return usage{CPU: cpu.Seconds(), Resident: kilobytes(status, "VmRSS:"), Peak: kilobytes(status, "VmHWM:")}, nil
}

func kilobytes(status []byte, name string) float64 {
	_, rest, _ := bytes.Cut(status, []byte(name))
	var n float64
	_, _ = fmt.Sscan(string(rest[:min(len(rest), 32)]), &n) // 0 where there is none
	return n * 1024
}
