package natsinformer

import (
	"bytes"
	"encoding/json"

	"github.com/nats-io/nats.go/jetstream"
)

// tellSettings tells Config.OnSettings what settings the stream has, from an answer with its state: when they are first
// known, and when they have changed.
func (src *source) tellSettings(answer []byte) {
	if src.cfg.OnSettings == nil {
		return
	}
	var raw struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(answer, &raw); err != nil || bytes.Equal(raw.Config, src.settings) {
		return
	}
	var settings jetstream.StreamConfig
	if err := json.Unmarshal(raw.Config, &settings); err != nil {
		return // a newer server's, of which this library does not know a value
	}
	src.settings = bytes.Clone(raw.Config)
	src.cfg.OnSettings(settings)
}
