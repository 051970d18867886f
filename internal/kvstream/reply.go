// What a server wrote where a document was expected.
//
// JetStream publishes acknowledgements and replies of its API to the reply subject that a request names, whatever that
// is. So a user who may publish one message can have the server publish an acknowledgement to any subject of the
// account, such as a key of a bucket that the user may not write. The user chooses the place and none of the text.
// Other replies carry stored messages; they have headers by which they are recognised.
//
// The rule: what [IsReply] recognises was written by no client. It is no document, no record, no lease and no release.

package kvstream

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"
)

// ReplyText stands for an answer where headers are not handed on: Is recognises it by itself.
const ReplyText = `{"error":{"description":"an answer of the server, which nobody wrote"},"seq":0}`

// IsReply reports whether a message is an answer of a server. header may be nil. For what is none it looks at the first
// bytes only, so it costs nothing beside decoding the value.
func IsReply(header nats.Header, value []byte) bool {
	return len(header) > 0 && isForwarded(header) || isText(value)
}

// isForwarded recognises a stored message that the server hands out, and a status. A direct get answers with the
// message as it is, and tells in headers where it was.
func isForwarded(header nats.Header) bool {
	if header.Get("Status") != "" {
		return true
	}
	return header.Get("Nats-Stream") != "" && header.Get("Nats-Sequence") != ""
}

// starts are how the texts of answers begin. The server writes no space before a name.
var starts = [][]byte{[]byte(`{"stream":`), []byte(`{"type":"io.nats.`), []byte(`{"error":{`)}

func isText(value []byte) bool {
	for _, start := range starts {
		if bytes.HasPrefix(value, start) {
			return hasOnlyMembersOfAnswer(value)
		}
	}
	return false
}

// members are those of an acknowledgement.
var members = map[string]bool{
	"stream": true, "seq": true, "domain": true, "duplicate": true, "val": true, "batch": true, "count": true,
	"error": true,
}

func hasOnlyMembersOfAnswer(value []byte) bool {
	var answer map[string]json.RawMessage
	if json.Unmarshal(value, &answer) != nil {
		return false
	}
	var kind string
	if json.Unmarshal(answer["type"], &kind) == nil && strings.HasPrefix(kind, "io.nats.") {
		return true
	}
	for name := range answer {
		if !members[name] {
			return false
		}
	}
	_, hasSequence := answer["seq"]
	_, hasError := answer["error"]
	return hasSequence || hasError
}
