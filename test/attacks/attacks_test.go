package attacks

import (
	"fmt"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/test/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// attempt is one role's try at an attack.
type attempt struct {
	*world
	role role
	js   jetstream.JetStream
	sent int // messages and subscriptions

	allowed bool // the role may have the rights for it
	began   time.Time
	calls   int    // of the reconciler before
	logged  int    // bytes of the log before
	records uint64 // what was written to the status bucket before
}

// send publishes as the role.
func (a *attempt) send(subject, reply, payload string, header ...string) {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: []byte(payload), Header: nats.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	must(a.t, a.js.Conn().PublishMsg(m))
	a.sent++
}

// attack is something to try. Those in may have the rights for it, and the code has to hold; the server refuses it to
// all others.
type attack struct {
	name string
	may  string // roles, or "all"
	do   func(a *attempt)
	// after checks what an attack must not have done beside what none may, once all is dealt with.
	after func(a *attempt)
	// strays says that something may lie where it does not belong afterwards, a document's key included: nobody
	// promises otherwise within an account. It must not matter.
	strays bool
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
		{name: "rollup of all by a document", may: "tenant1 writer operator", do: func(a *attempt) {
			a.send(own, "", `{}`, "Nats-Rollup", "all")
		}},
		{name: "rollup of all by a secondary", may: "pagewriter", do: func(a *attempt) {
			a.send("$KV.pages.ns1.mine", "", `{}`, "Nats-Rollup", "all")
		}},
		{name: "rollup of a key", may: "tenant1 writer operator", do: func(a *attempt) {
			a.send(own, "", `{}`, "Nats-Rollup", "sub")
		}},
		{name: "a record", may: "", do: func(a *attempt) { a.send("$KV.sites-status.ns2.s0", "", forged("ns2/s0")) }},
		{name: "a record of what never was", may: "", do: func(a *attempt) {
			a.send("$KV.sites-status.ns2.never", "", forged("ns2/never"))
		}},
		{name: "a record of the own namespace", may: "", do: func(a *attempt) {
			a.send("$KV.sites-status.ns1.s0", "", forged("ns1/s0"))
		}},
		{name: "the lease", may: "", do: func(a *attempt) {
			a.send("$KV.sites-status._nagi.lease", "", `{}`)
		}},
		{name: "the installation", may: "", do: func(a *attempt) {
			a.send("$KV.sites-status._nagi.instance", "", "another")
		}},
		{name: "a release of nothing", may: "operator", do: func(a *attempt) {
			a.send("$KV.sites-status._nagi.release", "", "now")
		}},
		{name: "a document of another namespace", may: "operator", do: func(a *attempt) {
			if a.role.name != "operator" { // who may do that
				a.send("$KV.sites.ns2.s0", "", `{}`)
			}
		}},
		{name: "the record of a secondary", may: "", do: func(a *attempt) {
			a.send("$KV.pages-status.ns2.s0", "", `{}`)
		}},
		{name: "an owner in another namespace", may: "pagewriter", do: func(a *attempt) { a.own("ns2/s0") },
			after: (*attempt).nothingOfNS2IsReconciled},
		{name: "an owner that never was", may: "pagewriter", do: func(a *attempt) { a.own("ns2/never") }},
		{name: "a later revision of an owner that never was", may: "pagewriter", do: func(a *attempt) {
			a.ownAt("ns1/never", "1000000@"+a.streamOfSites())
		}, after: (*attempt).teardownsGoOn},
		{name: "a revision that an owner that never was has in another stream", may: "pagewriter",
			do: func(a *attempt) { a.ownAt("ns1/never", "1@2026-01-01T00:00:00Z") }, after: (*attempt).teardownsGoOn},
		{name: "an owner with escape sequences", may: "pagewriter", do: func(a *attempt) {
			a.own("ns1/\\u001b[31m\\nforged")
		}},
		{name: "a key with escape sequences", may: "tenant1 writer operator", do: func(a *attempt) {
			a.send("$KV.sites.ns1.a\x1b[31mb", "", `{}`)
		}},
		{name: "a document with escape sequences", may: "tenant1 writer operator", do: func(a *attempt) {
			a.send(own, "", `{"metadata":{"name":"\u001b[31m\nforged"},"sp\u001b[31m\nforged":1}`)
			a.send(own+"2", "", "{\"a\x1b[31m\nforged\":")
		}},
		{name: "large and deep documents", may: "tenant1 writer operator", do: func(a *attempt) {
			deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
			large := `{"spec":{"title":"` + strings.Repeat("x", 900<<10) + `"}}`
			for i := range 10 {
				a.send(fmt.Sprintf("$KV.sites.ns1.deep%d", i), "", deep)
				a.send(fmt.Sprintf("$KV.sites.ns1.large%d", i), "", large)
			}
		}},
		{name: "a wildcard for a key", may: "tenant1 writer operator", do: func(a *attempt) {
			a.send("$KV.sites.ns1.>", "", "", "KV-Operation", "PURGE", "Nats-Rollup", "sub")
			a.send("$KV.sites.ns1.*", "", "", "KV-Operation", "DEL")
		}},
	}
	all = append(all, floods()...)
	for name, key := range targets {
		all = append(all, attack{name: "an answer into " + name, may: "all", strays: true, do: func(a *attempt) {
			a.send(a.role.subject, key, a.role.payload)
		}}, attack{name: "a stored message into " + name, may: "reader typist operator", strays: true, do: func(a *attempt) {
			a.send("$JS.API.STREAM.MSG.GET.KV_sites", key, `{"last_by_subj":"$KV.sites.ns1.s0"}`)
		}})
	}
	return append(all, apiAttacks()...)
}

