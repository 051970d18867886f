package kubetest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/test/kubetest"
	"github.com/nagi-runtime/nagi/test/natstest"
)

// childVariable makes the test binary a program that starts a server and waits to be killed. If its value is down, the
// program kills its server before it waits.
const (
	childVariable = "NAGI_KUBETEST_TEST_CHILD"
	down          = "down"
)

func beKilled() {
	srv, err := kubetest.Open(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv(childVariable) == down {
		srv.Kill()
	}
	fmt.Println(srv.Config().Host)
	select {}
}

// startChild starts a process that opens a server and stores below the directory, and returns the process's output.
func startChild(t *testing.T, how string) (child *exec.Cmd, output *bufio.Reader, temporary string) {
	t.Helper()
	temporary = t.TempDir()
	child = exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+how, "TMPDIR="+temporary)
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

// leavesNothing kills the child, and checks that its server and its files go.
func leavesNothing(t *testing.T, child *exec.Cmd, temporary string) {
	t.Helper()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it says that it was killed
	natstest.Eventually(t, "the server is gone", func() bool { return len(processes(t, temporary)) == 0 })
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestAKilledTestLeavesNoServerAndNoStore(t *testing.T) {
	t.Parallel()
	child, output, temporary := startChild(t, "up")
	line, _ := output.ReadString('\n')
	if started, stored := processes(t, temporary), files(t, temporary); !strings.HasPrefix(line, "https://") ||
		len(started) != 1 || len(stored) != 1 {
		t.Fatalf("it started %v with %v and said %q", started, stored, line)
	}
	leavesNothing(t, child, temporary)
}

func TestATestThatIsKilledWhileItsServerStartsLeavesNothing(t *testing.T) {
	t.Parallel()
	child, _, temporary := startChild(t, "up")
	natstest.Eventually(t, "the server starts", func() bool { return len(processes(t, temporary)) == 1 })
	leavesNothing(t, child, temporary)
}

// Not parallel: it sets the directory for temporary files.
func TestTheStoreOfAKilledTestWhoseServerWasDownGoesWithTheNextServer(t *testing.T) {
	child, output, temporary := startChild(t, down)
	line, _ := output.ReadString('\n')
	stored := files(t, temporary)
	if !strings.HasPrefix(line, "https://") || len(stored) != 1 {
		t.Fatalf("it has %v and said %q", stored, line)
	}
	t.Setenv("TMPDIR", temporary)
	open := func() *kubetest.Server {
		srv, err := kubetest.Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		return srv
	}
	ours := open()
	if both := files(t, temporary); len(both) != 2 {
		t.Fatalf("there are %v, of two who live", both)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it says that it was killed
	ours.Kill()      // a store without a server is no orphan while its process lives
	next := open()
	if left := files(t, temporary); len(left) != 2 || slices.Contains(left, stored[0]) {
		t.Errorf("there are %v, of which %v are a dead process's", left, stored)
	}
	if err := ours.Restart(); err != nil {
		t.Error(err)
	}
	ours.Close()
	next.Close()
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// processes returns the command lines of all servers that store below dir.
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
