package servers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nagi-runtime/nagi/internal/shards"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is one of the status bucket's stream.
type message struct {
	key      string
	sequence uint64
	at       time.Time // by the server
	value    []byte    // nil: the key is gone
	writer   string    // of a record: the member
	process  string    // of other keys: of the process that sent it
}

const (
	memberKey = "_nagi.shards.member."
	slotKey   = "_nagi.shards.slot."
)

// delivered is a message as a consumer has it.
func delivered(m jetstream.Msg) (message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return message{}, fmt.Errorf("message of %s: %w", m.Subject(), err)
	}
	return messageOf(m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), m.Data()), nil
}

// republished is a message as the leader of the stream has published it.
func republished(m *nats.Msg) (message, error) {
	sequence, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return message{}, fmt.Errorf("message of %s: %w", m.Subject, err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return message{}, fmt.Errorf("message of %s: %w", m.Subject, err)
	}
	return messageOf(strings.TrimPrefix(m.Subject, audit), sequence, at, m.Header, m.Data), nil
}

func messageOf(subject string, sequence uint64, at time.Time, header nats.Header, data []byte) message {
	m := message{
		key: strings.TrimPrefix(subject, "$KV.shops-status."), sequence: sequence, at: at, value: data,
		writer: header.Get(writerHeader),
	}
	m.process, _, _ = strings.Cut(header.Get("Nagi-Write-Id"), "-")
	if header.Get("KV-Operation") != "" || header.Get("Nats-Marker-Reason") != "" {
		m.value = nil
	}
	return m
}

// messages are those of keys that begin so, of what the stream has seen so far.
func (f *fleet) messages(begin string) (all []message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.status {
		if strings.HasPrefix(m.key, begin) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Compare(a.sequence, b.sequence) })
	return all
}

// nameOf is the name of a member of which a life's id is known.
func nameOf(id string) string {
	name, _, _ := strings.Cut(id, "-")
	return name
}

func ownerIn(m message) string {
	var is struct{ Owner string }
	_ = json.Unmarshal(m.value, &is) // "" is nobody
	return is.Owner
}

func slotOf(m message) int {
	slot, err := strconv.Atoi(strings.TrimPrefix(m.key, slotKey))
	if err != nil {
		panic(err)
	}
	return slot
}

// owners are who has each slot now, by id.
func (f *fleet) owners() map[int]string {
	all := map[int]string{}
	for _, m := range f.messages(slotKey) {
		all[slotOf(m)] = ownerIn(m)
	}
	return all
}

// keysOf are those of some keys whose slots a member has now.
func (f *fleet) keysOf(name string, keys []string) (its []string) {
	owners := f.owners()
	for _, key := range keys {
		if nameOf(owners[shards.SlotOf(key, slots)]) == name {
			its = append(its, key)
		}
	}
	return its
}

// attempt is a reconcile, as the journal has it.
type attempt struct {
	member, key string
	begin, end  time.Time // end is zero while it runs
	late        []string  // what came of its writes that were held
}

// attempts reads the journal. It fails where two reconciles of a key meet, but for those that may.
func (f *fleet) attempts(may func(attempt) bool) (all []*attempt) {
	f.Helper()
	data, err := os.ReadFile(f.config.Journal)
	must(f.T, err)
	type at struct{ member, key string }
	running := map[at]*attempt{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		nanos, err := strconv.ParseInt(words[1], 10, 64)
		must(f.T, err)
		when, is := time.Unix(0, nanos), at{words[0], words[3]}
		switch words[2] {
		case "begin":
			for other, beside := range running {
				if other.key == is.key && !may(*beside) {
					f.Errorf("%s begins with %s at %v, where %s runs since %v", is.member, is.key, when, other.member,
						beside.begin)
				}
			}
			running[is] = &attempt{member: is.member, key: is.key, begin: when}
			all = append(all, running[is])
		case "end":
			running[is].end = when
			delete(running, is)
		case "late":
			running[is].late = append(running[is].late, words[4])
		}
	}
	return all
}

func none(attempt) bool { return false }

// judge fails unless each slot went from its owner by the owner's own hand, or after its lease was gone, and each
// reconcile began while the member had the slot, and a lease.
func (f *fleet) judge(attempts []*attempt) {
	f.Helper()
	live, processes, owners := map[string]bool{}, map[string]string{}, map[int]string{}
	status := f.messages("_nagi.shards.")
	begins := slices.SortedFunc(slices.Values(attempts), func(a, b *attempt) int { return a.begin.Compare(b.begin) })
	for _, m := range append(status, message{at: time.Now()}) {
		for len(begins) > 0 && begins[0].begin.Before(m.at) {
			f.judgeBegin(begins[0], live, owners)
			begins = begins[1:]
		}
		switch {
		case strings.HasPrefix(m.key, memberKey):
			id := strings.TrimPrefix(m.key, memberKey)
			live[id] = m.value != nil
			if m.value != nil {
				processes[m.process] = nameOf(id)
			}
		case strings.HasPrefix(m.key, slotKey):
			before, owner, writer := owners[slotOf(m)], ownerIn(m), processes[m.process]
			if before != "" && writer != nameOf(before) && live[before] {
				f.Errorf("slot %d was taken from %s by %q at %d, and its lease is there", slotOf(m), before, writer,
					m.sequence)
			}
			owners[slotOf(m)] = owner
		}
	}
}

func (f *fleet) judgeBegin(a *attempt, live map[string]bool, owners map[int]string) {
	f.Helper()
	slot := shards.SlotOf(a.key, slots)
	if owner := owners[slot]; nameOf(owner) != a.member || !live[owner] {
		f.Errorf("%s begins with %s at %v, where slot %d is of %q, with a lease: %v", a.member, a.key, a.begin, slot,
			owner, live[owner])
	}
}
