package kvstream

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// The server's error codes that tell of a limit of streams.
const (
	accountFull       jetstream.ErrorCode = 10002
	noPeers           jetstream.ErrorCode = 10005
	serverFull        jetstream.ErrorCode = 10023
	tooManyStreams    jetstream.ErrorCode = 10027
	memoryFull        jetstream.ErrorCode = 10028
	storageFull       jetstream.ErrorCode = 10047
	noCluster         jetstream.ErrorCode = 10074
	sizeIsRequired    jetstream.ErrorCode = 10113
	noLimitsOfTier    jetstream.ErrorCode = 10120
	sizeAboveAccounts jetstream.ErrorCode = 10122
)

// Asked is a stream that a server was asked to create, and the names of the fields that say so.
type Asked struct {
	MaxBytesField, ReplicasField, PlacementField string
	MaxBytes                                     int64
	Replicas                                     int
	Placement                                    *jetstream.Placement
	// Needs says how many streams what was asked for needs; it is told where there may be no more.
	Needs string
}

// Explain adds to the error of a server what it means, and what to do. Other errors it returns as they are.
func (a Asked) Explain(err error) error {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return err
	}
	if hint := a.hint(api.ErrorCode); hint != "" {
		return fmt.Errorf("%s: %w", hint, err)
	}
	return err
}

func (a Asked) hint(code jetstream.ErrorCode) string {
	switch code {
	case sizeIsRequired:
		return fmt.Sprintf("the account wants a size of every stream: set %s, for example to 1 << 30, which is 1 GiB "+
			"(the account counts it as used from the start)", a.MaxBytesField)
	case sizeAboveAccounts:
		return fmt.Sprintf("%s is %d, and the account allows a stream less (disk_max_stream_bytes or "+
			"mem_max_stream_bytes): lower it", a.MaxBytesField, a.MaxBytes)
	case accountFull, serverFull, memoryFull, storageFull:
		return a.hintOfRoom()
	case tooManyStreams:
		return "the account has as many streams as it may have (max_streams), and " + a.Needs +
			": have the limit raised, or remove a stream that no program uses, never a status bucket"
	case noCluster:
		return fmt.Sprintf("%s is %d, and the server is in no cluster: set it to 1", a.ReplicasField, a.Replicas)
	case noPeers:
		hint := fmt.Sprintf("%s is %d, and the cluster has not so many servers that can take it: set it lower",
			a.ReplicasField, a.Replicas)
		if a.Placement != nil {
			hint += fmt.Sprintf(", or change %s (%s)", a.PlacementField, PlaceName(a.Placement))
		}
		return hint
	case noLimitsOfTier:
		return fmt.Sprintf("%s is %d, and the account has no limits for so many: set it to a number that the account "+
			"has limits for (nats account info), for example 3", a.ReplicasField, a.Replicas)
	}
	return ""
}

func (a Asked) hintOfRoom() string {
	if a.MaxBytes <= 0 {
		return "the account or the server has no room for it: raise max_file or max_mem of the account, " +
			"max_file_store or max_memory_store of the server"
	}
	return fmt.Sprintf("%s is %d, which the server reserves for each of %d replicas, and account or server have not "+
		"so much left: lower it, or raise max_file or max_mem of the account, max_file_store or max_memory_store of "+
		"the server", a.MaxBytesField, a.MaxBytes, a.Replicas)
}

// PlaceName names a placement.
func PlaceName(p *jetstream.Placement) string {
	if p == nil || p.Cluster == "" && len(p.Tags) == 0 {
		return "none"
	}
	var parts []string
	if p.Cluster != "" {
		parts = append(parts, fmt.Sprintf("cluster %q", p.Cluster))
	}
	if len(p.Tags) > 0 {
		parts = append(parts, fmt.Sprintf("tags %q", p.Tags))
	}
	return strings.Join(parts, ", ")
}
