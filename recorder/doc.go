// Package recorder records events about NATS entities and Kubernetes objects: "Normal Synced", "Warning Failed".
//
// A [Recorder] is a client-go record.EventRecorder, and works wherever one is expected:
//
//	rec, err := recorder.New(recorder.Config{JetStream: js, Component: "website-controller"})
//	rec.RegisterKind("Website", &Website{})
//	defer rec.Close(ctx)
//	rec.Eventf(site, corev1.EventTypeWarning, "DNSFailed", "no address for %s", site.Spec.Host)
//
// Events about Kubernetes objects go to the API server, where kubectl describe shows them. Config.Kubernetes is the way
// there; package kuberecorder makes one. Events about NATS entities become the same corev1.Event, as JSON, in a
// JetStream stream:
//
//	nagi.events.<kind>.<type>.<key as in NATS>.<id>     nagi.events.Website.Warning.shop.frontend.18b2f0c1d2e3f405
//
// Any NATS client reads and filters them:
//
//	nats sub 'nagi.events.>'                             everything, live
//	nats sub 'nagi.events.*.Warning.>'                   warnings of every kind
//	nats sub 'nagi.events.Website.*.shop.>'              websites of the namespace shop
//	nats sub 'nagi.events.Website.*.shop.frontend.*'     one website
//	nats stream view NAGI_EVENTS                         what is kept
//
// # What is kept
//
// A repeat is the same thing happening to the same object again: same type, reason, message and source. The stream
// keeps one message per subject, and a repeat has the subject of the first. So it takes the place of the former
// message, with a higher count, a later lastTimestamp and the same firstTimestamp. A subscriber sees each of them.
//
// Events that differ in their message only are combined when there are ten of them in ten minutes. An object that never
// stops causing events is throttled: 25 at once, then one every five minutes, per object, type and source. A throttled
// repeat still counts: the next one that is published has the right count. All this is client-go's own
// record.EventCorrelator, and Config.Correlator changes its figures. Counts are kept in memory. After a restart of the
// process a repeat is a new event, as with Kubernetes.
//
// Events age out after an hour, as in Kubernetes. The stream is bounded in bytes too; the oldest events go first.
// The recorder creates the stream if it is missing and never changes one that is there. It uses a stream whose settings
// do not fit as it is, and reports what is wrong in the log and by [Recorder.Err].
//
// # What it never does
//
// Recording never blocks, never fails and never panics into a reconcile. While a server is away, its events wait in a
// bounded queue. They are sent when it is back. Events that do not fit are dropped, and [Recorder.Stats] counts them.
//
// # Permissions
//
// To publish: nagi.events.>. To subscribe: the connection's inbox, for acknowledgements.
//
// To create and check the stream, publish on $JS.API.STREAM.INFO.NAGI_EVENTS and $JS.API.STREAM.CREATE.NAGI_EVENTS; or
// create it by hand and set BindOnly.
//
// To list events, publish on $JS.API.STREAM.INFO.NAGI_EVENTS, $JS.API.CONSUMER.CREATE.NAGI_EVENTS.>,
// $JS.API.CONSUMER.MSG.NEXT.NAGI_EVENTS.*, $JS.API.CONSUMER.INFO.NAGI_EVENTS.* and
// $JS.API.CONSUMER.DELETE.NAGI_EVENTS.*.
package recorder
