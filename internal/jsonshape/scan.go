package jsonshape

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// Clean reports whether a document has nothing that Look would find. It is fast and allocates nothing. It may be wrong
// about a document that is clean, but never about one that is not. The document is valid JSON.
func (s *Members) Clean(document []byte) bool {
	if _, odd := textIn(document); odd {
		return false
	}
	scan := scanner{data: document}
	return scan.value(s.root)
}

// scanner goes through a document. Its methods return false where there may be something to find.
type scanner struct {
	data []byte
	pos  int
	// keys are those of the maps around pos, as long as there are few.
	keys [2 * scanned]span
	used int
}

// span is a part of the document.
type span struct{ from, to uint32 }

// peek returns the next character that is no space, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.afterSpace()
}

func (s *scanner) afterSpace() byte {
	for ; s.pos < len(s.data); s.pos++ {
		if c := s.data[s.pos]; c > ' ' {
			return c
		}
	}
	return 0
}

// value goes through the next value.
func (s *scanner) value(n *memberNode) bool {
	c := s.peek()
	switch {
	case n == nil:
		return s.skip(c)
	case c == '{' && n.structure:
		return s.structure(n)
	case c == '{' && n.mapping:
		return s.mapping(n)
	case c == '[' && n.list:
		s.pos++
		for c = s.peek(); c != ']'; c = s.separated(']') {
			if c == 0 || !s.value(n.each) {
				return false
			}
		}
		s.pos++
		return true
	}
	return s.skip(c)
}

// separated goes over a comma, if there is one, and returns what comes next.
func (s *scanner) separated(end byte) byte {
	c := s.peek()
	if c == ',' {
		s.pos++
		return s.peek()
	}
	if c != end {
		return 0
	}
	return c
}

// name goes over the name of a member and its colon. An escape in it may make it another name.
func (s *scanner) name() (name []byte, ok bool) {
	if s.peek() != '"' {
		return nil, false
	}
	s.pos++
	length := bytes.IndexByte(s.data[s.pos:], '"')
	if length < 0 {
		return nil, false
	}
	name = s.data[s.pos : s.pos+length]
	s.pos += length + 1
	if s.peek() != ':' {
		return nil, false
	}
	s.pos++
	return name, true
}

func (s *scanner) structure(n *memberNode) bool {
	var few [4]uint64
	seen := few[:]
	if len(n.fields) > 64*len(few) {
		seen = make([]uint64, len(n.fields)/64+1)
	}
	s.pos++
	next := 0
	for c := s.peek(); c != '}'; c = s.separated('}') {
		name, ok := s.name()
		if !ok {
			return false
		}
		i := n.find(name, next)
		if i < 0 {
			return false
		}
		bit := uint64(1) << (i % 64)
		if seen[i/64]&bit != 0 {
			return false
		}
		seen[i/64] |= bit
		if z := n.fields[i].zeros; z != 0 && s.mayBeZero(z) {
			return false
		}
		if !s.value(n.fields[i].below) {
			return false
		}
		next = i + 1
	}
	s.pos++
	return true
}

// mapping looks for keys that are there twice.
func (s *scanner) mapping(n *memberNode) bool {
	var many *hashes
	first := s.used
	s.pos++
	for c := s.peek(); c != '}'; c = s.separated('}') {
		name, ok := s.name()
		if !ok || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		if many == nil && s.used == len(s.keys) {
			many = newHashes()
			defer many.free()
			for _, key := range s.keys[first:s.used] {
				many.add(s.data[key.from:key.to])
			}
		}
		if many != nil {
			ok = many.add(name)
		} else {
			ok = s.addKey(first, name)
		}
		if !ok || !s.value(n.each) {
			return false
		}
	}
	s.pos++
	s.used = first
	return true
}

// addKey reports whether the key, which was read just now, is new. The keys of its map begin at first.
func (s *scanner) addKey(first int, name []byte) bool {
	for _, key := range s.keys[first:s.used] {
		if string(s.data[key.from:key.to]) == string(name) {
			return false
		}
	}
	// cap tells where in the document the name begins.
	from := cap(s.data) - cap(name)
	s.keys[s.used] = span{uint32(from), uint32(from + len(name))}
	s.used++
	return true
}

// hashes are those of the keys of a large map.
type hashes struct {
	seed maphash.Seed
	set  map[uint64]struct{}
}

var hashesPool = sync.Pool{New: func() any { return &hashes{seed: maphash.MakeSeed(), set: map[uint64]struct{}{}} }}

func newHashes() *hashes { return hashesPool.Get().(*hashes) }

// free gives the memory back, unless it is too much to be kept.
func (h *hashes) free() {
	if len(h.set) > 1<<12 {
		return
	}
	clear(h.set)
	hashesPool.Put(h)
}

// add reports whether the name is new. Two names may look like one.
func (h *hashes) add(name []byte) bool {
	before := len(h.set)
	h.set[maphash.Bytes(h.seed, name)] = struct{}{}
	return len(h.set) > before
}

// skip goes over a value that begins with c.
func (s *scanner) skip(c byte) bool {
	switch c {
	case 0:
		return false
	case '"':
		return s.skipString()
	case '{', '[':
		return s.skipNested()
	}
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == ',' || c == '}' || c == ']' || c <= ' ':
			return true
		}
	}
	return true
}

func (s *scanner) skipString() bool {
	s.pos++
	for {
		length := bytes.IndexByte(s.data[s.pos:], '"')
		if length < 0 {
			return false
		}
		end := s.pos + length
		escapes := 0
		for i := end - 1; i >= s.pos && s.data[i] == '\\'; i-- {
			escapes++
		}
		s.pos = end + 1
		if escapes%2 == 0 {
			return true
		}
	}
}

func (s *scanner) skipNested() bool {
	depth := 0
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '"':
			if !s.skipString() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.pos++
				return true
			}
		}
		s.pos++
	}
	return false
}
