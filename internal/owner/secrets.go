// The proofs that objects carry of their owner. Who may write an object may write
// any owner into it. A proof is an HMAC, so only who has a secret can make one.
//
// The rule: a proof is for one owner and one object, and for no other. It covers where the object is, its namespace and
// name, and the kind, key and installation of the owner, each with its length, so that no two sets of them are the same
// bytes.

package owner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// Resource is where objects are. It is comparable. The zero value is an unknown place: nothing there can be
// proven.
type Resource struct{ store, group, name string }

// The stores of a Resource.
const (
	nats       = "nats"
	kubernetes = "kubernetes"
	api        = "api"
)

// ResourceOfBucket is a bucket in NATS.
func ResourceOfBucket(name string) Resource { return Resource{store: nats, name: name} }

// ResourceOfKube is a resource of Kubernetes, without a version: an object is the same in all of them.
func ResourceOfKube(group, resource string) Resource {
	return Resource{store: kubernetes, group: group, name: resource}
}

// ResourceOfAPI is any other API. What is behind one has no annotations.
func ResourceOfAPI() Resource { return Resource{store: api} }

// IsUnknown reports whether r is the zero value.
func (r Resource) IsUnknown() bool { return r == Resource{} }

// HasProofs reports whether what is there can carry a proof. Of an unknown place that is taken for granted.
func (r Resource) HasProofs() bool { return r.store != api }

// Subject is what a proof says: the object of that name, in that place, is owned by that primary.
type Subject struct {
	In                  Resource
	Kind, Key, Instance string // of the owner
	Namespace, Name     string // of the object
}

// encoding is the version of what is signed. Another one makes all proofs invalid.
const encoding = "nagi/ownerproof/1"

func (s *Subject) appendTo(message []byte) []byte {
	for _, field := range [...]string{
		encoding, s.In.store, s.In.group, s.In.name, s.Kind, s.Key, s.Instance, s.Namespace, s.Name,
	} {
		message = binary.BigEndian.AppendUint32(message, uint32(len(field)))
		message = append(message, field...)
	}
	return message
}

// MinSecret is how many bytes a secret has at least.
const MinSecret = 16

// Secrets sign and verify. The first one signs, all verify. New makes them. All methods may be called concurrently.
type Secrets struct{ all []*secret }

// NewSecrets returns secrets with copies of what it is given.
func NewSecrets(secrets ...[]byte) (*Secrets, error) {
	const advice = "make one of 32 random bytes, keep it where only the controller reads it, " +
		"and give all replicas the same"
	if len(secrets) == 0 {
		return nil, errors.New("a secret is needed: " + advice)
	}
	s := &Secrets{}
	for i, bytes := range secrets {
		if len(bytes) < MinSecret {
			return nil, fmt.Errorf("secret %d has %d bytes; at least %d are needed: %s",
				i+1, len(bytes), MinSecret, advice)
		}
		made := newSecret(bytes)
		for j, other := range s.all {
			if other.id == made.id {
				return nil, fmt.Errorf("secrets %d and %d are the same: take one of them away", j+1, i+1)
			}
		}
		s.all = append(s.all, made)
	}
	return s, nil
}

// Sign returns the proof of a subject, by the first secret. It is the same each time.
func (s *Secrets) Sign(subject Subject) string {
	first := s.all[0]
	m := first.macs.Get().(*mac)
	defer first.macs.Put(m)
	m.compute(&subject)
	m.text = append(append(m.text[:0], first.id...), separator...)
	m.text = encoded.AppendEncode(m.text, m.sum)
	return string(m.text)
}

// Verify reports whether one of the secrets has made the proof that an object carries.
func (s *Secrets) Verify(subject Subject, proof string) bool {
	id, text, ok := strings.Cut(proof, separator)
	if !ok || len(text) != encoded.EncodedLen(sha256.Size) || subject.In.IsUnknown() {
		return false
	}
	for _, secret := range s.all {
		if secret.id == id {
			return secret.made(&subject, text)
		}
	}
	return false
}

// IsOlder reports whether a proof that is valid was made by a secret that no longer signs.
func (s *Secrets) IsOlder(proof string) bool {
	id, _, _ := strings.Cut(proof, separator)
	return id != s.all[0].id
}

// A proof is the id of its secret, the separator, and the HMAC.
const separator = "."

var encoded = base64.RawURLEncoding

// secret is one of the secrets. Its id says nothing that helps to guess it sooner than a proof does.
type secret struct {
	id   string
	macs sync.Pool // of *mac
}

const idBytes = 6

func newSecret(bytes []byte) *secret {
	key := append([]byte(nil), bytes...)
	s := &secret{macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, key)} }}}
	id := hmac.New(sha256.New, key)
	id.Write([]byte("nagi/ownerproof/id"))
	s.id = encoded.EncodeToString(id.Sum(nil)[:idBytes])
	return s
}

func (s *secret) made(subject *Subject, text string) bool {
	m := s.macs.Get().(*mac)
	defer s.macs.Put(m)
	m.compute(subject)
	m.text = encoded.AppendEncode(m.text[:0], m.sum)
	return hmac.Equal(m.text, []byte(text))
}

// mac is an HMAC with its buffers.
type mac struct {
	hash.Hash
	message, sum, text []byte
}

func (m *mac) compute(subject *Subject) {
	m.Reset()
	m.message = subject.appendTo(m.message[:0])
	m.Write(m.message)
	m.sum = m.Sum(m.sum[:0])
}
