package natscli

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// walks are on a server each, in the order of their steps.
var walks = []struct {
	name  string
	begin func(w *walk)
	steps []step
}{
	{"quickstart", beginQuickstart, quickstart},
	{"production", beginProduction, append(append(production, records...), oncall...)},
	{"kinds", beginKinds, kinds},
	{"sites", beginSites, sites},
	{"tenants", beginTenants, tenants},
}

func beginQuickstart(w *walk) {
	w.serve("")
	w.start(w.shell("", "exec quickstart -serve -url "+w.url+" >quickstart.log 2>&1"))
	w.untilTrue("the quickstart has played its scenario", func() bool {
		said, err := os.ReadFile(filepath.Join(w.dir, "quickstart.log"))
		return err == nil && strings.Contains(string(said), "Interrupt to stop")
	})
}

var quickstart = []step{
	{
		page: "README.md", as: nobody,
		command: `nats kv put websites shop '{"spec":{"domain":"shop.example","pages":["home"]}}'`,
		shows:   []string{"shop.example"},
	},
	{page: "README.md", as: nobody, command: "nagi get websites", shows: []string{"NAME", "shop", "Synced"}},
	{page: "README.md", as: nobody, command: "nagi tree websites/shop", shows: []string{"pages/shop.home", "routes/shop"}},
	{page: "README.md", as: nobody, command: "nagi why websites/shop", shows: []string{"It is as it should be"}},
	{page: "README.md", as: nobody, command: "nagi get --not-ok"},
	{
		page: "README.md", command: `nats plugins register nagi "$(which nagi)"`,
		check: func(w *walk, _ string) { w.has(w.sh("", "nats --server="+w.url+" nagi get websites"), "shop") },
	},
	{
		page: "README.md", as: nobody, command: "nats kv get websites-status shop --raw",
		before: func(w *walk) { w.recorded(nobody, "websites", "shop", "Synced") },
		shows:  []string{`"phase":"Synced"`, `"url":"https://shop.example/"`},
	},
}

func beginProduction(w *walk) {
	w.printRoles()
	w.configure("docs/production.md")
	w.saveContexts()
	w.runProgram()
	w.until("nagi", "operator", "nats micro ls")
	w.until("Website", "reader", "nats kv ls nagi-kinds")
	put("writer", "reader", "websites", "shop", `{"spec":{"title":"Shop"}}`, "Synced")(w)
}

var (
	putShop = put("writer", "reader", "websites", "shop", `{"spec":{"title":"Shop"}}`, "Synced")
	failed  = put("writer", "reader", "websites", "shop", `{"spec":{"domain":"nowhere"}}`, "Terminal")
)

var production = []step{
	{
		page:    "docs/production.md",
		command: "nats context save reader --server=nats://nats:4222 --user=reader --password='change me 5' --inbox-prefix=_INBOX_reader",
		shows:   []string{"_INBOX_reader"},
	},
	{
		page:    "docs/production.md",
		command: "nats context save operator --server=nats://nats:4222 --user=operator --password='change me 4' --inbox-prefix=_INBOX_operator",
		shows:   []string{"_INBOX_operator"},
	},
	{page: "docs/production.md", command: "nats --context=reader kv ls websites", shows: []string{"shop"}},
	{page: "docs/production.md", command: "nats --context=operator req nagi.websites.read.notok ''", shows: []string{`"keys":[]`}},
	{page: "docs/production.md", command: "nats --context=reader kv ls nagi-kinds", shows: []string{"Website"}},
	{
		page: "docs/production.md", command: "nats --context=reader kv get nagi-kinds Website --raw", check: decodes,
		shows: []string{`"schema"`, `"columns"`, `"owns"`, `"controllers"`},
	},
	{page: "docs/production.md", command: "nats --context=operator micro ls", shows: []string{"nagi"}},
	{
		page: "docs/production.md", command: `nats --context=operator req nagi.websites.read.explain '{"key":"shop"}'`,
		before: failed, shows: []string{"failed for good", "no such domain"},
	},
	{
		page: "docs/production.md", command: `nats --context=operator req nagi.websites.act.unpark '{"key":"shop"}'`,
		shows: []string{"{"},
	},
	{
		page: "docs/production.md", command: "nats --context=reader kv get websites-status shop --raw",
		shows: []string{`"phase":"Terminal"`, `"conditions":[`},
	},
}

