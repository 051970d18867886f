package service

import (
	"encoding/json"
	"strings"

	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nats-io/nats.go/micro"
)

// callerOf says who asks, as far as it is told. A server puts that into requests that come from another account, by an
// import of the service; who shares an account with the service can write what it likes into the header, but cannot
// name such a reply. It is no proof: a server takes away only what a caller wrote into a line of its own with "\r\n"
// before it, and the client library reads more than that as a header.
func callerOf(req micro.Request) string {
	const unknown = "a user whom the server does not name"
	if !strings.HasPrefix(req.Reply(), imported) {
		return unknown
	}
	var info struct {
		Account string `json:"acc"`
		User    string `json:"user"`
		Name    string `json:"name_tag"`
	}
	told := req.Headers().Values("Nats-Request-Info")
	if len(told) != 1 || json.Unmarshal([]byte(told[0]), &info) != nil || info.Account == "" {
		return unknown
	}
	who := "a user"
	switch {
	case info.Name != "":
		who = "user " + printable.Quote(info.Name)
	case info.User != "":
		who = "user " + printable.Quote(info.User)
	}
	return "somebody who says to be " + who + " of account " + printable.Quote(info.Account)
}
