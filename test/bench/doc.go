// Bench measures Nagi beside the tools that a user would pick instead, on the same work and in the same run, and writes
// a report in Markdown.
//
//	make bench                                     # everything, into docs/benchmarks.md; some 30 minutes on two cores
//	go run . -scale 0.5 -out ../../docs/benchmarks.md   # in this directory: half the sizes, in some 16 minutes
//	go run . -scale 0.01 -only job,engine          # two sections, small, to the terminal
//	go run . -only observation                     # what metrics and traces cost; some 5 minutes
//
// Each part runs in its own process: the NATS server (JetStream, file storage), the API server (kube-apiserver and
// etcd, from package kubetest), and each controller. Their CPU seconds and memory are read from the kernel. This
// process is the user: it writes primaries and watches for their status. All processes share the machine's cores.
//
// Each measurement is taken several times in turns (ours, theirs, ours, theirs), so that other work of the machine
// hits all alike. A controller starts anew for each turn, in its own bucket or namespace.
//
// A section_*.go file is one section of the report: the work, and the figures that the project asks of it.
// controller_nagi.go and controller_other.go are the two controllers, written as their documentation says. The rest
// is the frame.
package main
