package changelog

import (
	"fmt"
	"sort"

	"sluice/internal/sluice"
)

// What the broker says about a topic is compared with what the lake says here, without asking anybody.

// Topic is what the broker says.
type Topic struct {
	ID         string
	Partitions map[int32]Bounds
}

// Bounds of a partition's log.
type Bounds struct {
	Start  int64 // the first offset that is there
	End    int64 // the offset that the next message gets
	Stable int64 // the end of what is committed; below End while a transaction is open
}

// Gap is a piece of a partition that the lake needs and the topic has no longer.
type Gap struct {
	Partition int32
	Wanted    int64
	Available int64
}

// Verdict is what follows for a slot.
type Verdict struct {
	New  []int32 // partitions of the slot that it does not have yet
	Gaps []Gap
	Halt *sluice.Error // nothing of this may be taken until a person has looked
}

// Judge compares the offsets of a slot with the topic.
func Judge(c *Changelog, slot int, st SlotState, t Topic) Verdict {
	var v Verdict
	doing := fmt.Sprintf("follow topic %s for changelog %s", c.Topic, c.Name)
	_, id := st.Epoch()
	if id != "" && t.ID != "" && id != t.ID {
		v.Halt = sluice.E("SLUICE-CHANGELOG-TOPIC-RECREATED", doing, fmt.Sprintf("the topic is another one: its id was %s and is %s", id, t.ID),
			"`sluice changelog resume --new-epoch` takes the new topic from its beginning, beside what is there", nil)
		return v
	}
	have := map[int32]bool{}
	for _, cur := range st.Cursors {
		have[cur.Partition] = true
		b, ok := t.Partitions[cur.Partition]
		switch {
		case !ok:
			v.Halt = sluice.E("SLUICE-CHANGELOG-TOPIC-RECREATED", doing, fmt.Sprintf("the topic has %d partitions, and partition %d was there before", len(t.Partitions), cur.Partition),
				"`sluice changelog resume --new-epoch` takes the new topic from its beginning, beside what is there", nil)
			return v
		case cur.Next > b.End:
			v.Halt = sluice.E("SLUICE-CHANGELOG-TRUNCATED", doing, fmt.Sprintf("partition %d ends at %d, and the lake has messages up to %d: the topic has lost messages", cur.Partition, b.End, cur.Next),
				"`sluice changelog resume --accept-truncation` goes on at the topic's end, in a new epoch", nil)
			return v
		case cur.Next < b.Start:
			v.Gaps = append(v.Gaps, Gap{cur.Partition, cur.Next, b.Start})
		}
	}
	for p := range t.Partitions {
		if int(p)%c.Slots == slot && !have[p] {
			v.New = append(v.New, p)
		}
	}
	sort.Slice(v.New, func(i, j int) bool { return v.New[i] < v.New[j] })
	if len(v.Gaps) > 0 && c.Def.OnGap != GapSkip {
		g := v.Gaps[0]
		v.Halt = sluice.E("SLUICE-CHANGELOG-GAP", doing, fmt.Sprintf("partition %d begins at %d, and the lake needs %d: %d messages are lost", g.Partition, g.Available, g.Wanted, g.Available-g.Wanted),
			"`sluice changelog resume --accept-gap` goes on behind the gap and notes it in quarantine; raise the topic's retention", nil)
	}
	return v
}
