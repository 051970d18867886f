package running

import (
	"bytes"
	"path"
	"runtime"
	"strconv"
	"strings"
)

const (
	// mostDump bounds the text of all stacks, of which one is taken. A goroutine beyond is not found.
	mostDump = 16 << 20
	// mostStack bounds what is shown of a stack.
	mostStack = 3000
)

// goroutine is the number of the calling goroutine, as stacks have it.
func goroutine() uint64 {
	var buffer [64]byte
	text := buffer[:runtime.Stack(buffer[:], false)] // goroutine 17 [running]:
	number, _, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// dump is the stacks of all goroutines. The program stands still meanwhile.
func dump() []byte {
	for size := 256 << 10; ; size *= 4 {
		buffer := make([]byte, min(size, mostDump))
		if n := runtime.Stack(buffer, true); n < len(buffer) || size >= mostDump {
			return buffer[:n]
		}
	}
}

// stackOf finds the stack of a goroutine and writes it in one line, the innermost call first: what it waits for, and
// then each function with file and line, as far as the reconciler goes.
func stackOf(stacks []byte, id uint64) string {
	header := []byte("goroutine " + strconv.FormatUint(id, 10) + " ")
	at := 0
	if !bytes.HasPrefix(stacks, header) {
		if at = bytes.Index(stacks, append([]byte("\n\n"), header...)); at < 0 || id == 0 {
			return "its goroutine was not found"
		}
		at += len("\n\n")
	}
	stack, _, _ := bytes.Cut(stacks[at:], []byte("\n\n"))
	lines := strings.Split(string(stack), "\n")
	state := strings.Trim(strings.TrimPrefix(lines[0], string(header)), "[]:")
	frames := make([]string, 0, len(lines)/2)
	for i := 1; i+1 < len(lines); i += 2 {
		function, file := lines[i], strings.TrimSpace(lines[i+1])
		if strings.Contains(function, "nagi/internal/guard.Call") {
			break // below is the runtime
		}
		if last := strings.LastIndexByte(function, '('); last > 0 {
			function = function[:last] // its arguments are addresses
		}
		file, _, _ = strings.Cut(file, " ")
		frames = append(frames, path.Base(function)+" ("+path.Join(path.Base(path.Dir(file)), path.Base(file))+")")
	}
	text := state + ": " + strings.Join(frames, " < ")
	if len(text) > mostStack {
		text = text[:mostStack] + "…"
	}
	return text
}
