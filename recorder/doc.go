// Package recorder records events about NATS entities and Kubernetes objects: "Normal Synced", "Warning Failed".
//
// A [Recorder] is a client-go record.EventRecorder, and works wherever one is expected:
//
//	rec, err := recorder.New(recorder.Config{JetStream: js, Component: "website-controller"})
//	rec.RegisterKind("Website", &Website{})
//	defer rec.Close(ctx)
//	rec.Eventf(site, corev1.EventTypeWarning, "DNSFailed", "no address for %s", site.Spec.Host)
//
// Events about Kubernetes objects go to the API server, where kubectl describe shows them, if Config.Kubernetes says how:
// see package kuberecorder. Events about NATS entities become the same corev1.Event, as JSON, in a JetStream stream:
//
//	nagi.events.<kind>.<type>.<key as in NATS>.<id>     nagi.events.Website.Warning.shop.frontend.18b2f0c1d2e3f405
//
// so any NATS client reads and filters them:
//
//	nats sub 'nagi.events.>'                             everything, live
//	nats sub 'nagi.events.*.Warning.>'                   warnings of every kind
//	nats sub 'nagi.events.Website.*.shop.>'              websites of the namespace shop
//	nats sub 'nagi.events.Website.*.shop.frontend.*'     one website
//	nats stream view NAGI_EVENTS                         what is kept
//
// # What is kept
//
// The stream keeps one message per subject, and the id stays the same for repeats. So when the same thing happens to the
// same object again (same type, reason, message and source) the new message, with a higher count, a later lastTimestamp and the
// first firstTimestamp, takes the place of the former one. Whoever subscribes sees each of them. Events that differ
// in their message only are combined when there are ten of them in ten minutes, and an object that never stops
// causing events is throttled: 25 at once, then one every five minutes, per object, type and source. This is
// client-go's own record.EventCorrelator, and Config.Correlator changes its figures. A throttled repeat still counts:
// the next one that is published has the right count. Counts are kept in memory, so after a restart of the process a
// repeat is a new event, as with Kubernetes.
//
// Events age out after an hour, as they do in Kubernetes, and the stream is bounded in bytes; the oldest go first.
// The stream is created if it is missing and never changed afterwards. One whose settings do not fit is used as it is and
// reported, in the log and by [Recorder.Err].
//
// # What it never does
//
// Recording never blocks, never fails and never panics into a reconcile. Events wait in a bounded queue while the server
// they are for is away, and are sent when it is back. What does not fit is dropped, and [Recorder.Stats] tells how much of it.
//
// # Permissions
//
// Publish on nagi.events.> and subscribe on the connection's inbox (the acknowledgement). To create and check the stream,
// publish on $JS.API.STREAM.INFO.NAGI_EVENTS and $JS.API.STREAM.CREATE.NAGI_EVENTS as well; or create it by hand and set
// BindOnly. [Recorder.List] needs $JS.API.STREAM.INFO.NAGI_EVENTS, $JS.API.CONSUMER.CREATE.NAGI_EVENTS.>,
// $JS.API.CONSUMER.MSG.NEXT.NAGI_EVENTS.*, $JS.API.CONSUMER.INFO.NAGI_EVENTS.* and
// $JS.API.CONSUMER.DELETE.NAGI_EVENTS.*.
package recorder
