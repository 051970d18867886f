package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parsed(t *testing.T, text string) []*Manifest {
	t.Helper()
	all, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNumbersStayAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"a: 9007199254740993":                              `{"a":9007199254740993}`,
		"a: 123456789012345678901234":                      `{"a":123456789012345678901234}`,
		"a: 1.10\nb: 1e3\nc: -0":                           `{"a":1.10,"b":1e3,"c":-0}`,
		"a: 0x10\nb: +1\nc: .5":                            `{"a":16,"b":1,"c":0.5}`,
		"a: '1'\nb: yes\nc: true":                          `{"a":"1","b":"yes","c":true}`,
		"a: 2026-01-02\nb: ~\nc: ''":                       `{"a":"2026-01-02","b":null,"c":""}`,
		`{"a":9007199254740993,"b":"\ud83d\ude00"}`:        `{"a":9007199254740993,"b":"😀"}`,
		"x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: [*x]\n": `{"x":{"a":1,"b":2},"y":{"a":1,"b":3},"z":[{"a":1,"b":2}]}`,
	} {
		if got := asJSON(t, parsed(t, text)[0].Document); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestAFileHasSeveralDocuments(t *testing.T) {
	for text, want := range map[string][]string{
		"kind: A\n---\n# nothing\n---\nkind: B\n":                   {"1 A", "5 B"},
		"{\"kind\":\"A\"}\n{\n\t\"kind\":\"B\"\n} {\"kind\":\"C\"}": {"1 A", "2 B", "4 C"},
		"{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}\n":                 {"1 A", "3 B"},
		"kind: List\nitems:\n- kind: A\n- {kind: B}\n":              {"3 A", "4 B"},
		"": nil,
	} {
		var got []string
		for _, m := range parsed(t, text) {
			got = append(got, strings.TrimPrefix(m.Where(), "f:")+" "+m.Kind)
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: 2\na: 3":               "f:3:1: member \"a\" stands there twice",
		"{\n\"a\": 1,\n  \"a\": 2}":      "f:3:3: member \"a\" stands there twice",
		"a: [1\nb: 2":                    "f:1: ",
		"- 1":                            "f:1:1: a document is an object",
		"kind: 7":                        "f:1:7: kind is text",
		"metadata: [x]":                  "f:1:11: metadata is an object",
		"metadata:\n  name: 12":          "f:2:9: metadata.name is text",
		"a: .inf":                        "f:1:4: ",
		"kind: List\nitems: [1]":         "f:2:9: an item of a List is a document",
		"a: &a\n  b: *a":                 "f:2:6: the alias contains itself",
		"a: \"\x1b[31m\"":                "f",
		strings.Repeat("[", 20000) + "]": "f",
	} {
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	m := parsed(t, "metadata: {name: a}\nspec:\n  pages:\n  - x\n  -  {deep: 1}\n")[0]
	for path, want := range map[string]string{
		"spec.pages[1].deep": "f:5:13", "spec.pages[0]": "f:4:5", "spec.pages[7].x": "f:4:3", "status": "f:1",
	} {
		if got := m.At(path); !strings.HasPrefix(got, want) {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}

func TestAliasesDoNotBlowUp(t *testing.T) {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		a, b := string(rune('0'+i)), string(rune('1'+i))
		text += "a" + b + ": &a" + b + " [" + strings.Repeat("*a"+a+", ", 9) + "*a" + a + "]\n"
	}
	if _, err := Parse("f", []byte(text)); err == nil {
		t.Error("10^10 values were read")
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	const text = `{"a":9007199254740993,"b":"yes","c":"1","d":["x",{"e":null}],"f":1.50,"g":"- a\nb: c\n","h":{},"i":[],` +
		`"j":"\u001b[31m","k":"~","l":"2026-01-02","m":true,"n":123456789012345678901234}`
	object, err := FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	y, err := YAML(object)
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, parsed(t, string(y))[0].Document); got != text {
		t.Errorf("%s\nis %s", y, got)
	}
}

func TestFoldersAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range map[string]string{"b.yaml": "B", "a.json": `"A"`, "c.yml": "C", "no.txt": "N", "sub/d.yaml": "D"} {
		path := filepath.Join(dir, name)
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("{\"kind\": "+kind+"}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for recursive, want := range map[bool]string{false: "ABCI", true: "ABCDI"} {
		all, err := Read([]string{dir, "-"}, recursive, strings.NewReader("kind: I"))
		got := ""
		for _, m := range all {
			got += m.Kind
		}
		if err != nil || got != want {
			t.Errorf("recursive %v: %s, %v; want %s", recursive, got, err, want)
		}
	}
	if _, err := Read([]string{t.TempDir()}, false, nil); err == nil {
		t.Error("an empty folder is no error")
	}
}
