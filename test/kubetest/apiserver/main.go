// The program that package kubetest starts: one process with etcd and kube-apiserver in it, and nothing else of
// Kubernetes. It is a module of its own, so that the several hundred modules that Kubernetes needs do not become
// dependencies of those who use Nagi.
//
//	apiserver [-temporary dir] -store dir -certificate file -key file -- [flags of kube-apiserver]
//
// Standard input ties it to the process that started it: a line "stop" ends it in good order; the end of the input
// without one says that the other process died, and then it leaves at once and removes the directory named by
// -temporary, whose path has to be absolute. So nothing is left behind even by a test that was killed.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	store := flag.String("store", "", "the `directory` in which etcd keeps its data")
	temporary := flag.String("temporary", "", "a `directory` to remove if the process that started this one dies")
	certFile := flag.String("certificate", "", "a `file`, for etcd and for its clients, signed by itself")
	keyFile := flag.String("key", "", "a `file` with the key of the certificate")
	flag.Parse()
	if err := run(*store, *temporary, *certFile, *keyFile, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(store, temporary, certFile, keyFile string, args []string) error {
	command := app.NewAPIServerCommand()
	// A Ctrl-C goes to every process of the terminal. The one that started us decides when the API server has to end.
	signal.Ignore(os.Interrupt)
	if temporary != "" {
		var err error
		if store, err = enter(temporary, store); err != nil {
			return err
		}
	}
	go watchParent(temporary)

	etcd, err := startEtcd(store, certFile, keyFile)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer etcd.Close()
	command.SetArgs(append([]string{
		"--etcd-servers=https://" + etcd.Clients[0].Addr().String(),
		"--etcd-cafile=" + certFile, "--etcd-certfile=" + certFile, "--etcd-keyfile=" + keyFile,
	}, args...))
	return command.Execute()
}

// enter makes the directory the working directory, and returns the store's path from there. A directory that was removed
// cannot be made again by a relative path, as etcd would do if the other process dies while etcd starts.
func enter(temporary, store string) (fromThere string, err error) {
	if err := os.Chdir(temporary); err != nil {
		return "", fmt.Errorf("enter the temporary directory: %w", err)
	}
	return filepath.Rel(temporary, store)
}

// watchParent ends the process when standard input says so, also while it starts.
func watchParent(temporary string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "stop" {
			genericapiserver.RequestShutdown()
		}
	}
	if temporary != "" {
		removeAll(temporary)
	}
	os.Exit(1)
}

// removeAll removes a directory in which etcd may still be writing.
func removeAll(dir string) {
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
