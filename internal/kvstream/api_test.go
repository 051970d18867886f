package kvstream

import "testing"

func TestADomainAndAPrefixThatNoSubjectCanHaveAreRefused(t *testing.T) {
	for _, domain := range []string{"a b.>", "a.b", "a b", "*", ">", "a\tb", ".", "a\x00"} {
		if CheckAPI(domain, "") == nil {
			t.Errorf("the domain %q is accepted", domain)
		}
	}
	for _, prefix := range []string{"$JS.a b.API", "a..b", ".a", "a.>", "*", "a b", ".."} {
		if CheckAPI("", prefix) == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	for _, good := range [][2]string{{"", ""}, {"hub", ""}, {"hub-1_x", ""}, {"", "JS.hub.API"}, {"", "JS.hub.API."}} {
		if err := CheckAPI(good[0], good[1]); err != nil {
			t.Error(err)
		}
	}
}
