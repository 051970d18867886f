package natscli

import "fmt"

// endsWith expects an exit code of a command of nagi, in place of 0.
func endsWith(command string, code int) func(*walk) []string {
	return func(*walk) []string { return []string{command, fmt.Sprintf("%s || test $? = %d", command, code)} }
}

// counted fills in the count that a verb of the service lists, as the page has it in a command of nagi.
func counted(verb string) func(*walk) []string {
	return held("operator", "websites", verb, "<engagement>", "<count>")
}

// oncall begins with an engaged brake, over an empty bucket.
var oncall = []step{
	{page: "docs/oncall.md", as: "operator", command: "nats stream info KV_websites", shows: []string{"Messages: 0"}},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi get --not-ok", with: endsWith("nagi get --not-ok", 4),
		shows: []string{"Website", "held"},
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi doctor", with: endsWith("nagi doctor", 4),
		shows: []string{"brake"},
	},
	{page: "docs/oncall.md", as: "operator", command: "nagi top", shows: []string{"websites"}},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi brake", with: endsWith("nagi brake", 4),
		shows: []string{"websites", "engaged"},
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi brake websites", with: endsWith("nagi brake websites", 4),
		shows: []string{"shop", "nagi restore Website"},
	},
	{page: "docs/oncall.md", as: "operator", command: "nagi restore websites --list", shows: []string{"shop", "13"}},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi restore websites --expect <count>",
		with: counted("brake-vanished"), shows: []string{"13"},
		check: func(w *walk, _ string) {
			w.has(w.sh("operator", "nats stream info KV_websites"), "Messages: 13")
			w.until(`"engaged":false`, "operator", "nats req nagi.websites.read.brake-list ''")
		},
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi brake release websites --expect <count>",
		before: vanish("writer", "operator", "websites", ""), with: counted("brake-list"),
		check: tornDown("operator", "websites"),
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi brake release websites --expect <count> --offline",
		before: vanish("writer", "operator", "websites", ""), with: counted("brake-list"),
		check: tornDown("operator", "websites"),
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nats kv get websites-status _nagi.lease --raw", check: decodes,
		shows: []string{`"holderIdentity":"`, `"renewTime":"`},
	},
	{page: "docs/oncall.md", as: "operator", command: "nats stream info KV_websites-status", shows: []string{"Maximum Bytes"}},
	{
		page: "docs/oncall.md", command: "nats --context=admin stream edit KV_websites-status --max-bytes=<more>", asks: true,
		with: func(*walk) []string { return []string{"<more>", "67108864"} }, shows: []string{"67108864"},
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi why websites/shop", before: failed,
		shows: []string{"failed for good", "no such domain", "nagi unpark Website/shop"},
	},
	{page: "docs/oncall.md", as: "operator", command: "nagi why", shows: []string{"no such domain"}},
	{page: "docs/oncall.md", as: "operator", command: "nagi events --warnings", shows: []string{"no such domain"}},
	{page: "docs/oncall.md", as: "operator", command: "nagi unpark websites/shop", shows: []string{"Website/shop"}},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi edit websites/shop",
		with: func(*walk) []string {
			return []string{"nagi edit", `EDITOR='sed -i s/nowhere/shop.example/' nagi edit`}
		},
		check: func(w *walk, _ string) { w.recorded("reader", "websites", "shop", "Synced") },
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi suspend websites/shop --reason '<why>'",
		check: func(w *walk, _ string) { w.recorded("reader", "websites", "shop", "Suspended") },
	},
	{
		page: "docs/oncall.md", as: "operator", command: "nagi resume websites/shop",
		check: func(w *walk, _ string) { w.recorded("reader", "websites", "shop", "Synced") },
	},
}
