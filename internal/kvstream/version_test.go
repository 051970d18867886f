package kvstream

import "testing"

func TestBefore(t *testing.T) {
	for _, c := range []struct {
		version, line string
		before        bool
	}{
		{"2.8.4", OldestServer, true},
		{"2.9.0", OldestServer, false},
		{"2.9.0-beta.1", OldestServer, false},
		{"2.10.29", OldestServer, false},
		{"2.10.29", TTLs, true},
		{"2.11.0-RC.2", TTLs, false},
		{"2.15.2", TTLs, false},
		{"1.4.1", OldestServer, true},
		{"3.0.0", TTLs, false},
		{"", OldestServer, false},
		{"dev", OldestServer, false},
		{"2", OldestServer, false},
	} {
		if before := VersionBefore(c.version, c.line); before != c.before {
			t.Errorf("Before(%q, %q) is %t", c.version, c.line, before)
		}
	}
}
