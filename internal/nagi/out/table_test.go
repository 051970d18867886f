package out

import (
	"bytes"
	"strings"
	"testing"
)

// TestATableSaysWhatItCuts: the last cell has the end of what is said, and what is cut anywhere is told once, with the way
// to all of it.
func TestATableSaysWhatItCuts(t *testing.T) {
	const hint = "nagi: what ends with … is cut: the same command with -o json shows all of it\n"
	long := strings.Repeat("a", 400)
	for name, c := range map[string]struct {
		cells      []string
		want, told string
	}{
		"short":             {[]string{"a", "b"}, "a   b\n", ""},
		"hostile":           {[]string{"a\x1b[31m", "b\u202e"}, `"a\x1b[31m"   "b\u202e"` + "\n", ""},
		"a long note":       {[]string{"a", long + " grant it"}, "a   " + long + " grant it\n", ""},
		"a hostile note":    {[]string{"a", long + "\x1b[31m"}, "a   " + long + `\x1b[31m` + "\n", ""},
		"a note of lines":   {[]string{"a", "one\ntwo"}, "a   one; two\n", ""},
		"a name of lines":   {[]string{"one\ntwo", "b"}, "one …   b\n", hint},
		"a long name":       {[]string{long, "b"}, long[:241] + "… (400 bytes)   b\n", hint},
		"a hostile name":    {[]string{"\x1b" + long, "b"}, "", hint},
		"a very long note":  {[]string{"a", strings.Repeat("b", 2000)}, "", hint},
		"it says so itself": {[]string{"a", "… (9 bytes)"}, "a   … (9 bytes)\n", ""},
	} {
		var printed, told bytes.Buffer
		table := (&Streams{Out: &printed, Err: &told}).NewTable()
		for range 2 {
			if err := table.Row(c.cells...); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // as a watch does it
			if err := table.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if got := printed.String(); c.want != "" && got != c.want+c.want || strings.Count(got, "\n") != 2 {
			t.Errorf("%s: printed %q, want %q twice", name, got, c.want)
		}
		if told.String() != c.told {
			t.Errorf("%s: told %q, want %q", name, told.String(), c.told)
		}
	}
}
