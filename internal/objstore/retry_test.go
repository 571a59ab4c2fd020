package objstore

import (
	"testing"
	"time"
)

func TestWaitsGrowToTheirCap(t *testing.T) {
	t.Parallel()
	for n, want := range []time.Duration{200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		want *= time.Millisecond
		if least, most := (Retry{}).wait(n, 0), (Retry{}).wait(n, 0.999999); least != want/2 || most > want || most < want*99/100 {
			t.Errorf("wait %d is between %s and %s, want half and all of %s", n, least, most, want)
		}
	}
	if w := (Retry{}).wait(1000, 0); w != 15*time.Second {
		t.Errorf("wait 1000 is %s", w)
	}
	if n := (Retry{}).tries(); n != 6 {
		t.Errorf("there are %d tries", n)
	}
}
