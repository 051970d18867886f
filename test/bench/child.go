package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// childVariable is set in the processes that this program starts from itself, and names their role.
const childVariable = "NAGI_BENCH_CHILD"

// profileVariable names the directory for profiles; without it none are written.
const profileVariable = "NAGI_BENCH_PROFILE"

// request and answer are one line each, in JSON.
type request struct {
	Do   string
	With json.RawMessage
}

type answer struct {
	Error  string          `json:",omitempty"`
	Result json.RawMessage `json:",omitempty"`
}

// command is one thing that a child does when its parent asks.
type command func(ctx context.Context, with json.RawMessage) (any, error)

// role makes the commands of a child from its configuration. stop is called when the parent closes the child's input.
type role func(ctx context.Context, config json.RawMessage) (commands map[string]command, stop func() error, err error)

var roles = map[string]role{
	"nats":       roleNATS,
	"controller": roleController,
	"engine":     roleEngine,
	"cache":      roleCache,
	"scale":      roleScale,
	"watched":    roleWatched,
}

// serveChild reads the configuration, then request after request. It ends when in ends, also when the parent dies.
func serveChild(name string, in io.Reader, out io.Writer) int {
	ctrl.SetLogger(klog.Background()) // to standard error, which is shown if something fails
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer profiled(name)()
	lines := bufio.NewReader(in)
	encoder := json.NewEncoder(out)
	reply := func(result any, err error) {
		a := answer{}
		if err == nil {
			a.Result, err = json.Marshal(result)
		}
		if err != nil {
			a.Error = err.Error()
		}
		_ = encoder.Encode(a) // if the parent is gone, the next read says so
	}
	config, err := lines.ReadBytes('\n')
	if err != nil {
		return 1
	}
	start, ok := roles[name]
	if !ok {
		reply(nil, fmt.Errorf("there is no role %q", name))
		return 1
	}
	commands, stop, err := start(ctx, config)
	reply(struct{}{}, err)
	if err != nil {
		return 1
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		reply(perform(ctx, commands, line))
	}
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop:", err)
		return 1
	}
	return 0
}

// profiled writes a CPU profile of this process until stop is called, if profileVariable is set.
func profiled(name string) (stop func()) {
	dir := os.Getenv(profileVariable)
	if dir == "" {
		return func() {}
	}
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}
}

func perform(ctx context.Context, commands map[string]command, line []byte) (any, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	if do, ok := commands[r.Do]; ok {
		return do(ctx, r.With)
	}
	if r.Do == "usage" {
		return usageNow()
	}
	return nil, fmt.Errorf("there is no command %q", r.Do)
}

// writeHeap writes a heap profile of what is in use, if profileVariable is set.
func writeHeap(name string) error {
	dir := os.Getenv(profileVariable)
	if dir == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.heap.pprof", name, os.Getpid())))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close())
}

// heapNow returns the size of the live heap after garbage collections.
func heapNow() float64 {
	runtime.GC()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
