package probes

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAuthorityThatIsTakenAwayLetsNobodyIn, whatever else is wrong: the pair does not fit, or ClientCA is emptied, has
// no certificate or is gone. The log says so once, and what to do.
func TestAnAuthorityThatIsTakenAwayLetsNobodyIn(t *testing.T) {
	for name, take := range map[string]func(m *mount, cert, otherKey, otherCA []byte){
		"the pair does not fit": func(m *mount, cert, otherKey, otherCA []byte) { m.swap(cert, otherKey, otherCA) },
		"the key is gone": func(m *mount, cert, otherKey, otherCA []byte) {
			m.swap(cert, otherKey, otherCA)
			must(m.t, os.Remove(m.file("tls.key")))
		},
		"emptied":        func(m *mount, cert, _, _ []byte) { must(m.t, os.WriteFile(m.file("ca.crt"), nil, 0o600)) },
		"no certificate": func(m *mount, cert, _, _ []byte) { must(m.t, os.WriteFile(m.file("ca.crt"), cert[:9], 0o600)) },
		"gone":           func(m *mount, _, _, _ []byte) { must(m.t, os.Remove(m.file("ca.crt"))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca, other, m := newAuthority(t), newAuthority(t), newMount(t)
				cert, key := ca.pair(t, "client", 24*time.Hour)
				_, otherKey := ca.pair(t, "another", 24*time.Hour)
				m.swap(cert, key, ca.pem)
				c, err := m.tls().open()
				must(t, err)
				ctx, log := logged(t.Context())
				ctx, stop := context.WithCancel(ctx)
				var watching sync.WaitGroup
				watching.Go(func() { c.watch(ctx) })
				defer watching.Wait()
				defer stop()
				synctest.Wait()
				must(t, c.verifyClient(shown(t, cert)))
				take(m, cert, otherKey, other.pem)
				time.Sleep(lookEvery)
				synctest.Wait()
				if err := c.verifyClient(shown(t, cert)); !errors.Is(err, ErrUnauthenticated) {
					t.Errorf("its client is let in: %v", err)
				}
				time.Sleep(time.Hour)
				text := log.read()
				nobody := strings.Count(text, "lets in no client") == 1 && strings.Contains(text, m.file("ca.crt"))
				if anew := strings.Count(text, "authorities of the listener's clients were read anew") == 1; nobody == anew {
					t.Errorf("it told of nobody %v, and of others %v:\n%s", nobody, anew, text)
				}
				if strings.Count(text, "\n") > 2 {
					t.Errorf("it told more than once:\n%s", text)
				}
				_ = os.Remove(m.file("ca.crt"))
				must(t, os.WriteFile(m.file("ca.crt"), ca.pem, 0o600))
				time.Sleep(lookEvery + lookAgain)
				synctest.Wait()
				must(t, c.verifyClient(shown(t, cert)))
				if text := log.read(); !strings.Contains(text, "clients were read anew") {
					t.Errorf("that it lets in clients again is not told:\n%s", text)
				}
			})
		})
	}
}
