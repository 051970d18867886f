package attacks

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// attempt is one role's try at an attack.
type attempt struct {
	*world
	role role
	js   jetstream.JetStream
}

// send publishes as the role.
func (a *attempt) send(subject, reply, payload string, header ...string) {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: []byte(payload), Header: nats.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	must(a.t, a.js.Conn().PublishMsg(m))
}

// attack is something to try. Those in may have the rights for it, and the code has to hold; the server refuses it to
// all others.
type attack struct {
	name string
	may  string // roles, or "all"
	do   func(a *attempt)
}

func (k attack) allowed(r role) bool {
	return k.may == "all" || strings.Contains(" "+k.may+" ", " "+r.name+" ")
}

// targets are keys that an answer of the server must not work in.
var targets = map[string]string{
	"the release":                     "$KV.sites-status._nagi.release",
	"the lease":                       "$KV.sites-status._nagi.lease",
	"the brake's state":               "$KV.sites-status._nagi.brake",
	"whose bucket it is":              "$KV.sites-status._nagi.controller",
	"the installation":                "$KV.sites-status._nagi.instance",
	"the stream":                      "$KV.sites-status._nagi.stream",
	"intents":                         "$KV.sites-status._nagi.intents.ns2.s0",
	"what is left":                    "$KV.sites-status._nagi.left.ns2.s0",
	"a record of another namespace":   "$KV.sites-status.ns2.s0",
	"the record of what never was":    "$KV.sites-status.ns2.never",
	"a document of another namespace": "$KV.sites.ns2.s0",
}

// attacks are tried by each role.
func attacks() []attack {
	const own = "$KV.sites.ns1.mine"
	all := []attack{
		{"rollup of all by a document", "tenant1 writer operator", func(a *attempt) {
			a.send(own, "", `{}`, "Nats-Rollup", "all")
		}},
		{"rollup of all by a secondary", "pagewriter", func(a *attempt) {
			a.send("$KV.pages.ns1.mine", "", `{}`, "Nats-Rollup", "all")
		}},
		{"rollup of a key", "tenant1 writer operator", func(a *attempt) {
			a.send(own, "", `{}`, "Nats-Rollup", "sub")
		}},
		{"a record", "", func(a *attempt) { a.send("$KV.sites-status.ns2.s0", "", forged("ns2/s0")) }},
		{"a record of what never was", "", func(a *attempt) {
			a.send("$KV.sites-status.ns2.never", "", forged("ns2/never"))
		}},
		{"a record of the own namespace", "", func(a *attempt) { a.send("$KV.sites-status.ns1.s0", "", forged("ns1/s0")) }},
		{"the lease", "", func(a *attempt) { a.send("$KV.sites-status._nagi.lease", "", `{}`) }},
		{"the installation", "", func(a *attempt) { a.send("$KV.sites-status._nagi.instance", "", "another") }},
		{"a release of nothing", "operator", func(a *attempt) { a.send("$KV.sites-status._nagi.release", "", "now") }},
		{"a document of another namespace", "", func(a *attempt) {
			if a.role.name != "operator" { // who may
				a.send("$KV.sites.ns2.s0", "", `{}`)
			}
		}},
		{"the record of a secondary", "", func(a *attempt) { a.send("$KV.pages-status.ns2.s0", "", `{}`) }},
		{"an owner in another namespace", "pagewriter", func(a *attempt) { a.own("ns2/s0") }},
		{"an owner that never was", "pagewriter", func(a *attempt) { a.own("ns2/never") }},
		{"an owner with escape sequences", "pagewriter", func(a *attempt) { a.own("ns1/\\u001b[31m\\nforged") }},
		{"a key with escape sequences", "tenant1 writer operator", func(a *attempt) {
			a.send("$KV.sites.ns1.a\x1b[31mb", "", `{}`)
		}},
		{"a document with escape sequences", "tenant1 writer operator", func(a *attempt) {
			a.send(own, "", `{"metadata":{"name":"\u001b[31m\nforged"},"sp\u001b[31m\nforged":1}`)
			a.send(own+"2", "", "{\"a\x1b[31m\nforged\":")
		}},
		{"large and deep documents", "tenant1 writer operator", func(a *attempt) {
			deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
			large := `{"spec":{"title":"` + strings.Repeat("x", 900<<10) + `"}}`
			for i := range 10 {
				a.send(fmt.Sprintf("$KV.sites.ns1.deep%d", i), "", deep)
				a.send(fmt.Sprintf("$KV.sites.ns1.large%d", i), "", large)
			}
		}},
		{"a wildcard for a key", "tenant1 writer operator", func(a *attempt) {
			a.send("$KV.sites.ns1.>", "", "", "KV-Operation", "PURGE", "Nats-Rollup", "sub")
			a.send("$KV.sites.ns1.*", "", "", "KV-Operation", "DEL")
		}},
	}
	for name, key := range targets {
		all = append(all, attack{"an answer into " + name, "all", func(a *attempt) {
			a.send(a.role.subject, key, a.role.payload)
		}})
	}
	return append(all, apiAttacks()...)
}

// forged is a record that says of a key that it owes a teardown.
func forged(key string) string {
	return `{"schemaVersion":1,"controller":"sites","observedRevision":1,"lastDocument":{"spec":{"title":"` + key + `"}}}`
}

// own puts a page that says that a site owns it.
func (a *attempt) own(owner string) {
	_, leader := a.leading()
	instance := ""
	if leader != nil {
		instance = leader.Instance()
	}
	a.send("$KV.pages.ns1.claims", "", `{"metadata":{"annotations":{"nagi/owner-kind":"Site","nagi/owner-key":"`+owner+
		`","nagi/owner-instance":"`+instance+`"}}}`)
}
