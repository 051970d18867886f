package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// patience is how long one step may take.
const patience = 20 * time.Second

// player plays the users.
type player struct {
	js      jetstream.JetStream
	clients Clients
}

// step is one thing that a user does, and the state that must follow soon.
type step struct {
	name string
	do   func(ctx context.Context) error
	want func(ctx context.Context) (seen string, err error) // by live reads; an error means: not yet
}

func (p *player) steps() []step {
	return []step{
		{
			name: "a program puts a shop that sells tea",
			do:   func(ctx context.Context) error { return p.put(ctx, "corner", `{"spec":{"sells":"tea"}}`) },
			want: p.pages("home", "tea"),
		},
		{
			name: "it sells coffee instead",
			do:   func(ctx context.Context) error { return p.put(ctx, "corner", `{"spec":{"sells":"coffee"}}`) },
			want: p.pages("coffee", "home"),
		},
		{
			name: "a user deletes a page by hand",
			do:   func(ctx context.Context) error { return p.clients["Page"].Delete(ctx, "corner-site-home") },
			want: p.pages("coffee", "home"),
		},
		{
			name: "a shop forgets to say what it sells",
			do:   func(ctx context.Context) error { return p.put(ctx, "empty", `{"spec":{}}`) },
			want: p.toldWhy,
		},
		{
			name: "both shops close",
			do: func(ctx context.Context) error {
				return errors.Join(p.clients["Shop"].Delete(ctx, "corner"), p.clients["Shop"].Delete(ctx, "empty"))
			},
			want: p.pages(),
		},
	}
}

func (p *player) put(ctx context.Context, key, document string) error {
	kv, err := p.js.KeyValue(ctx, "shops")
	if err != nil {
		return err
	}
	_, err = kv.PutString(ctx, key, document)
	return err
}

// pages wants the pages of the only shop with a site, each with the whole number of visitors of kinds.json.
func (p *player) pages(names ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, err := p.clients["Page"].List(ctx)
		if err != nil {
			return "", err
		}
		var urls, want []string
		for _, page := range found {
			url, _, err := unstructured.NestedString(page.Object, "spec", "url")
			if err != nil {
				return "", err
			}
			visitors, _, _ := unstructured.NestedString(page.Object, "spec", "counts", "visitors")
			if visitors != "9007199254740993" {
				return "", fmt.Errorf("page %s has %q visitors", page.GetName(), visitors)
			}
			urls = append(urls, url)
		}
		for _, name := range names {
			want = append(want, "https://corner.example/"+name)
		}
		slices.Sort(urls)
		if !slices.Equal(urls, want) {
			return "", fmt.Errorf("the pages are %q, want %q", urls, want)
		}
		if len(names) == 0 {
			return "no page is left", nil
		}
		return "pages " + strings.Join(names, ", "), nil
	}
}

// toldWhy wants the reason in the record of the shop that lacks a member.
func (p *player) toldWhy(ctx context.Context) (string, error) {
	record, err := p.clients["Shop"].Record(ctx, "empty")
	if apierrors.IsNotFound(err) {
		return "", errors.New("it has no record")
	}
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(record)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), `map has no entry for key \"sells\"`) {
		return "", fmt.Errorf("its record is %s", text)
	}
	return "its record says that spec.sells is missing", nil
}

// play does and checks the steps one by one, until one fails.
func play(ctx context.Context, out io.Writer, js jetstream.JetStream, clients Clients) error {
	p := &player{js: js, clients: clients}
	steps := p.steps()
	for i, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.name, err)
		}
		seen, err := until(ctx, s.want)
		if err != nil {
			return fmt.Errorf("step %d, %s: the world does not match: %w", i+1, s.name, err)
		}
		fmt.Fprintf(out, "%-40s → %s, after %.1f ms\n", s.name, seen, float64(time.Since(began).Microseconds())/1000)
	}
	fmt.Fprintf(out, "\nAll %d steps hold.\n", len(steps))
	return nil
}

// until asks until the answer is yes.
func until(ctx context.Context, want func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var notYet error
	for {
		seen, err := want(ctx)
		if err == nil {
			return seen, nil
		}
		if ctx.Err() == nil {
			notYet = err
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(notYet, ctx.Err())
		case <-tick.C:
		}
	}
}