var records = []step{
	{
		page: "docs/record.md", as: "reader", command: "nats kv get websites-status shop --raw", before: putShop,
		shows: []string{
			`"schemaVersion":1`, `"controller":"websites"`, `"observedRevision"`, `"stream"`, `"firstSeen"`,
			`"type":"Reconciled","status":"True"`, `"status":{"ready":true}`, `"statusRevision":1`, `"lastDocument"`,
			`"documentRevision"`, `"phase":"Synced"`,
		},
	},
	{
		page: "docs/record.md", as: "writer", command: `nats req '$KV.websites.shop' '{"spec":{"pages":3}}' --raw`,
		check: func(w *walk, out string) {
			revision := told[struct{ Seq int }](w, out).Seq
			w.untilTrue("the record says that the revision is done", func() bool {
				r := told[record](w, w.sh("reader", "nats kv get websites-status shop --raw"))
				return r.Phase == "Synced" && revision > 0 && r.ObservedRevision == revision
			})
		},
	},
	{
		page: "docs/record.md", as: "reader", command: "nats kv watch websites-status shop", endless: true,
		meanwhile: func(w *walk) { w.sh("writer", `nats kv put websites shop '{"spec":{"pages":4}}'`) },
		shows:     []string{`"pages":3`, `"pages":4`, `"phase":"Synced"`},
	},
	{
		page: "docs/record.md", as: "reader", command: "nats kv get websites-status shop --raw",
		before: put("writer", "reader", "websites", "shop", `{"spec":{"pages":"three"}}`, "Invalid"),
		check: func(w *walk, out string) {
			if r := told[record](w, out); r.Invalid.Path != "spec.pages" || r.ObservedRevision == 0 ||
				!strings.Contains(r.Invalid.Reason, "there is a JSON string at line 1") {
				w.Errorf("the record is %s", out)
			}
		},
	},
	{page: "docs/record.md", as: "reader", command: "nats kv get websites shop", before: putShop, shows: []string{"revision: "}},
	{page: "docs/record.md", as: "reader", command: "nats kv get websites-status shop", shows: []string{"revision: "}},
	{page: "docs/record.md", as: "reader", command: "nats stream info KV_websites", shows: []string{"created 20"}},
	{
		page: "docs/record.md", as: "reader", command: "nats kv get websites-status _nagi.brake",
		before: vanish("writer", "operator", "websites", ""), shows: []string{`"engaged":true`, `"reason"`},
	},
}

func beginKinds(w *walk) {
	w.serve("")
	w.sh(nobody, "exec websites -api-version=example.com/v1 -only=buckets")
	w.start(w.shell(nobody, "exec websites -api-version=example.com/v1"))
	w.until("Website", nobody, "nats kv ls nagi-kinds")
}

var kinds = []step{
	{page: "docs/kinds.md", as: nobody, command: "nats kv ls nagi-kinds", shows: []string{"Website.example.com"}},
	{
		page: "docs/kinds.md", as: nobody, command: "nats kv get nagi-kinds Website.example.com --raw", check: decodes,
		shows: []string{`"bucket":"websites"`},
	},
	{
		page: "docs/kinds.md", as: nobody, command: "nats stream info KV_websites --json",
		check: func(w *walk, out string) {
			of := told[struct {
				Config struct{ Metadata map[string]string }
			}](w, out).Config.Metadata
			if of["nagi.holds"] != "documents" || of["nagi.kind"] != "Website" || of["nagi.apiVersion"] != "example.com/v1" ||
				of["nagi.registry"] != "nagi-kinds" {
				w.Errorf("the metadata are %v", of)
			}
		},
	},
	{
		page: "docs/kinds.md", as: nobody, command: "nats kv del nagi-kinds Website.example.com -f",
		check: func(w *walk, _ string) { w.has(w.sh(nobody, "nats kv ls nagi-kinds"), "No keys") },
	},
}

