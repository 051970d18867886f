package kubetest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/kubetest"
)

// childVariable makes the test binary a program that starts a server and waits to be killed.
const childVariable = "NAGI_KUBETEST_TEST_CHILD"

func beKilled() {
	srv, err := kubetest.Open(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(srv.Config().Host)
	select {}
}

// startChild starts a process that opens a server and stores below the directory. What it says is its output.
func startChild(t *testing.T) (child *exec.Cmd, output *bufio.Reader, temporary string) {
	t.Helper()
	temporary = t.TempDir()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+temporary)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // if the test ends early
		_ = child.Wait()
	})
	return child, bufio.NewReader(out), temporary
}

// leavesNothing kills the child, and sees that its server and its files go.
func leavesNothing(t *testing.T, child *exec.Cmd, temporary string) {
	t.Helper()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it says that it was killed
	eventually(t, "the server is gone", func() bool { return len(processes(t, temporary)) == 0 })
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestAKilledTestLeavesNoServerAndNoStore(t *testing.T) {
	t.Parallel()
	child, output, temporary := startChild(t)
	line, _ := output.ReadString('\n')
	if started, stored := processes(t, temporary), files(t, temporary); !strings.HasPrefix(line, "https://") || len(started) != 1 || len(stored) != 1 {
		t.Fatalf("it started %v with %v and said %q", started, stored, line)
	}
	leavesNothing(t, child, temporary)
}

func TestATestThatIsKilledWhileItsServerStartsLeavesNothing(t *testing.T) {
	t.Parallel()
	child, _, temporary := startChild(t)
	eventually(t, "the server starts", func() bool { return len(processes(t, temporary)) == 1 })
	leavesNothing(t, child, temporary)
}

// processes are the command lines of all servers that store below dir.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-ww", "-o", "args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "-store "+dir) {
			found = append(found, line)
		}
	}
	return found
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
