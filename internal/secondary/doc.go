// Package secondary writes what a primary is to own: it says whose an object is, and who may change it, in NATS and in
// Kubernetes alike.
package secondary
