package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the README and the pages of docs, by their paths from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	paths, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, root+"/README.md", root+"/SECURITY.md", root+"/CHANGELOG.md",
		root+"/CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(text)
	}
	return found
}

// TestTheREADMEIsForTheFirstTenMinutes: what is more goes into docs.
func TestTheREADMEIsForTheFirstTenMinutes(t *testing.T) {
	if length := len(pages(t)[root+"/README.md"]); length > 12_000 {
		t.Errorf("README.md has %d bytes; it is to have at most 12,000. Move what is not for the first ten minutes to docs", length)
	}
}

// TestTheIndexNamesEachPage that docs has.
func TestTheIndexNamesEachPage(t *testing.T) {
	all := pages(t)
	index := all[root+"/docs/README.md"]
	for path := range all {
		name := filepath.Base(path)
		if filepath.Dir(path) == root+"/docs" && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

var (
	linkInPage  = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	fenceInPage = regexp.MustCompile("(?s)```.*?```")
)

// TestLinksOfPagesLeadSomewhere: those to files of this repository.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	seen := 0
	for path, text := range pages(t) {
		for _, link := range linkInPage.FindAllStringSubmatch(fenceInPage.ReplaceAllString(text, ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, link[1], err)
			}
		}
	}
	if seen < 50 {
		t.Errorf("found %d links in all pages; the pattern does not find them", seen)
	}
}

var openingFence = regexp.MustCompile("^```[a-z]*$")

// brokenFence is the line of the first fence that is not one, or is never closed; 0 if all are well.
func brokenFence(text string) int {
	open := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "```"):
		case open > 0 && line == "```":
			open = 0
		case open == 0 && openingFence.MatchString(line):
			open = i + 1
		default:
			return i + 1
		}
	}
	return open
}

// TestEachCodeBlockOfAPageIsClosed: by ``` alone on its line, or all that follows is code to who reads the page.
func TestEachCodeBlockOfAPageIsClosed(t *testing.T) {
	for path, text := range pages(t) {
		if line := brokenFence(text); line > 0 {
			t.Errorf("%s:%d: a code block begins with ``` and at most a language, and ends with ``` alone on its line",
				path, line)
		}
	}
	for text, want := range map[string]int{
		"a\n```go\nb\n```\n": 0, "```\n```\n```sh\n": 3, "```go\nb\n\n```}\n": 4, "```go\n```go\n": 2,
	} {
		if got := brokenFence(text); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}

var (
	makeInPage   = regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9]+)")
	goRunInPage  = regexp.MustCompile(`go run (\./examples/\w+)`)
	goTestInPage = regexp.MustCompile("(?m)(?:^|`)go test ([^`\n]+)")
	benchInPage  = regexp.MustCompile(`make microbench PKGS=(\S+) BENCH=(\w+)`)
	onlyInPage   = regexp.MustCompile(`go run \. -only (\w+)`)
	targetOfMake = regexp.MustCompile(`(?m)^([a-z0-9]+):`)
)

// TestCommandsOfPagesExist: each target of make, each example, which CI runs, each test, benchmark and section that a page
// names. What the pages do with the nats command line is run by the tests of that.
func TestCommandsOfPagesExist(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(root + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	targets := map[string]bool{}
	for _, target := range targetOfMake.FindAllStringSubmatch(read("Makefile"), -1) {
		targets[target[1]] = true
	}
	ci, sections := read(".ci/run"), read("test/bench/main.go")
	seen := 0
	for path, text := range pages(t) {
		for _, command := range makeInPage.FindAllStringSubmatch(text, -1) {
			if seen++; !targets[command[1]] {
				t.Errorf("%s: the Makefile has no target %s", path, command[1])
			}
		}
		for _, command := range goRunInPage.FindAllStringSubmatch(text, -1) {
			if seen++; !strings.Contains(ci, " "+filepath.Base(command[1])) {
				t.Errorf("%s: .ci/run does not run %s", path, command[1])
			}
		}
		for _, command := range onlyInPage.FindAllStringSubmatch(text, -1) {
			if seen++; !strings.Contains(sections, `"`+command[1]+`"`) {
				t.Errorf("%s: test/bench has no section %s", path, command[1])
			}
		}
		for _, command := range benchInPage.FindAllStringSubmatch(text, -1) {
			seen++
			requireNamed(t, path, command[1], `Benchmark\w*`, command[2])
		}
		for _, command := range goTestInPage.FindAllStringSubmatch(text, -1) {
			seen++
			requireTests(t, path, command[1])
		}
	}
	if seen < 40 {
		t.Errorf("found %d commands in all pages; the patterns do not find them", seen)
	}
}

// requireTests fails if a package among the arguments of go test has no test that -run names, or is none.
func requireTests(t *testing.T, page, arguments string) {
	t.Helper()
	pattern, fields := "", strings.Fields(arguments)
	for i, field := range fields {
		if field == "-run" && i+1 < len(fields) {
			pattern = strings.Trim(fields[i+1], `'"`)
		}
	}
	for _, field := range fields {
		if strings.HasPrefix(field, "./") {
			requireNamed(t, page, strings.TrimRight(field, ".,;:)"), `(?:Test|Example|Fuzz)\w*`, pattern)
		}
	}
}

// requireNamed fails if the test files of a package have no function of that kind whose name the pattern matches.
func requireNamed(t *testing.T, page, pkg, kind, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s: %s has no tests (%v)", page, pkg, err)
		return
	}
	wanted, functions := regexp.MustCompile(pattern), regexp.MustCompile(`(?m)^func (`+kind+`)\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range functions.FindAllStringSubmatch(string(text), -1) {
			if wanted.MatchString(function[1]) {
				return
			}
		}
	}
	t.Errorf("%s: no test or benchmark in %s is named %q", page, pkg, pattern)
}