// forged is a record that says of a key that it owes a teardown.
func forged(key string) string {
	return `{"schemaVersion":1,"controller":"sites","observedRevision":1,"lastDocument":{"spec":{"title":"` +
		key + `"}}}`
}

// own puts a page that says that a site owns it.
func (a *attempt) own(owner string) { a.ownAt(owner, "1") }

// ownAt is own with a revision of the site.
func (a *attempt) ownAt(owner, revision string) {
	_, leader := a.leading()
	instance := ""
	if leader != nil {
		instance = leader.Instance()
	}
	a.send("$KV.pages.ns1.claims", "", claimingAt(owner, instance, revision))
}

// claiming is a page that says that a site of an installation owns it.
func claiming(owner, instance string) string { return claimingAt(owner, instance, "1") }

func claimingAt(owner, instance, revision string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:"Site",%q:"%s",%q:%q,%q:%q}}}`,
		entity.OwnerKindAnnotation, entity.OwnerKeyAnnotation, owner, entity.OwnerInstanceAnnotation, instance,
		entity.OwnerRevisionAnnotation, revision)
}

// streamOfSites is the identity of the documents' stream, which each page of a site carries.
func (a *attempt) streamOfSites() string {
	page, err := a.replicas[0].pages.Get(a.t.Context(), "ns2/s0")
	must(a.t, err)
	_, stream, _ := strings.Cut(page.Annotations[entity.OwnerRevisionAnnotation], "@")
	return stream
}

// teardownsGoOn checks that what nobody was seen to delete is still torn down, while it runs and at a start, and that a
// release that is for others leaves alone what the attack wrote.
func (a *attempt) teardownsGoOn() {
	stream, err := a.admin.Stream(a.t.Context(), "KV_sites")
	must(a.t, err)
	lost := func(name string, meanwhile func()) {
		a.put("$KV.sites.ns3."+name, "{}")
		natstest.Eventually(a.t, name+" has its page", func() bool { return len(a.keys("pages", "ns3."+name)) == 1 })
		a.settle()
		a.close()
		must(a.t, purge(a.t.Context(), stream, "$KV.sites.ns3."+name))
		meanwhile()
		a.world.replicas = nil
		a.start()
		a.start()
	}
	went := func(name string) {
		natstest.Eventually(a.t, "the page of "+name+" goes", func() bool { return len(a.keys("pages", "ns3."+name)) == 0 })
	}
	lost("lost", func() {})
	went("lost")
	claims := a.value("pages", "ns1.claims")
	lost("held", func() { a.put("$KV.sites-status._nagi.brake", `{"engaged":true,"reason":"by hand"}`) })
	natstest.Eventually(a.t, "the brake holds it, and nothing else", func() bool {
		_, leader := a.leading()
		if leader == nil {
			return false
		}
		state := leader.Stats().Brake
		return state.Engaged && state.Held == 1 && state.Swept == 0 && leader.Stats().Sweeps > 2
	})
	_, leader := a.leading()
	must(a.t, leader.ReleaseBrake(a.t.Context()))
	went("held")
	a.unharmed(a.t)
	if now := a.value("pages", "ns1.claims"); now != claims || claims == "" {
		a.t.Errorf("the page of what never was is %q, and was %q", now, claims)
	}
}
