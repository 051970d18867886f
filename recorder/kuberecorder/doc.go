// Package kuberecorder takes a recorder's events about Kubernetes objects to the API server, where kubectl describe
// shows them:
//
//	rec, err := recorder.New(recorder.Config{
//		JetStream:  js,                          // for events about NATS entities
//		Kubernetes: kuberecorder.New(clientset), // for events about Kubernetes objects
//		Component:  "website-controller",
//	})
//	defer rec.Close(ctx)
//	rec.Event(deployment, corev1.EventTypeNormal, "Synced", "4 pages, 2 routes")
//
// It is a package of its own because it needs client-go's typed clientset, which takes a newcomer's first build long to
// compile. Package recorder works without it.
//
// # How events are sent
//
// Events go through client-go's own broadcaster and correlator. So repeats raise the count of one event, similar events
// are combined, and an object that never stops causing events is throttled, as in every Kubernetes controller.
//
// One thing differs: the wait for a server that is away. The broadcaster gives an event up after a few tries. Here
// events wait in its queue until the server is back, or until they are older than the recorder's MaxAge.
//
// A refusal is final: the event counts as failed, and [recorder.Recorder.Err] says which right is missing. A server
// that has just started is asked again, because it answers 403 until it has loaded the rules of RBAC.
//
// # Permissions
//
// The verbs create and patch on events of the core API, in the namespaces of the objects, and in the namespace default
// for objects without a namespace.
package kuberecorder
