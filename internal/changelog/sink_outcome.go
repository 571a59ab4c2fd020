package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/sluice"
)

// resolve finds out, on a session of its own, what became of a transaction (spec/lake.md §5): effect tells from what the control
// table says whether it is stored. A slot that has another owner is an error. Afterwards k.seq is where the fence is.
func (k *sink) resolve(ctx context.Context, cause error, effect func(SlotState) (bool, error)) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	for try := 1; ; try++ {
		k.close()
		s, err := k.session(ctx)
		var st SlotState
		if err == nil {
			st, err = ReadSlot(ctx, s, k.c.ID, k.slot)
		}
		if err != nil {
			if perr := pause(ctx, try); perr != nil {
				return false, sluice.E("SLUICE-LAKE-UNRESOLVED", fmt.Sprintf("resolve a flush of slot %d of changelog %s", k.slot, k.c.Name), "",
					"the slot goes on by itself once the lake answers", errors.Join(cause, err))
			}
			continue
		}
		if st.Owner != k.owner {
			return false, fenced(k.c, k.slot, k.seq)
		}
		// A replay moves the fence under the same owner, so the effect is what tells.
		k.seq = st.Seq
		return effect(st)
	}
}

// landed tells from the offsets whether a flush is stored: they all are where it has put them, or where it has found them.
func landed(c *Changelog, ranges []Range) func(SlotState) (bool, error) {
	return func(st SlotState) (bool, error) {
		next := st.Next()
		after, before := 0, 0
		for _, r := range ranges {
			switch next[r.Partition] {
			case r.Next:
				after++
			case r.Expected:
				before++
			}
		}
		switch len(ranges) {
		case after:
			return true, nil
		case before:
			return false, nil
		}
		return false, sluice.E("SLUICE-CHANGELOG-CONTROL", fmt.Sprintf("flush changelog %s", c.Name), "an offset in the lake is not where this owner has left it",
			"write nothing by hand to the control tables; then `sluice changelog resume`", nil)
	}
}

const resolveTimeout = 5 * time.Minute
