package natscli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const tasksPage = "docs/nagi-tasks.md"

// task is a row of the page: what to do, and the lines that do it.
type task struct{ what, nats, natsCount, nagi, nagiCount string }

var tableRow = regexp.MustCompile("(?m)^\\| ([A-Z][^|`]*) \\| `(.*)` \\| (\\d+ \\+ \\d+) \\| `(.*)` \\| (\\d+ \\+ \\d+) \\|$")

func tasksOf(t *testing.T) (all []task) {
	t.Helper()
	pipe := strings.NewReplacer(`\|`, "|")
	for _, row := range tableRow.FindAllStringSubmatch(readPage(t, tasksPage), -1) {
		all = append(all, task{row[1], pipe.Replace(row[2]), row[3], pipe.Replace(row[4]), row[5]})
	}
	return all
}

var (
	quoted  = regexp.MustCompile(`'[^']*'`)
	program = regexp.MustCompile(`(?:^|[|;]|\bdo\b|\buntil\b|\bwhile\b|\$\()\s*(nats|nagi|jq|sed|sort|sleep)\b`)
)

// counts are the programs of a line, and the pipes between them.
func counts(line string) string {
	line = quoted.ReplaceAllString(line, "''")
	return fmt.Sprintf("%d + %d", len(program.FindAllString(line, -1)), pipesIn(line))
}

// pipesIn counts those between programs: one to a loop is one to the program in it.
func pipesIn(line string) int { return strings.Count(line, "|") }

// TestTheTenTasks of the page are done by each of the two lines, which are counted as the page says.
func TestTheTenTasks(t *testing.T) {
	tasks := tasksOf(t)
	if len(tasks) != 10 {
		t.Fatalf("%d tasks are on %s", len(tasks), tasksPage)
	}
	for _, one := range tasks {
		if got := counts(one.nats); got != one.natsCount {
			t.Errorf("%s: with nats it is %s, and the page says %s", one.what, got, one.natsCount)
		}
		if got := counts(one.nagi); got != one.nagiCount {
			t.Errorf("%s: with nagi it is %s, and the page says %s", one.what, got, one.nagiCount)
		}
	}
	w := begin(t)
	beginProduction(w)
	blog := put("writer", "reader", "websites", "blog", `{"spec":{"title":"Blog"}}`, "Synced")
	blog(w)
	failed(w)
	// What both lines of a task show, or what there is afterwards.
	shows := [][]string{
		{"shop", "Terminal", "blog", "Synced"}, {"shop", "no such domain"}, {"no such domain"}, nil, nil, {"blog"}, nil, {"blog"},
		nil, nil,
	}
	document := func(says string) func() {
		return func() { w.has(w.sh("reader", "nats kv get websites blog --raw"), says) }
	}
	after := map[int]func(){
		3: document(`"title":"New"`), 4: document(`"tier":"gold"`),
		8: func() { w.recorded("reader", "websites", "blog", "Suspended") },
		9: func() {
			if out, _, err := w.try("reader", "nats kv get websites-status blog --raw"); err == nil {
				t.Errorf("its record is still there: %s", out)
			}
		},
	}
	for i, one := range tasks {
		for _, line := range []string{one.nats, one.nagi} {
			switch {
			case i == 3:
				blog(w)
			case i == 8:
				w.sh("operator", "nagi resume websites/blog")
				w.recorded("reader", "websites", "blog", "Synced")
			case i == 9:
				blog(w)
			}
			out, said, err := w.try("operator", line)
			if fails := strings.HasPrefix(line, "nagi get --not-ok"); err != nil && !fails || strings.Contains(said, "Violation") {
				t.Fatalf("%s: %s: %v\n%s%s", one.what, line, err, out, said)
			}
			w.has(out, shows[i]...)
			if check := after[i]; check != nil {
				check()
			}
		}
	}
}
