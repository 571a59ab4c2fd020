package load

import (
	"strings"
	"testing"
	"time"
)

// The session is closed before the lease is given back: who claims the place must not find it open.
func TestSessionThatOthersWaitForIsClosed(t *testing.T) {
	for reason, ask := range map[string]func(d *desk){
		closedAsked: func(d *desk) { d.asked = true },
		closedOrg:   func(d *desk) { d.orgPaused = true },
	} {
		t.Run(reason, func(t *testing.T) {
			inBubble(t, func(d *desk, _ *parlour, _ *Config) { d.add(1) }, func(t *testing.T, l *Loader, d *desk, _ func()) {
				time.Sleep(10 * time.Second)
				d.mu.Lock()
				ask(d)
				d.mu.Unlock()
				time.Sleep(3 * time.Second)
				if d.count("closed") != 1 || d.count("released") != 1 || l.Status().Lingering != 0 || l.Status().Closed[reason] != 1 {
					t.Errorf("closed %d, released %d, %+v", d.count("closed"), d.count("released"), l.Status())
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				if log := strings.Join(d.log, "\n"); strings.Index(log, "closed") > strings.Index(log, "released") {
					t.Errorf("the lease goes before the session:\n%s", log)
				}
			})
		})
	}
}

// 120 s after the last batch no session is open, with no traffic at all.
func TestIdleSessionsEnd(t *testing.T) {
	inBubble(t, func(d *desk, _ *parlour, _ *Config) { d.add(3) }, func(t *testing.T, l *Loader, d *desk, _ func()) {
		time.Sleep(120 * time.Second)
		if d.count("opened") != 1 || d.count("closed") != 1 || l.Status().Lingering != 0 || l.Status().Closed[closedIdle] != 1 {
			t.Errorf("opened %d, closed %d, %+v", d.count("opened"), d.count("closed"), l.Status())
		}
	})
}

func TestIdleSessionsEndAtShutdown(t *testing.T) {
	inBubble(t, func(d *desk, _ *parlour, _ *Config) { d.add(3) }, func(t *testing.T, l *Loader, d *desk, stop func()) {
		time.Sleep(10 * time.Second)
		if d.count("closed") != 0 || l.Status().Lingering != 1 {
			t.Errorf("closed %d, %+v", d.count("closed"), l.Status())
		}
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 0 || d.count("closed") != 1 || l.Status().Closed[closedDrain] != 1 {
			t.Errorf("%s, closed %d, %+v", took, d.count("closed"), l.Status())
		}
	})
}
