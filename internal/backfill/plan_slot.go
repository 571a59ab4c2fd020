package backfill

import (
	"cmp"
	"slices"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/stream"
)

// Caps bound how many plans may have a slot.
type Caps struct {
	Global int
	PerOrg int // of orgs without a limit of their own
}

// Grant chooses the plans that get a slot: those that had one before, then by an operator's priority, then the orgs in turn,
// then the one that has waited longest.
func Grant(c Caps, used map[sluice.Org]int, waiting []stream.SlotCandidate) []stream.SlotCandidate {
	free, have := c.Global, map[sluice.Org]int{}
	for org, n := range used {
		free -= n
		have[org] = n
	}
	left := slices.Clone(waiting)
	var out []stream.SlotCandidate
	for free > 0 {
		best := -1
		for i, w := range left {
			limit := c.PerOrg
			if w.OrgCap != nil {
				limit = int(*w.OrgCap)
			}
			if have[w.Org] >= limit {
				continue
			}
			if best < 0 || before(w, left[best], have) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		have[left[best].Org]++
		out = append(out, left[best])
		left = slices.Delete(left, best, best+1)
		free--
	}
	return out
}

func before(a, b stream.SlotCandidate, have map[sluice.Org]int) bool {
	return cmp.Or(
		-boolCompare(a.Resumed, b.Resumed),
		-cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(have[a.Org], have[b.Org]),
		a.WantedAt.Compare(b.WantedAt),
		cmp.Compare(a.PlanID, b.PlanID),
	) < 0
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Backoff is how long a plan rests after its n-th failure in a row; spread is a random number from 0 to 1.
func Backoff(n int64, spread float64) time.Duration {
	d := 30 * time.Second
	for i := int64(1); i < n && d < 30*time.Minute; i++ {
		d *= 2
	}
	d = min(d, 30*time.Minute)
	return time.Duration(float64(d) * (0.8 + 0.4*spread))
}

// MaxReplans in a day by itself; then a person has to look.
const MaxReplans = 3
