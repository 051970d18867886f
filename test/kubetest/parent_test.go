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

func TestAKilledTestLeavesNoServerAndNoStore(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+temporary)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	started, stored := processes(t, temporary), files(t, temporary)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it says that it was killed
	if !strings.HasPrefix(line, "https://") || len(started) != 1 || len(stored) != 1 {
		t.Fatalf("it started %v with %v and said %q", started, stored, line)
	}
	eventually(t, "the server is gone", func() bool { return len(processes(t, temporary)) == 0 })
	if left := files(t, temporary); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
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
