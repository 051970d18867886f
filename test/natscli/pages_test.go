package natscli

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are pages whose commands other tests run.
var elsewhere = []string{"docs/restoring.md", "docs/nagi.md", tasksPage}

// mentioned are commands that the pages name, and do not show how to give.
var mentioned = []string{
	"nats kv add", "nats kv get", "nats kv ls", "nats kv put", "nats micro info", "nats req",
	"nats --inbox-prefix=_INBOX_operator", "nats nagi", "nagi apply", "nagi describe", "nagi get", "nagi validate",
	// Tests of the tool run these.
	"nagi apply -f", "nagi init sites --kind Site", "nagi ui", "nagi get --not-ok -n shop", "nagi why -n shop",
	"nagi why KIND/shop/home",
}

// onPage is a command of the nats command line, or of nagi, as a page shows it, without what follows a pipe.
type onPage struct{ page, command string }

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	must(t, err)
	return string(text)
}

var (
	fence      = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	inlineCode = regexp.MustCompile("`((?:nats|nagi) [^`]+)`")
	ofShell    = regexp.MustCompile(`\$\(((?:nats|nagi) [^|)]+)`)
	comment    = regexp.MustCompile(`\s+#.*`)
)

// commandsOf finds the commands of a page: the lines of blocks that begin with nats or nagi, with a prompt or without, and what
// stands in a line of text. What has an ellipsis is a form of commands, and none.
func commandsOf(text string) (found []string) {
	add := func(command string) {
		command, _, _ = strings.Cut(command, " | ")
		command = strings.TrimSpace(comment.ReplaceAllString(command, ""))
		if !strings.Contains(command, "…") && !slices.Contains(mentioned, command) {
			found = append(found, command)
		}
	}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if block[1] != "" && block[1] != "sh" {
			continue
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(block[2], "\\\n", " "), "\n") {
			line = strings.TrimPrefix(strings.Join(strings.Fields(line), " "), "$ ")
			if inShell := ofShell.FindStringSubmatch(line); inShell != nil {
				line = inShell[1]
			}
			if strings.HasPrefix(line, "nats ") || strings.HasPrefix(line, "nagi ") {
				add(line)
			}
		}
	}
	for _, code := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		add(strings.Join(strings.Fields(code[1]), " "))
	}
	return found
}

// TestEachCommandOfThePagesIsRun: by one of the walks, which say what it shows.
func TestEachCommandOfThePagesIsRun(t *testing.T) {
	run := map[onPage]bool{}
	for _, walk := range walks {
		for _, step := range walk.steps {
			run[onPage{step.page, step.command}] = false
		}
	}
	paths, err := filepath.Glob(root + "/docs/*.md")
	must(t, err)
	for _, path := range append(paths, root+"/README.md") {
		page, err := filepath.Rel(root, path)
		must(t, err)
		if slices.Contains(elsewhere, page) {
			continue
		}
		for _, command := range commandsOf(readPage(t, page)) {
			if _, ok := run[onPage{page, command}]; !ok {
				t.Errorf("%s: no walk runs %s", page, command)
			}
			run[onPage{page, command}] = true
		}
	}
	for of, there := range maps.All(run) {
		if !there {
			t.Errorf("a walk runs what %s does not have: %s", of.page, of.command)
		}
	}
}
