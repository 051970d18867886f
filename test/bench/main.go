package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// section is one part of the report. If run fails, the chapter that it returns has the figures measured until then.
type section struct {
	name string
	run  func(context.Context, *bench) (*chapter, error)
}

var sections = []section{
	{"job", runJob},
	{"engine", runEngine},
	{"cache", runCache},
	{"fanin", runFanIn},
	{"restart", runRestart},
	{"scale", runScale},
	{"observation", runObservation},
	{"shards", runShards},
}

func main() {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(serveChild(role, os.Stdin, os.Stdout))
	}
	b := &bench{progress: os.Stderr}
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	only := flag.String("only", "",
		"sections to run, with commas between them: "+strings.Join(names, ", ")+" (default all)")
	out := flag.String("out", "", "file to write the report to (default standard output)")
	flag.Float64Var(&b.scale, "scale", 1, "share of the full sizes and durations; 0.01 for a try")
	flag.IntVar(&b.rounds, "rounds", 0, "turns of each measurement (default what each section needs)")
	profiles := flag.String("profile", "", "directory for profiles: each child's processor time, role-pid.pprof, and the heap of scale")
	flag.Parse()
	if *profiles != "" {
		if err := os.Setenv(profileVariable, *profiles); err != nil { // children inherit it
			fmt.Fprintln(os.Stderr, "FAILED:", err)
			os.Exit(1)
		}
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, b, *only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// run runs the sections and writes the report, also if a section failed, so that no figures are lost.
func run(ctx context.Context, b *bench, only, out string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	r, err := b.measure(ctx, chosen)
	return errors.Join(err, write(out, r))
}

// measure runs sections, one after the other.
func (b *bench) measure(ctx context.Context, chosen []section) (*report, error) {
	r := &report{began: time.Now(), load: load(), scale: b.scale, partial: len(chosen) < len(sections)}
	var errs []error
	for _, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		began := time.Now()
		b.say("== %s", s.name)
		chapter, err := s.run(ctx, b)
		if err != nil {
			errs = append(errs, fmt.Errorf("section %s: %w", s.name, err))
			b.say("== %s failed: %v", s.name, err)
		}
		chapter.failed, chapter.took = err, time.Since(began)
		r.chapters = append(r.chapters, chapter)
		b.say("== %s took %.0f s", s.name, chapter.took.Seconds())
	}
	r.took, r.kubernetes = time.Since(r.began), b.kubernetes
	return r, errors.Join(errs...)
}

func choose(only string) ([]section, error) {
	if only == "" {
		return sections, nil
	}
	var chosen []section
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no section %q", name)
		}
		chosen = append(chosen, sections[i])
	}
	return chosen, nil
}

func write(out string, r *report) error {
	text := r.markdown()
	if out == "" {
		_, err := io.WriteString(os.Stdout, text)
		return err
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

// bench is the state that the sections share.
type bench struct {
	scale    float64
	rounds   int
	progress io.Writer
	// kubernetes is the version of the API server, once one was started.
	kubernetes string
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// size returns n at this scale, at least 20.
func (b *bench) size(n int) int { return max(int(float64(n)*b.scale), 20) }

// duration returns d at this scale, at least half a second.
func (b *bench) duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*b.scale), 500*time.Millisecond)
}

// turns returns how often a measurement is taken.
func (b *bench) turns(normal int) int {
	if b.rounds > 0 {
		return b.rounds
	}
	return normal
}