func beginSites(w *walk) {
	flags := []string{"-kind=Site", "-bucket=sites", "-namespaced"}
	w.printRoles(flags...)
	w.configure("docs/production.md")
	w.saveContexts()
	w.runProgram(flags...)
	w.until("nagi", "operator", "nats micro ls")
	put("writer", "reader", "sites", "shop.home", `{"spec":{"domain":"nowhere"}}`, "Terminal")(w)
	put("writer", "reader", "sites", "ns1.home", `{"spec":{"title":"Home"}}`, "Synced")(w)
}

// at takes the place of the server and the user, which the page leaves open.
func at(user, password string) func(*walk) []string {
	return func(w *walk) []string {
		return []string{"nats --inbox", fmt.Sprintf("nats --server=%s --user=%s --password='%s' --inbox", w.url, user, password)}
	}
}

// both fills in what two do.
func both(a, b func(*walk) []string) func(*walk) []string {
	return func(w *walk) []string { return append(a(w), b(w)...) }
}

// young has three pages of a site that never was, as far as the buckets know, and one of another.
func young(w *walk) {
	w.Helper()
	instance := strings.TrimSpace(w.sh("admin", "nats kv get --raw sites-status _nagi.instance"))
	for page, site := range map[string]string{
		"young0": "shop/young", "young1": "shop/young", "young2": "shop/young", "adopted": "shop/former",
	} {
		w.sh("admin", fmt.Sprintf(`nats kv put pages shop.%s '{"metadata":{"annotations":{"kumori/ownerkind":"Site",`+
			`"kumori/ownerkey":"%s","nagi/ownerinstance":"%s"}}}'`, page, site, instance))
	}
}

// tornDownNothing checks that all that was held is there.
func tornDownNothing(w *walk, _ string) {
	w.Helper()
	w.until(`"engaged":false`, "operator", "nats req nagi.sites.read.brake-list ''")
	for i := range 12 {
		w.has(w.sh("admin", fmt.Sprintf("nats kv get --raw sites ns2.k%d", i)), "{")
	}
}

