package external

import (
	"errors"
	"fmt"
	"time"
)

// Config says how the runtime uses a client. The zero value of each field means its default.
type Config struct {
	// Interval is how often the resources are listed, give or take a tenth. Each replica lists and watches, whether it
	// leads or not. The default is one minute.
	Interval time.Duration
	// Timeout bounds each call of the API: List, Delete, and the calls of a Driver. The default is 30 s.
	Timeout time.Duration
	// Rate is how many calls a second may be made on average, Burst how many at once. List, Delete and the calls of a
	// Driver of the same kind count together; each controller and each replica counts for itself. The default is no
	// limit. Rate without Burst means a burst of one; Burst without Rate is an error.
	Rate  float64
	Burst int
	// BackoffMin and BackoffMax bound the pauses between polls of an API that is away, and before Watch is called
	// again. A pause doubles each time, with jitter. The defaults are 1 s and 1 min.
	BackoffMin, BackoffMax time.Duration
	// Settle is how long after a write List may not show it yet. Before a teardown believes that nothing is left, it
	// waits that long, or for the Settle of Reconcile if that is longer. The default, 0, is for an API whose lists show
	// every write that it has answered.
	Settle time.Duration
	// Optional has the controller work before the first list has succeeded; see WithOptional of package controller.
	Optional bool
}

const (
	defaultInterval   = time.Minute
	defaultTimeout    = 30 * time.Second
	defaultBackoffMin = time.Second
	defaultBackoffMax = time.Minute
)

// Configure returns the client with these settings. Of two Configure around one client the outer counts. The user of
// the client, such as controller.New, reports settings that are invalid.
func Configure(client IExternalClient, config Config) IExternalClient {
	inner, _ := Unwrap(client)
	return &configured{IExternalClient: inner, config: config}
}

type configured struct {
	IExternalClient
	config Config
}

// Unwrap returns the client and the settings that Configure was given. Ask that client, not the configured one, for
// optional interfaces. A client without Configure is returned as it is, with the zero Config.
func Unwrap(client IExternalClient) (IExternalClient, Config) {
	if c, ok := client.(*configured); ok {
		return c.IExternalClient, c.config
	}
	return client, Config{}
}

// WithDefaults returns the settings with the defaults filled in. The error says what is wrong with them.
func (c Config) WithDefaults() (Config, error) {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Interval", c.Interval}, {"Timeout", c.Timeout},
		{"BackoffMin", c.BackoffMin}, {"BackoffMax", c.BackoffMax}, {"Settle", c.Settle},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %v, it must not be negative", d.name, d.value))
		}
	}
	if c.Rate < 0 || c.Burst < 0 || c.Burst > 0 && c.Rate == 0 {
		errs = append(errs, fmt.Errorf("want a positive rate, or neither rate nor burst: Rate %v, Burst %d",
			c.Rate, c.Burst))
	}
	if c.Rate > 0 && c.Burst == 0 {
		c.Burst = 1
	}
	setDefault(&c.Interval, defaultInterval)
	setDefault(&c.Timeout, defaultTimeout)
	if c.BackoffMax == 0 {
		c.BackoffMax = max(defaultBackoffMax, c.BackoffMin)
	}
	if c.BackoffMin == 0 {
		c.BackoffMin = min(defaultBackoffMin, c.BackoffMax)
	}
	if c.BackoffMax < c.BackoffMin {
		errs = append(errs, fmt.Errorf("BackoffMax %v is less than BackoffMin %v", c.BackoffMax, c.BackoffMin))
	}
	return c, errors.Join(errs...)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
