package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/nagi-runtime/nagi/probes"
)

// get asks a replica over HTTP.
func (m *member) get(ctx context.Context, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// probe asks a probe whether all is well.
func (m *member) probe(ctx context.Context, path string) (answer probes.Answer, err error) {
	status, body, err := m.get(ctx, path)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("replica %s: %s: %w", m.name, path, err)
	}
	if answer.OK != (status == http.StatusOK) {
		return answer, fmt.Errorf("replica %s: %s says ok=%t with status %d", m.name, path, answer.OK, status)
	}
	return answer, nil
}

// well fails unless a probe says that all is well.
func (m *member) well(ctx context.Context, path string) error {
	answer, err := m.probe(ctx, path)
	if err == nil && !answer.OK {
		err = fmt.Errorf("replica %s: %s says %+v", m.name, path, answer.Problems)
	}
	return err
}

// scraped is what a replica shows to Prometheus: lines such as name{label="value"} 3, and comments.
type scraped []string

func (m *member) scrape(ctx context.Context) (scraped, error) {
	status, body, err := m.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("replica %s: /metrics answers with status %d: %s", m.name, status, body)
	}
	var series scraped
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "#") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	return series, nil
}

// sum adds up the series of one name.
func (all scraped) sum(name string) (sum float64) {
	for _, line := range all {
		if strings.HasPrefix(line, name+"{") {
			value, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			sum += value
		}
	}
	return sum
}
