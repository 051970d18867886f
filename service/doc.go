// Package service makes the controllers of a process reachable over NATS, with the services API: what waits and why is
// asked for, and a key is reconciled, resumed or unparked, wherever NATS reaches. No port of HTTP is needed.
//
//	nc, err := nats.Connect(url, nats.UserInfo("nagi-service", secret), // a connection of its own,
//		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort()) // which comes back after every outage
//	svc, err := service.New(service.Config{Conn: nc})
//	c, err := controller.New("sites", sites, reconciler, svc.Controller())
//	err = m.Add(c, svc) // a manager.Manager; or run both: c.Run(ctx), svc.Run(ctx)
//
// A process has one service, which "nats micro ls" lists, with a group for each controller. A request is
//
//	nats req nagi.sites.read.explain '{"key":"home"}'
//
// Subjects are <prefix>.<controller>.<read or act>.<verb>, and with a namespace at the end that verb for this namespace
// alone. So the permissions of a user's subjects say who may do what: verb and namespace are never taken from the body.
// docs/service.md has the verbs, docs/service.schema.json their requests and answers.
//
// Each replica subscribes, and the one that leads a controller answers for it; who asks need not know which that is. If
// none leads, a standby says so.
//
// # The connection
//
// A responder's answer goes to whatever subject the request names for it, with the rights of the responder. So the
// service has a connection of its own, whose user may publish to inboxes and nowhere else ([Config.Permissions]). The
// service itself refuses to answer elsewhere, too, and does nothing for such a request. But PING, INFO and STATS of the
// services API are answered by the library, wherever the request says: against that only the permissions help.
// [Service.Run] warns of a user who may publish to all buckets, to JetStream's API, below the service's own prefix, or
// anywhere. It does not find out a right to single subjects, as to one bucket. Do not give the user allow_responses,
// which allows every answer.
//
// By default nats.go closes a connection for good when a server is away for about two minutes, or refuses its user
// twice. [New] refuses such a connection, and says which options it lacks.
package service
