package owner_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nagi-runtime/nagi/internal/owner"
)

var home = owner.Subject{
	In: owner.ResourceOfKube("apps", "deployments"), Kind: "Site", Key: "shop/home", Instance: "here",
	Namespace: "shop", Name: "web",
}

func secret(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }

func ownerproofSecrets(t testing.TB, all ...[]byte) *owner.Secrets {
	t.Helper()
	s, err := owner.NewSecrets(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAProofIsForOneOwnerAndOneObject: another one in its place makes it worthless.
func TestAProofIsForOneOwnerAndOneObject(t *testing.T) {
	s := ownerproofSecrets(t, secret('a'))
	proof := s.Sign(home)
	if !s.Verify(home, proof) || s.IsOlder(proof) {
		t.Fatal("its own is worth nothing")
	}
	for name, change := range map[string]func(*owner.Subject){
		"kind":      func(o *owner.Subject) { o.Kind = "Shop" },
		"key":       func(o *owner.Subject) { o.Key = "shop/away" },
		"instance":  func(o *owner.Subject) { o.Instance = "there" },
		"group":     func(o *owner.Subject) { o.In = owner.ResourceOfKube("extensions", "deployments") },
		"resource":  func(o *owner.Subject) { o.In = owner.ResourceOfKube("apps", "daemonsets") },
		"store":     func(o *owner.Subject) { o.In = owner.ResourceOfBucket("deployments") },
		"unknown":   func(o *owner.Subject) { o.In = owner.Resource{} },
		"namespace": func(o *owner.Subject) { o.Namespace = "other" },
		"name":      func(o *owner.Subject) { o.Name = "web2" },
	} {
		other := home
		change(&other)
		if s.Verify(other, proof) {
			t.Errorf("it is valid for another %s", name)
		}
	}
	nowhere := home
	nowhere.In = owner.Resource{}
	if s.Verify(nowhere, s.Sign(nowhere)) {
		t.Error("what is in a place that nobody knows is proven")
	}
}

// TestAByteBelongsToOneField: what is moved to the field beside is another subject.
func TestAByteBelongsToOneField(t *testing.T) {
	s := ownerproofSecrets(t, secret('a'))
	seen := map[string]string{}
	for name, change := range map[string]func(*owner.Subject){
		"none":              func(*owner.Subject) {},
		"group to resource": func(o *owner.Subject) { o.In = owner.ResourceOfKube("a", "bab") },
		"resource to kind":  func(o *owner.Subject) { o.In, o.Kind = owner.ResourceOfKube("ab", "a"), "bab" },
		"kind to key":       func(o *owner.Subject) { o.Kind, o.Key = "a", "bab" },
		"key to instance":   func(o *owner.Subject) { o.Key, o.Instance = "a", "bab" },
		"instance to space": func(o *owner.Subject) { o.Instance, o.Namespace = "a", "bab" },
		"namespace to name": func(o *owner.Subject) { o.Namespace, o.Name = "a", "bab" },
		"all of it":         func(o *owner.Subject) { o.Namespace, o.Name = "", "abab" },
		"a bucket":          func(o *owner.Subject) { o.In = owner.ResourceOfBucket("ab") },
		"no group":          func(o *owner.Subject) { o.In = owner.ResourceOfKube("", "abab") },
	} {
		subject := owner.Subject{
			In: owner.ResourceOfKube("ab", "ab"), Kind: "ab", Key: "ab", Instance: "ab", Namespace: "ab", Name: "ab",
		}
		change(&subject)
		proof := s.Sign(subject)
		if other, twice := seen[proof]; twice {
			t.Errorf("%q and %q have the same proof", name, other)
		}
		seen[proof] = name
	}
}

// TestTheFirstSecretSignsAndAllVerify.
func TestTheFirstSecretSignsAndAllVerify(t *testing.T) {
	before, after := ownerproofSecrets(t, secret('a')), ownerproofSecrets(t, secret('b'), secret('a'))
	if proof := before.Sign(home); !after.Verify(home, proof) || !after.IsOlder(proof) {
		t.Error("the proof of the old secret is not valid, or not older")
	}
	if proof := after.Sign(home); !after.Verify(home, proof) || after.IsOlder(proof) {
		t.Error("the proof of the new secret is not valid, or older")
	}
	if before.Verify(home, after.Sign(home)) {
		t.Error("the proof of a secret that is not known is valid")
	}
	if before.Sign(home) != ownerproofSecrets(t, secret('a'), secret('c')).Sign(home) {
		t.Error("a secret signs the same in another way")
	}
}

func TestWhatIsNoProofIsWorthNothing(t *testing.T) {
	s := ownerproofSecrets(t, secret('a'))
	proof := s.Sign(home)
	id, mac, _ := strings.Cut(proof, ".")
	flipped := "A" + mac[1:]
	if mac[0] == 'A' {
		flipped = "B" + mac[1:]
	}
	for _, text := range []string{
		"", ".", id, id + ".", "." + mac, mac, proof + "A", proof + "=", " " + proof, proof[:len(proof)-1],
		id + "." + flipped, "xxxxxxxx." + mac, id + "." + strings.Repeat("*", len(mac)),
	} {
		if s.Verify(home, text) {
			t.Errorf("%q is valid", text)
		}
	}
}

// TestASecretIsCopied: who cleans the slice up afterwards does not change it.
func TestASecretIsCopied(t *testing.T) {
	mine := secret('a')
	s := ownerproofSecrets(t, mine)
	proof := s.Sign(home)
	clear(mine)
	if !ownerproofSecrets(t, secret('a')).Verify(home, proof) || s.Sign(home) != proof {
		t.Error("the secret changed with the slice")
	}
	// One whose HMAC is made after that, too: the pool may be empty at any time.
	other := secret('b')
	s = ownerproofSecrets(t, other)
	clear(other)
	if !ownerproofSecrets(t, secret('b')).Verify(home, s.Sign(home)) {
		t.Error("the secret changed with the slice before it was used")
	}
}

func TestSecretsThatAreNoneAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		secrets [][]byte
		says    string
	}{
		"none":      {nil, "a secret is needed"},
		"too short": {[][]byte{secret('a'), []byte("fifteen bytes..")}, "secret 2 has 15 bytes; at least 16"},
		"nil":       {[][]byte{nil}, "secret 1 has 0 bytes"},
		"twice":     {[][]byte{secret('a'), secret('b'), secret('a')}, "secrets 1 and 3 are the same"},
	} {
		if _, err := owner.NewSecrets(test.secrets...); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want one that says %q", name, err, test.says)
		}
	}
	if _, err := owner.NewSecrets(secret('a')[:owner.MinSecret]); err != nil {
		t.Errorf("the shortest: %v", err)
	}
}

func BenchmarkVerify(b *testing.B) {
	s := ownerproofSecrets(b, secret('a'))
	proof := s.Sign(home)
	b.ReportAllocs()
	for b.Loop() {
		if !s.Verify(home, proof) {
			b.Fatal("it is not valid")
		}
	}
}

func BenchmarkSign(b *testing.B) {
	s := ownerproofSecrets(b, secret('a'))
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(home)
	}
}
