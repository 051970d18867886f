package kubetest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A writer of etcd has all rights in Kubernetes, and any user of the machine can connect to its ports.
func TestOnlyTheAPIServerTalksToItsEtcd(t *testing.T) {
	s := Start(t)
	asked := 0
	for _, port := range listening(t, s.process.cmd.Process.Pid) {
		if port == s.port {
			continue
		}
		asked++
		for _, scheme := range []string{"http", "https"} {
			client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
			}}
			response, err := client.Get(fmt.Sprintf("%s://127.0.0.1:%d/version", scheme, port))
			if err != nil {
				continue
			}
			response.Body.Close()
			if response.StatusCode != http.StatusBadRequest { // which says: speak TLS
				t.Errorf("port %d answers %s to a stranger who speaks %s", port, response.Status, scheme)
			}
		}
	}
	if asked == 0 {
		t.Error("found no port of etcd")
	}
}

func TestCredentialsAreReadableByNobodyElse(t *testing.T) {
	dir := t.TempDir()
	readable := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(readable, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newCredentials(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", entry.Name(), info.Mode(), err)
		}
	}
}

// listening returns the TCP ports on which a process listens.
func listening(t *testing.T, pid int) (ports []int) {
	t.Helper()
	sockets := map[string]bool{}
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(target, "socket:[") {
			sockets[strings.Trim(target, "socket:[]")] = true
		}
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// number, local address, remote address, state (0A: listens), …, inode
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" || !sockets[fields[9]] {
			continue
		}
		_, port, _ := strings.Cut(fields[1], ":")
		number, err := strconv.ParseInt(port, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, int(number))
	}
	return ports
}
