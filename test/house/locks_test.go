package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// heldOver are the functions that wait for time, the network or a goroutine with a sync.Mutex in their hands, by file,
// with what they wait for, and why they may. Whoever needs the lock stands still meanwhile, whatever its context says:
// let go of the lock first, or take an internal/turn.
var heldOver = map[string]struct {
	waits []string
	why   string
}{
	// At most one dial of a connection that the caller is about to use itself.
	"entity/async.go register": {
		[]string{"Stats"}, "asyncWriter.mu: only who writes over this connection takes it",
	},
	"entity/async.go subscribeLocked": {
		[]string{"NewRespInbox", "Subscribe", "SetPendingLimits"}, "asyncWriter.mu, as register",
	},
	"entity/async.go unsubscribeLocked": {
		[]string{"Unsubscribe"}, "asyncWriter.mu, as register; and who ends the last cache of a client",
	},
	"internal/denials/denials.go watch":   {[]string{"listen"}, "book.mu: of one connection, for who sends over it"},
	"internal/denials/expected.go Expect": {[]string{"listen"}, "book.mu, as watch"},
	"internal/denials/heard.go hearing": {
		[]string{"LastError"}, "book.mu, as watch: what the connection says last is compared with what the book has",
	},

	// They serialise one writer, or those who tell. No reader takes these locks.
	"recorder/kuberecorder/writer.go send": {
		[]string{"request", "select"}, "writer.busy: of client-go's one sender; Close takes it when requests have ended",
	},
	"registry/publish.go Run": {
		[]string{"leaveFormer", "pause"}, "publisher.mu: of one term, for the next, which begins after it",
	},
	"natsinformer/health.go expect": {[]string{"tellFailure"}, "health.telling: Status does not take it"},
	"natsinformer/health.go failed": {[]string{"tellFailure"}, "health.telling, as expect"},
	"natsinformer/health.go healed": {[]string{"tellHealed"}, "health.telling, as expect"},
	"natsinformer/health.go met":    {[]string{"tellHealed"}, "health.telling, as expect"},

	// They do not wait.
	"entity/async_sent.go endFlightLocked": {[]string{"<-"}, "takes what the flight itself has put in"},
	"internal/brake/request.go judgeRequest": {
		[]string{"released"}, "it has let go of the lock, on the way that returns",
	},
	"internal/health/board.go change":  {[]string{"termOf", "tellLink"}, "what the board knows; the log"},
	"internal/health/term.go End":      {[]string{"tellLink"}, "what the board knows; the log"},
	"internal/lease/process.go Report": {[]string{"Health"}, "puts it on the board, which calls nobody"},
	"internal/lease/process.go join":   {[]string{"Health"}, "puts it on the board, which calls nobody"},
	"internal/queue/queue.go Get":      {[]string{"awaitNext"}, "sync.Cond gives the lock back while it waits"},
}

// waiters may wait without a context, as all methods of a connection may: nats.go holds its lock while it dials.
var waiters = []string{"SetPendingLimits", "Sleep", "Unsubscribe", "Wait"}

// connections and contexts are what they are called. Who gets one may wait with it.
var (
	connections = []string{"conn", "nc"}
	contexts    = []string{"bounded", "ctx", "lasting"}
)

// TestNoLockIsHeldOverAWait finds what waits in the function that holds the lock, and in those whose name ends in
// Locked. It does not follow other calls.
func TestNoLockIsHeldOverAWait(t *testing.T) {
	found := map[string][]string{}
	for _, r := range rooms(t) {
		for name := range r.files {
			path := r.path + "/" + name
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			in, err := waitsIn(path, string(text))
			if err != nil {
				t.Fatal(err)
			}
			for function, waits := range in {
				found[path+" "+function] = waits
			}
		}
	}
	for function, waits := range found {
		if !slices.Equal(waits, heldOver[function].waits) {
			t.Errorf("%s holds a lock over %q, and heldOver has %q: let go of it before, or say why it may",
				function, waits, heldOver[function].waits)
		}
	}
	for function := range heldOver {
		if found[function] == nil {
			t.Errorf("heldOver has %s, which waits for nothing with a lock", function)
		}
	}
}

// TestAWaitWithALockIsNoticed tests the reader itself.
func TestAWaitWithALockIsNoticed(t *testing.T) {
	for body, want := range map[string]string{
		"s.mu.Lock(); s.load(ctx); s.mu.Unlock()":                         "load",
		"s.mu.Lock(); defer s.mu.Unlock(); s.store(ctx, v)":               "store",
		"s.mu.Lock(); s.mu.Unlock(); s.load(ctx)":                         "",
		"s.mu.Lock(); if x { s.mu.Unlock(); return }; <-c; s.mu.Unlock()": "<-",
		"s.mu.RLock(); defer s.mu.RUnlock(); c <- x":                      "<-",
		"s.mu.Lock(); defer s.mu.Unlock(); select { case <-c: default: }": "",
		"s.mu.Lock(); defer s.mu.Unlock(); select { case <-c: }":          "select",
		"s.mu.Lock(); defer s.mu.Unlock(); go s.load(ctx)":                "",
		"s.mu.Lock(); defer s.mu.Unlock(); f = func() { s.load(ctx) }":    "",
		"f = func() { s.mu.Lock(); defer s.mu.Unlock(); s.load(ctx) }":    "load",
		"s.mu.Lock(); defer s.mu.Unlock(); nc.LastError()":                "LastError",
		"s.mu.Lock(); defer s.unlock(); s.load(ctx)":                      "load",
		"all.Lock(); defer all.Unlock(); time.Sleep(x)":                   "Sleep",
	} {
		in, err := waitsIn("x.go", "package x\n\nfunc f() {\n"+body+"\n}\n")
		if err != nil || strings.Join(in["f"], " ") != want {
			t.Errorf("%s: found %v, %v; want %q", body, in["f"], err, want)
		}
	}
}