var sites = []step{
	{page: "docs/service.md", as: "operator", command: "nats micro ls", shows: []string{"nagi"}},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.read.keys '{"states":["parked"]}'`,
		shows: []string{`"key":"shop/home"`, `"state":"parked"`}, check: decodes,
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.read.explain '{"key":"shop/home"}'`,
		shows: []string{`"says":"The reconcile of revision 1 failed for good: terminal error: no such domain."`}, check: decodes,
	},
	{
		page: "docs/service.md", as: "operator", command: "nats req nagi.sites.read.notok ''", check: decodes,
		shows: []string{`"key":"shop/home"`, `"state":"parked"`, `"ageSeconds":`, `"message":"terminal error: no such domain"`},
		before: func(w *walk) {
			w.until(`"ageSeconds":`, "operator", "nats req nagi.sites.read.notok ''")
		},
	},
	{
		page: "docs/service.md", command: `nats --inbox-prefix=_INBOX_operator micro ls`, with: at("operator", "change me 4"),
		shows: []string{"nagi"},
	},
	{
		page: "docs/service.md", command: `nats --inbox-prefix=_INBOX_operator req nagi.sites.read.explain '{"key":"shop/home"}'`,
		with: at("operator", "change me 4"), shows: []string{"no such domain"},
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.act.unpark.shop '{"key":"shop/home"}'`,
		shows: []string{"{"},
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.read.brake-list ''`,
		before: vanish("writer", "operator", "sites", "ns2."), check: decodes,
		shows: []string{`{"brake":{"engaged":true,`, `"engagement":"`, `"count":14`, `"held":`, `"swept":`, `"pruned":`},
	},
	{
		page: "docs/service.md", as: "operator", command: "nats req nagi.sites.read.brake-vanished ''", check: decodes,
		shows: []string{`"engagement":"`, `"count":14`},
	},
	{
		page: "docs/service.md", as: "operator", before: young, // the sweep that follows the restore finds them
		command: `nats req nagi.sites.act.brake-restore '{"engagement":"wjbTxEHrFHYeLYGVeKQjQU","count":11}'`,
		with:    held("operator", "sites", "brake-vanished", "wjbTxEHrFHYeLYGVeKQjQU", "11"),
		shows:   []string{`{"count":14}`}, check: tornDownNothing,
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req --raw nagi.sites.read.orphans '{"limit":1000}'`,
		before: func(w *walk) { w.until("shop/young", "operator", "nats req --raw nagi.sites.read.orphans ''") },
		shows:  []string{`"owner":"shop/young"`, `"why":"neverWas"`}, check: decodes,
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.read.orphans '{"owner":"shop/young"}'`,
		shows: []string{`"list":"`, `"count":3`}, check: decodes,
	},
	{
		page: "docs/service.md", as: "operator",
		command: `nats req nagi.sites.act.orphans-delete '{"list":"5f1c0b6a9d3e7248","expect":3,"owner":"shop/young"}'`,
		with:    orphanList("operator", "sites", "5f1c0b6a9d3e7248"),
		shows:   []string{`"deleted":3`, `"left":0`},
		check: func(w *walk, _ string) {
			if left := w.sh("admin", "nats kv ls pages"); strings.Contains(left, "young") {
				w.Errorf("left are %s", left)
			}
		},
	},
	{
		page: "docs/service.md", as: "operator", command: `nats req nagi.sites.read.orphans '{"owner":"shop/former"}'`,
		shows: []string{`"list":"`, `"adoptable":1`}, check: decodes,
	},
	{
		page: "docs/service.md", as: "operator",
		command: `nats req nagi.sites.act.orphans-adopt ` +
			`'{"list":"5f1c0b6a9d3e7248","expect":1,"owner":"shop/former","newOwner":"shop/home"}'`,
		with:  orphanList("operator", "sites", "5f1c0b6a9d3e7248"),
		shows: []string{`"adopted":1`, `"left":0`, `"skipped":0`},
		check: func(w *walk, _ string) {
			w.has(w.sh("admin", "nats kv get --raw pages shop.adopted"), `"kumori/ownerkey":"shop/home"`)
		},
	},
	{
		page: "docs/service.md", as: "operator",
		command: `nats req nagi.sites.act.brake-release ` +
			`'{"engagement":"wjbTxEHrFHYeLYGVeKQjQU","count":1,"list":"5f1c0b6a9d3e7248"}'`,
		before: vanish("writer", "operator", "sites", "ns2."),
		with:   heldList("operator", "sites", "wjbTxEHrFHYeLYGVeKQjQU", "1", "5f1c0b6a9d3e7248"),
		shows:  []string{`"count":14`, `"released":`}, check: tornDown("operator", "sites"),
	},
	{
		page: "docs/security.md", before: vanish("writer", "operator", "sites", "ns2."), with: at("operator", "change me 4"),
		command: "nats --inbox-prefix=_INBOX_operator req nagi.sites.read.brake-vanished ''",
		shows:   []string{`"engagement":"`, `"count":12`},
	},
	{
		page:    "docs/security.md",
		command: `nats --inbox-prefix=_INBOX_operator req nagi.sites.act.brake-restore '{"engagement":"<engagement>","count":<count>}'`,
		with: both(at("operator", "change me 4"),
			held("operator", "sites", "brake-vanished", "<engagement>", "<count>")),
		shows: []string{`{"count":12}`}, check: tornDownNothing,
	},
	{
		page:    "docs/security.md",
		command: `nats --inbox-prefix=_INBOX_operator kv put sites-status _nagi.release "<engagement> <count>"`,
		before:  vanish("writer", "operator", "sites", "ns2."),
		with: both(at("operator", "change me 4"),
			held("operator", "sites", "brake-list", "<engagement>", "<count>")),
		check: tornDown("operator", "sites"),
	},
	{
		page: "docs/security.md", command: "nats --inbox-prefix=_INBOX_reader kv get --raw sites-status ns1.home",
		before: put("writer", "reader", "sites", "ns1.home", `{"spec":{"title":"Home"}}`, "Synced"),
		with:   at("reader", "change me 5"), shows: []string{`"phase":"Synced"`},
	},
	{
		page:    "docs/security.md",
		command: `nats --inbox-prefix=_INBOX_operator req '$JS.API.STREAM.MSG.GET.KV_sites-status' '{"last_by_subj":"$KV.sites-status._nagi.instance"}'`,
		with:    at("operator", "change me 4"),
		check: func(w *walk, out string) {
			id, err := base64.StdEncoding.DecodeString(told[struct{ Message struct{ Data string } }](w, out).Message.Data)
			if err != nil || len(id) < 8 {
				w.Errorf("the id is %q, error %v", id, err)
			}
		},
	},
	{
		page: "docs/buckets.md", as: "admin",
		command: "nats stream add KV_sites-edge --mirror KV_sites --allow-msg-ttl --max-msgs-per-subject=1 --defaults",
		shows:   []string{"Mirror: KV_sites"},
		check: func(w *walk, _ string) {
			w.until("Home", "admin", `nats req '$JS.API.STREAM.MSG.GET.KV_sites-edge' '{"last_by_subj":"$KV.sites.ns1.home"}' | `+
				`grep -o '"data":"[^"]*' | cut -d'"' -f4 | base64 -d`)
		},
	},
	{
		page: "docs/security.md", as: "admin", command: "nats stream edit KV_sites --no-allow-rollup --subject-del-markers-ttl=0s -f",
		asks: true,
		before: func(w *walk) {
			w.sh("admin", "nats req '$JS.API.STREAM.DELETE.KV_sites' ''")
			w.sh("admin", "nats kv add sites")
			w.has(w.sh("admin", "nats stream info KV_sites --json"), `"allow_rollup_hdrs": true`)
		},
		check: func(w *walk, out string) {
			for line := range strings.SplitSeq(out, "\n") {
				if strings.HasPrefix(line, "+") && strings.Contains(line, "RollupAllowed:") && strings.Contains(line, "false") {
					return
				}
			}
			w.Errorf("rollups would not be denied by\n%s", out)
		},
	},
}

