package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
)

// Release is what KeyRelease holds: a request to let go what the brake holds, as JSON, or the text
// "<engagement> <count>".
type Release struct {
	At         string `json:"at"`
	By         string `json:"by"`
	Engagement string `json:"engagement"`
	Count      int    `json:"count"`
	// List is the id of what is held, as the sender has read it; "" where it has read the number alone.
	List string `json:"list,omitempty"`
}

// ParseRelease reads the text of an operator, or JSON.
func ParseRelease(value []byte) (Release, error) {
	if kvstream.IsReply(nil, value) {
		return Release{}, errors.New("an answer of the server, which nobody wrote")
	}
	var r Release
	if words := strings.Fields(string(value)); len(words) == 2 {
		count, err := strconv.Atoi(words[1])
		if err == nil && count >= 0 {
			return Release{Engagement: words[0], Count: count}, nil
		}
	}
	if err := json.Unmarshal(value, &r); err != nil || r.Engagement == "" || r.Count < 0 {
		return Release{}, errors.New("no engagement with a count")
	}
	return r, nil
}

// longestQuoted bounds what is told of a value that anybody may have put, in bytes.
const longestQuoted = 80

// Quoted is the value of a key for people, quoted and bounded.
func Quoted(value []byte) string {
	if len(value) > longestQuoted {
		return fmt.Sprintf("%q and %d bytes more", value[:longestQuoted], len(value)-longestQuoted)
	}
	return fmt.Sprintf("%q", value)
}
