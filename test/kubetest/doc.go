// Package kubetest runs a real Kubernetes API server inside a test, and breaks it on purpose.
//
// The API server decides what a controller's requests do: defaults, validation, field managers, optimistic locking,
// admission, RBAC. A fake clientset imitates some of it and none of its bad days. Here a test gets the real thing in a
// few seconds: kube-apiserver and etcd in one process, on their own loopback port and with a temporary store:
//
//	func TestController(t *testing.T) {
//		srv := kubetest.Start(t)                                  // ended and removed when the test ends
//		clientset, err := kubernetes.NewForConfig(srv.Config())   // cluster admin, no limit on the client's side
//		...
//		srv.Kill()                                                // what a controller meets when a node dies
//		srv.Restart()                                             // same address, same credentials, same objects
//	}
//
// A program without a testing.TB, an example or a TestMain, uses [Open] and [Server.Close].
//
// # What is not there
//
// No controllers run: no Deployment gets its Pods, no owner reference is garbage-collected, no namespace goes from
// Terminating to gone, nothing is scheduled. A test that needs one of these does it by hand, often at a moment of its
// choice: it removes a finalizer, or sets the status of a Deployment to ready. The built-in roles view, edit and
// admin are empty, because a controller fills them. Pods need no ServiceAccount. Everything else of the API server is
// as in a cluster: custom resources, RBAC, server-side apply, admission policies and webhooks, watches.
//
// # Users
//
// [Server.Config] is a cluster administrator. [Server.ConfigFor] is a user without any rights until the test grants
// some with a Role and a RoleBinding. So a test finds out which rights a controller needs, and what it does without
// them.
//
// # Where the server comes from
//
// It is built from k8s.io/kubernetes, once per machine, by the Go module in the directory apiserver beside this
// package. The first time that takes minutes and network access. The binary, about 100 MB, is then kept in the user's
// cache directory, under a name that changes with its sources and the Go version, until it was not used for a month.
// Test processes that come meanwhile wait for the one build. If the build fails, the test fails with the compiler's
// output; no test is skipped. To build before tests with a time limit run:
//
//	go run github.com/nagi-runtime/nagi/test/kubetest/build
//
// These environment variables change that:
//
//   - NAGI_KUBETEST_BINARY: a ready-made binary; nothing is built.
//   - NAGI_KUBETEST_CACHE: the directory for built binaries.
//   - NAGI_KUBETEST_SOURCE: the directory of the module apiserver. Projects that have Nagi from the module cache need
//     it, because the cache does not hold modules inside of modules: a clone of Nagi has it in test/kubetest/apiserver.
//
// The package runs where Kubernetes does and files can be locked: Linux, macOS and other Unix systems.
package kubetest
