package probes

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// profiles serves what `go tool pprof` and `go tool trace` ask for. It is not net/http/pprof, which serves the profiles
// on http.DefaultServeMux of each program that it is linked into: a program that serves that would show them unasked.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, p := range pprof.Profiles() {
			fmt.Fprintln(w, p.Name())
		}
		fmt.Fprint(w, "profile?seconds=30\ntrace?seconds=1\n")
	})
	mux.HandleFunc("GET /debug/pprof/{name}", func(w http.ResponseWriter, r *http.Request) {
		p := pprof.Lookup(r.PathValue("name"))
		if p == nil {
			http.Error(w, "there is no such profile; /debug/pprof/ lists them", http.StatusNotFound)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug")) // anything else is 0, the form for tools
		w.Header().Set("Content-Type", contentType(debug))
		_ = p.WriteTo(w, debug) // who asked has gone
	})
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		during(w, r, 30*time.Second, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		during(w, r, time.Second, func() error { return trace.Start(w) }, trace.Stop)
	})
	return mux
}

func contentType(debug int) string {
	if debug > 0 {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// during records for as long as is asked for, or the server, or who asked, goes on.
func during(w http.ResponseWriter, r *http.Request, usual time.Duration, start func() error, stop func()) {
	d := usual
	if text := r.FormValue("seconds"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		d = time.Duration(n * float64(time.Second))
		if err != nil || d <= 0 || d > longestProfile {
			message := fmt.Sprintf("seconds: want a number up to %v", longestProfile.Seconds())
			http.Error(w, message, http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", contentType(0))
	if err := start(); err != nil {
		http.Error(w, err.Error()+": try again later", http.StatusConflict)
		return
	}
	defer stop()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
