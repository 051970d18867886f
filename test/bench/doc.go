// Bench measures Nagi beside what a user would pick instead, on the same work and in the same run, and writes what it found
// as Markdown.
//
//	make bench                                     # everything, into docs/benchmarks.md; some 25 minutes on two cores
//	go run . -scale 0.5 -out ../../docs/benchmarks.md   # in this directory: half the sizes, in some 13 minutes
//	go run . -scale 0.01 -only job,engine          # two sections, small, to the terminal
//
// Who takes part runs in a process of its own: the NATS server (JetStream, file storage), the API server (kube-apiserver and
// etcd, from package kubetest), and each controller, whose CPU seconds and memory are read from the kernel. This process is
// the user: it writes primaries and watches for their status. All of them share the machine's cores.
//
// Each measurement is taken several times in turns (ours, theirs, ours, theirs), so that what else the machine does hits all
// alike. A controller starts anew for each turn, in a bucket or a namespace of its own.
//
// A section_*.go file is one section of the report: what is done, and what is asked of it. controller_nagi.go and
// controller_other.go are the two controllers, written as their documentation says. The rest is the frame.
package main
