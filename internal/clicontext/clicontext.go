// Package clicontext reads the contexts of the nats command line: which is selected, and where it connects as whom.
//
// The rule: what natscontext, which connects with them, would pass over without a word is refused here.
package clicontext

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nagi-runtime/nagi/internal/kvstream"
	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

// Context is one of the nats command line. natscontext.Connect connects with its Path, and the format of the file is
// its. But that reads only while it connects, and passes over what it cannot do: a JWT, nsc, half a key pair. So the
// file is read here first.
type Context struct {
	natscontext.Settings
	Name string
	Path string // absolute
}

// Selected is the name of the context that the nats command line has selected; "" if there is none.
func Selected() (string, error) {
	dir, err := contextsDir()
	if err != nil {
		return "", nil // without a home there is no selection
	}
	path := filepath.Join(filepath.Dir(dir), "context.txt")
	name, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("which context of the nats command line is selected: %w", err)
	}
	return strings.TrimSpace(string(name)), nil
}

// contextsDir is where the nats command line keeps its contexts, on each system.
func contextsDir() (string, error) {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "nats", "context"), nil
}

// Read reads a context by its name, or by the absolute path of its file.
func Read(name string) (*Context, error) {
	path := name
	if !filepath.IsAbs(name) {
		if strings.ContainsAny(name, `/\`) || strings.Contains(name, "..") {
			return nil, fmt.Errorf("%q is neither the name of a context of the nats command line nor an absolute path",
				name)
		}
		dir, err := contextsDir()
		if err != nil {
			return nil, fmt.Errorf("find context %q of the nats command line: %w", name, err)
		}
		path = filepath.Join(dir, name+".json")
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no context %q of the nats command line, since there is no file %s: "+
			"nats context ls lists what there is", name, path)
	}
	if err != nil {
		return nil, fmt.Errorf("read context %q of the nats command line: %w", name, err)
	}
	c := &Context{Name: name, Path: path}
	if err := json.Unmarshal(text, &c.Settings); err != nil {
		return nil, fmt.Errorf("read context %q of the nats command line: %s is no such JSON: %w", name, path, err)
	}
	c.URL = cmp.Or(c.URL, nats.DefaultURL)
	return c, c.supported()
}

// supported refuses what natscontext would pass over without a word.
func (c *Context) supported() error {
	switch {
	case c.UserJwt != "":
		return fmt.Errorf("context %q has a user_jwt, which is not supported: give it a credentials file (creds)",
			c.Name)
	case c.NSCLookup != "":
		return fmt.Errorf("context %q looks its user up with nsc, which is not supported: "+
			"write the credentials file with nsc generate creds, and give it that (creds)", c.Name)
	case (c.Cert == "") != (c.Key == ""):
		return fmt.Errorf("context %q has one of cert and key: give it both", c.Name)
	case c.JSDomain != "" && c.JSAPIPrefix != "":
		return fmt.Errorf("context %q has a jetstream_domain and a jetstream_api_prefix: leave one of them", c.Name)
	}
	if err := kvstream.CheckAPI(c.JSDomain, c.JSAPIPrefix); err != nil {
		return fmt.Errorf("context %q: %w", c.Name, err)
	}
	return nil
}
