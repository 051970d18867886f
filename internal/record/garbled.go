package record

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nagi-runtime/nagi/internal/health"
	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nagi-runtime/nagi/internal/printable"
)

// Garbled reports reserved keys about primaries (see LeftKey and IntentsKey) that hold an answer of the server, which
// no client wrote. What such a key stands for goes on: the secondaries count as left on purpose, and a call behind an
// API may be under way. So nothing is deleted. It is told of each change, and shows one of the keys.
type Garbled struct {
	Bucket string
	Board  *health.Board

	mu    sync.Mutex
	names map[string]struct{}
	shown string
}

// Seen is told what a reserved key holds; nil if it is gone.
func (g *Garbled) Seen(ctx context.Context, name string, value []byte) {
	if !strings.HasPrefix(name, LeftPrefix) && !strings.HasPrefix(name, IntentsPrefix) {
		return
	}
	g.mu.Lock()
	_, before := g.names[name]
	bad := kvstream.IsReply(nil, value)
	if bad && g.names == nil {
		g.names = map[string]struct{}{}
	}
	if bad {
		g.names[name] = struct{}{}
	} else {
		delete(g.names, name)
	}
	g.mu.Unlock()
	if bad || before {
		g.Board.Change(ctx, "reserved keys (bucket "+g.Bucket+")", g.err)
	}
}

func (g *Garbled) err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, still := g.names[g.shown]; !still {
		for g.shown = range g.names {
			break
		}
	}
	if len(g.names) == 0 {
		return nil
	}
	return fmt.Errorf("%d keys of status bucket %s hold an answer of the server that somebody had sent there, such as "+
		"%q: nothing is deleted that they may stand for; delete them if nothing is under way (nats kv del %s %s)",
		len(g.names), g.Bucket, g.shown, g.Bucket, printable.Typed(g.shown, "KEY"))
}