// waitsIn returns what a file does with a lock that may wait, by function.
func waitsIn(name, text string) (found map[string][]string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found = map[string][]string{}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		bodies := []*ast.BlockStmt{function.Body}
		ast.Inspect(function, func(n ast.Node) bool {
			if literal, ok := n.(*ast.FuncLit); ok {
				bodies = append(bodies, literal.Body)
			}
			return true
		})
		for i, body := range bodies {
			held := spans(body)
			if i == 0 && strings.HasSuffix(function.Name.Name, "Locked") {
				held = []span{{body.Pos(), body.End()}}
			}
			waits := waitsOf(body, held)
			if len(waits) > 0 {
				found[function.Name.Name] = append(found[function.Name.Name], waits...)
			}
		}
	}
	return found, nil
}

// span is from where a lock is taken to where it is given back for the last time.
type span struct{ from, to token.Pos }

func (s span) has(at token.Pos) bool { return s.from < at && at < s.to }

// spans are those in a body. A lock that is given back by defer, or not at all, is held to the end.
func spans(body *ast.BlockStmt) (all []span) {
	open, deferred := map[string]int{}, map[*ast.CallExpr]bool{}
	own(body, func(n ast.Node) {
		if later, ok := n.(*ast.DeferStmt); ok {
			deferred[later.Call] = true
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || deferred[call] {
			return
		}
		of, method := methodOf(call)
		switch method {
		case "Lock", "RLock":
			open[of] = len(all)
			all = append(all, span{call.Pos(), body.End()})
		case "Unlock", "RUnlock", "unlock": // the brake's is of the brake, and not of its mutex
			for name, i := range open {
				if strings.HasPrefix(name, of) {
					all[i].to = call.Pos()
				}
			}
		}
	})
	return all
}

// methodOf returns what a call calls, and of what; "" for what is no name.
func methodOf(call *ast.CallExpr) (of, method string) {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		return types.ExprString(f.X), f.Sel.Name
	}
	return "", ""
}

// own visits what a body itself does, and not what a function or a goroutine does that it makes.
func own(body ast.Node, visit func(ast.Node)) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncLit, *ast.GoStmt:
			return false
		}
		visit(n)
		return true
	})
}

// waitsOf are the names of what may wait within the spans.
func waitsOf(body *ast.BlockStmt, held []span) (waits []string) {
	var chosen []span // of a select, which waits as a whole or not at all
	own(body, func(n ast.Node) {
		if n == nil || !slices.ContainsFunc(held, func(s span) bool { return s.has(n.Pos()) }) {
			return
		}
		switch n := n.(type) {
		case *ast.SelectStmt:
			waiting := true
			for _, one := range n.Body.List {
				comm := one.(*ast.CommClause).Comm
				if comm == nil {
					waiting = false
				} else {
					chosen = append(chosen, span{comm.Pos() - 1, comm.End()})
				}
			}
			if waiting {
				waits = append(waits, "select")
			}
		case *ast.SendStmt:
			waits = appendUnless(waits, chosen, n.Pos())
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				waits = appendUnless(waits, chosen, n.Pos())
			}
		case *ast.CallExpr:
			if of, method := methodOf(n); mayWait(of, method, n) {
				waits = append(waits, method)
			}
		}
	})
	return waits
}

func appendUnless(waits []string, chosen []span, at token.Pos) []string {
	if slices.ContainsFunc(chosen, func(s span) bool { return s.has(at) }) {
		return waits
	}
	return append(waits, "<-")
}

// mayWait reports whether a call is of a waiter or a connection, or gets a context for more than to carry it. What is
// called Locked is looked at itself.
func mayWait(of, method string, call *ast.CallExpr) bool {
	switch {
	case slices.Contains(waiters, method) || isCalled(of, connections):
		return true
	case of == "context" || of == "klog" || of == "runtime" || len(call.Args) == 0 || strings.HasSuffix(method, "Locked"):
		return false
	}
	first := types.ExprString(call.Args[0])
	return isCalled(first, connections) || isCalled(first, contexts)
}

// isCalled reports whether a variable or a field has one of the names.
func isCalled(what string, names []string) bool {
	return slices.Contains(names, what[strings.LastIndexByte(what, '.')+1:])
}
