package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control"
)

func TestBans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b control.Bans
		const eve, ada = "192.0.2.1:4711", "[2001:db8::1]:4711"
		for range 4 {
			b.Failed(eve)
		}
		if b.Banned(eve) != 0 {
			t.Error("banned after four failures")
		}
		time.Sleep(6 * time.Minute)
		b.Failed(eve)
		if b.Banned(eve) != 0 {
			t.Error("failures of long ago count")
		}
		for range 4 {
			b.Failed("192.0.2.1:1")
		}
		if b.Banned(eve) != 5*time.Minute || b.Banned(ada) != 0 {
			t.Errorf("%s, %s", b.Banned(eve), b.Banned(ada))
		}
		time.Sleep(5*time.Minute + time.Second)
		if b.Banned(eve) != 0 {
			t.Error("banned for ever")
		}
		for range 20 {
			b.Failed("127.0.0.1:1")
			b.Failed("[::1]:1")
		}
		if b.Banned("127.0.0.1:2")+b.Banned("[::1]:2") != 0 {
			t.Error("loopback is banned")
		}
		for i := range 20_000 {
			b.Failed(fmt.Sprintf("10.0.%d.%d:1", i/250, i%250))
		}
	})
}
