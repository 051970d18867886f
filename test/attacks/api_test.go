package attacks

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// apiAttacks are those with requests to the JetStream API, and those who listen.
func apiAttacks() []attack {
	const api = "$JS.API."
	return []attack{
		// Who knows the names, which are random, has the controller list once more.
		{name: "deleting the controller's consumers", may: "typist", do: func(a *attempt) {
			a.deleteConsumers("sites", "sites-status")
		}},
		{name: "deleting the controller's consumers of what it owns", may: "", do: func(a *attempt) {
			a.deleteConsumers("pages", "pages-status")
		}},
		{name: "asking for the names of consumers", may: "", do: func(a *attempt) {
			a.send(api+"CONSUMER.NAMES.KV_sites", "", "")
			a.send(api+"CONSUMER.LIST.KV_sites", "", "")
		}},
		{name: "changing a stream", may: "", do: func(a *attempt) {
			a.send(api+"STREAM.UPDATE.KV_sites", "", `{"name":"KV_sites","subjects":["$KV.sites.>"],"max_msgs":1}`)
			a.send(api+"STREAM.PURGE.KV_sites", "", "")
			a.send(api+"STREAM.DELETE.KV_sites", "", "")
			a.send(api+"STREAM.MSG.DELETE.KV_sites", "", `{"seq":1}`)
			a.send(api+"STREAM.SNAPSHOT.KV_sites", "", `{"deliver_subject":"x"}`)
		}},
		{name: "creating the stream anew", may: "bootstrap", do: func(a *attempt) {
			a.send(api+"STREAM.CREATE.KV_sites", "",
				`{"name":"KV_sites","subjects":["$KV.sites.>"],"max_msgs":1,"storage":"memory","discard":"old"}`)
		}},
		{name: "a message into another bucket, by direct get", may: "tenant1 typist", strays: true, do: func(a *attempt) {
			a.send(api+"DIRECT.GET.KV_sites.$KV.sites.ns1.s0", "$KV.sites-status.ns2.never", "")
			a.send(api+"DIRECT.GET.KV_sites.$KV.sites.ns1.s0", "$KV.sites-status._nagi.lease", "")
		}},
		{name: "a message elsewhere, by a consumer that pushes", may: "reader typist", strays: true, do: func(a *attempt) {
			for name, key := range map[string]string{"p1": "$KV.sites-status.ns2.never", "p2": "$KV.pages.ns2.s0"} {
				a.consumer(name, `,"deliver_subject":"`+key+`"`)
			}
		}},
		{name: "a message elsewhere, by a consumer that is asked", may: "reader typist", strays: true, do: func(a *attempt) {
			a.consumer("p3", "")
			a.send(api+"CONSUMER.MSG.NEXT.KV_sites.p3", "$KV.sites-status.ns2.never", `{"batch":10}`)
		}},
		{name: "hearing other people's inboxes", may: "", do: func(a *attempt) {
			a.listen("_INBOX.>", "_INBOX_controller.>")
		}},
		{name: "hearing the JetStream API", may: "", do: func(a *attempt) {
			a.listen("$JS.API.>", "$JS.EVENT.>", "$JS.ACK.>", ">")
		}},
		{name: "hearing documents", may: "", do: func(a *attempt) { a.listen("$KV.sites.>", "$KV.pages.>") }},
	}
}

// deleteConsumers deletes all consumers of these buckets.
func (a *attempt) deleteConsumers(buckets ...string) {
	for _, bucket := range buckets {
		for _, name := range a.consumers(bucket) {
			a.send("$JS.API.CONSUMER.DELETE.KV_"+bucket+"."+name, "", "")
		}
	}
}

// consumer makes a consumer of the bucket of sites.
func (a *attempt) consumer(name, more string) {
	a.send("$JS.API.CONSUMER.CREATE.KV_sites."+name+".$KV.sites.>", "", fmt.Sprintf(
		`{"stream_name":"KV_sites","config":{"name":%q,"deliver_policy":"all","ack_policy":"none",`+
			`"filter_subject":"$KV.sites.>","mem_storage":true%s}}`, name, more))
}

// consumers are the names of a bucket's consumers, which an administrator tells.
func (a *attempt) consumers(bucket string) (names []string) {
	stream, err := a.admin.Stream(a.t.Context(), "KV_"+bucket)
	must(a.t, err)
	for name := range stream.ConsumerNames(a.t.Context()).Name() {
		names = append(names, name)
	}
	return names
}

// listen subscribes, and complains about what it hears of others while the controller works. A tenant may listen in its
// own account, where there is nothing to hear.
func (a *attempt) listen(subjects ...string) {
	for _, subject := range subjects {
		_, err := a.js.Conn().Subscribe(subject, func(m *nats.Msg) {
			if !a.mayHear(m.Subject) {
				a.t.Errorf("%s hears %s: %s", a.role.name, m.Subject, m.Data)
			}
		})
		must(a.t, err)
		a.sent++
	}
}
