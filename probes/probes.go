// Package probes answers whether the controllers of a process are alive and ready, and serves that, and what else is
// asked for, over HTTP.
//
//	p := probes.New()
//	p.Add("sites", c)
//	server := &probes.Server{Address: "0.0.0.0:8080", Handlers: p.Handlers()}
//	err := server.Run(ctx)
//
// Server.TLS has it serve over TLS, with certificates that are read again when they change. Server.Auth asks who it is
// that asks for anything but the probes: by a file of tokens, a Kubernetes API server (package probes/kubeauth), or a
// function.
//
// It is apart from package metrics: who wants health alone does not build Prometheus. To serve both with one listener,
// add metrics.Metrics.Handler to Server.Handlers.
//
// A manager starts the server before it fills its caches: /healthz answers from then on, and /readyz says what is
// missing, also of the manager's own caches with
//
//	p.AddCheck("caches", m.Synced)
//
// Before that the process connects (manager.Config.WaitForServer) and makes its clients, and nothing listens yet. So in
// Kubernetes a startupProbe is to give it the time that this may take, and holds the other probes back meanwhile:
//
//	startupProbe:   {httpGet: {path: /healthz, port: 8080}, periodSeconds: 2, failureThreshold: 60}
//	livenessProbe:  {httpGet: {path: /healthz, port: 8080}, periodSeconds: 10, timeoutSeconds: 5}
//	readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 5}
//
// Two minutes here: more than WaitForServer. Do not let the startupProbe ask /readyz, or a process whose NATS is away
// is killed again and again.
package probes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nagi-runtime/nagi/controller"
	"github.com/nagi-runtime/nagi/entity"
	"github.com/nagi-runtime/nagi/internal/guard"
	"github.com/nagi-runtime/nagi/internal/lease"
	"github.com/nagi-runtime/nagi/internal/printable"
	"github.com/nagi-runtime/nagi/internal/running"
)

// Controller is what the probes read of a controller.Controller.
type Controller interface{ Stats() controller.Stats }

// Probes are those of the controllers of a process. New makes them; without a controller they are alive and ready. All
// methods may be called concurrently. No probe sends a request to a server.
type Probes struct {
	mu     sync.Mutex
	byName map[string]Controller
	checks map[string]func() error
}

// New returns probes without a controller.
func New() *Probes {
	return &Probes{byName: map[string]Controller{}, checks: map[string]func() error{}}
}

// Add adds a controller. Another one of the same name takes its place.
func (p *Probes) Add(name string, c Controller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byName[name] = c
}

// Remove takes away the controller of that name, before it is stopped while the process goes on: its end would fail
// Alive. It does nothing where there is none.
func (p *Probes) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byName, name)
}

// AddCheck adds what else has to be well before the process is ready, such as Manager.Synced of package manager: an
// error says what is missing. It does not count for whether the process is alive. It is called for each probe, perhaps
// by several goroutines, and must return at once. Another one of the same name takes its place.
func (p *Probes) AddCheck(name string, check func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks[name] = check
}

// Problem is a reason why a probe fails.
type Problem struct {
	// Controller is its name; "" for a check.
	Controller string `json:"controller,omitempty"`
	// What does not work, such as "primary Site (bucket sites)", "synced" or "run".
	What   string `json:"what"`
	Reason string `json:"reason"`
	// Since is when it began; absent if that is not known.
	Since *time.Time `json:"since,omitempty"`
}

// Answer is what a probe answers, as JSON: with status 200 if it is ok, else with 503. Some problems do not make it
// fail.
type Answer struct {
	OK       bool      `json:"ok"`
	Problems []Problem `json:"problems,omitempty"`
}

// stuckFor is how long a term may be over before what goes on in it counts as stuck. It is more than the 10 seconds
// after which Run ends by itself, if no longer grace period was asked for.
const stuckFor = 30 * time.Second

// Alive fails if the process cannot go on and another one could: Run of a controller has returned, or a term is over
// and for half a minute something in it has not returned, so that nothing is reconciled. That a server is away does not
// fail it, and neither does a reconcile that takes long: a restart would mend nothing.
func (p *Probes) Alive() Answer {
	return p.ask(func(s *controller.Stats, problem func(what string, err error)) {
		if s.Ended {
			problem("run", errors.New("Run has returned: the controller does not work any more"))
			return
		}
		err := s.Degraded[running.ProblemEndOfTerm]
		if since, dated := errors.AsType[*controller.Problem](err); dated && time.Since(since.Since) >= stuckFor {
			problem(running.ProblemEndOfTerm, err)
		}
	})
}

// Ready fails while a controller has not synced, or is degraded, or a check of AddCheck fails. A replica that waits for
// the lease is ready: it is warm, and takes over when the leader goes. An optional source that has not synced
// (controller.WithOptional) is among the problems, and does not fail it: the controller works without. Nor do settings
// of a bucket that became unsafe while it works (entity.ErrUnsafeSettings).
//
// Nor does what a rolling update has to wait for, or it would never come to its end: that the lease of the process is
// held by one with other controllers, and that a replica with controller.WithShards and one without it wait for each
// other. A member that has no slot yet, hands its slots over to leave, or is about to join, is ready, and says so.
func (p *Probes) Ready() Answer {
	answer := p.ask(func(s *controller.Stats, problem func(what string, err error)) {
		switch {
		case s.Ended:
			problem("run", errors.New("Run has returned: the controller does not work any more"))
			return
		case !s.Synced:
			problem("synced", errors.New("not all sources have synced yet"))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Degraded)) {
			problem(name, s.Degraded[name])
		}
		if s.Synced && len(s.Degraded) == 0 { // else that is the reason
			tellShards(s.Shards, problem)
		}
	})
	p.mu.Lock()
	checks := maps.Clone(p.checks)
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := guard.Call(checks[name]); err != nil {
			answer.add("", name, err)
		}
	}
	return answer
}

// ask asks for what is wrong with each controller.
func (p *Probes) ask(look func(s *controller.Stats, problem func(what string, err error))) Answer {
	p.mu.Lock()
	controllers := maps.Clone(p.byName)
	p.mu.Unlock()
	answer := Answer{OK: true}
	for _, name := range slices.Sorted(maps.Keys(controllers)) {
		stats := controllers[name].Stats()
		look(&stats, func(what string, err error) { answer.add(name, what, err) })
	}
	return answer
}

func (a *Answer) add(name, what string, err error) {
	problem := Problem{
		Controller: printable.Text(name), What: printable.Text(what), Reason: printable.Message(err.Error()),
	}
	if dated, ok := errors.AsType[*controller.Problem](err); ok {
		problem.Since = &dated.Since
	}
	_, passing := errors.AsType[passes](err)
	a.OK = a.OK && (passing || slices.ContainsFunc(harmless, func(one error) bool { return errors.Is(err, one) }))
	a.Problems = append(a.Problems, problem)
}

// harmless are the problems that are told and fail no probe.
var harmless = []error{
	controller.ErrNotSynced, entity.ErrUnsafeSettings, lease.ErrOtherControllers, lease.ErrShared, lease.ErrAlone,
}

// Handlers are the probes by path: /healthz is Alive, /readyz is Ready.
func (p *Probes) Handlers() map[string]http.Handler {
	return map[string]http.Handler{"/healthz": handler(p.Alive), "/readyz": handler(p.Ready)}
}

func handler(probe func() Answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, fmt.Sprintf("%s is not allowed here", r.Method), http.StatusMethodNotAllowed)
			return
		}
		answer := probe()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !answer.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer) // who asked has gone
	})
}
