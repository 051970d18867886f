package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// shown are the modules whose versions the report names.
var shown = []string{
	"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go",
	"sigs.k8s.io/controller-runtime", "k8s.io/client-go",
}

// kubernetesVersion is the version that package kubetest builds, see test/kubetest/apiserver/go.mod. The server itself
// does not know it.
const kubernetesVersion = "v1.36.3"

// machine describes the machine and the versions of the report.
func (r *report) machine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | |\n|---|---|\n| when | %s, in %.0f min |\n",
		r.began.UTC().Format("2006-01-02 15:04 UTC"), r.took.Minutes())
	fmt.Fprintf(&b, "| machine | %d cores, %s, %s of memory, %s/%s |\n", runtime.NumCPU(),
		field("/proc/cpuinfo", "model name"), field("/proc/meminfo", "MemTotal"), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "| load before | %s |\n", r.load)
	fmt.Fprintf(&b, "| Go | %s |\n", runtime.Version())
	if r.kubernetes != "" {
		fmt.Fprintf(&b, "| kube-apiserver, etcd in its process | %s; "+
			"etcd without fsync, and NATS with its default of one in two minutes |\n",
			r.kubernetes)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.String()
	}
	for _, module := range info.Deps {
		for _, name := range shown {
			if module.Path == name {
				fmt.Fprintf(&b, "| %s | %s |\n", name, module.Version)
			}
		}
	}
	return b.String()
}

// load returns how many processes wanted a core in the last 1, 5 and 15 minutes.
func load() string { return strings.Join(strings.Fields(contents("/proc/loadavg"))[:3], ", ") }

func contents(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "? ? ?"
	}
	return string(data)
}

// field returns the first value of that name in a file of lines "name: value".
func field(path, name string) string {
	for line := range strings.Lines(contents(path)) {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return "unknown"
}