func beginTenants(w *walk) {
	const program = "-kind=Site -bucket=sites -namespaced -bare"
	w.configure("docs/security.md")
	w.sh("", "NATS_URL="+w.url+" PASSWORD='change me 7' exec websites -only=buckets -as=admin "+program)
	// The printed controller needs the bucket of pages, too.
	w.start(w.shell("", "NATS_URL="+w.url+" PASSWORD='change me 2' exec websites "+program))
	w.sh("", "nats context save tenant1 --server="+w.url+" --user=tenant1 --password='change me 6'")
}

var tenants = []step{
	{
		page: "docs/security.md", as: "tenant1", command: `nats req '$KV.sites.ns1.home' '{"spec":{"title":"Home"}}'`,
		shows: []string{`"seq":1`},
	},
	{
		page: "docs/security.md", as: "tenant1", command: `nats req '$JS.API.DIRECT.GET.KV_sites.$KV.sites.ns1.home' ''`,
		shows: []string{`"title":"Home"`},
	},
	{
		page: "docs/security.md", as: "tenant1",
		command: `nats req '$JS.API.DIRECT.GET.KV_sites-status.$KV.sites-status.ns1.home' ''`,
		before: func(w *walk) {
			w.until("Synced", "tenant1", `nats req '$JS.API.DIRECT.GET.KV_sites-status.$KV.sites-status.ns1.home' ''`)
		},
		shows: []string{`"phase":"Synced"`},
	},
	{
		page: "docs/security.md", as: "tenant1", command: `nats sub '$KV.sites-status.ns1.>'`, endless: true,
		meanwhile: func(w *walk) {
			w.sh("tenant1", `nats req '$KV.sites.ns1.home' '{"spec":{"domain":"nowhere"}}'`)
		},
		shows: []string{`no such domain`},
	},
	{
		page: "docs/security.md", as: "tenant1", command: `nats req '$KV.sites.ns1.home' '' -H KV-Operation:DEL`,
		shows: []string{`"seq":`},
		check: func(w *walk, _ string) {
			w.until("KV-Operation: PURGE", "tenant1",
				`nats req '$JS.API.DIRECT.GET.KV_sites-status.$KV.sites-status.ns1.home' '' 2>&1`) // it is torn down
		},
	},
}
