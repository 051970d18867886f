package probes

import (
	"fmt"

	"github.com/nagi-runtime/nagi/controller"
)

// passes is a problem that passes by itself as slots move, and fails no probe.
type passes string

func (p passes) Error() string { return string(p) }

// tellShards tells of a replica that shares the keys, and does not work as the others do although nothing of it is
// degraded.
func tellShards(s *controller.ShardStats, problem func(what string, err error)) {
	if s == nil {
		return
	}
	var here controller.ShardMember
	for _, m := range s.Members {
		if m.Here {
			here = m
		}
	}
	switch {
	case !here.Here:
		problem(shards, passes(fmt.Sprintf("member %s works at no key: it has no lease now, and is about to get one, "+
			"or has left", s.Member)))
	case here.Leaving:
		problem(shards, passes(fmt.Sprintf("member %s leaves: %d of its slots are still to be handed over, each when "+
			"what runs in it has returned; %d reconciles run", here.Name, here.Slots, here.Running)))
	case here.Slots == 0 && here.Coming > 0:
		err := passes(fmt.Sprintf("member %s has no slot yet: %d are to come, each when what runs in it elsewhere has "+
			"returned", here.Name, here.Coming))
		problem(shards, &controller.Problem{Since: here.Since, Err: err})
	}
}

// shards is the name of what is told of them.
const shards = "shards"
