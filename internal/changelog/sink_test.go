package changelog

import (
	"testing"

	"sluice/internal/sluice"
	"sluice/internal/testkit/house"
)

// TestWorkedExample is the example of the specification, message by message.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	for _, postgres := range []bool{false, true} {
		t.Run(map[bool]string{false: "duckdb", true: "postgres"}[postgres], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, house.Options{Postgres: postgres}, Definition{},
				Cursor{Partition: 0, Next: 98, LeaderEpoch: -1, Timestamp: -1}, Cursor{Partition: 1, Next: 40, LeaderEpoch: -1, Timestamp: -1})
			k, _ := r.sink("one")
			if _, err := r.flush(k, `0 98 {"id":0,"v":0}`); err != nil {
				t.Fatal(err)
			}
			out, err := r.flush(k, `0 99 {"id":9}`, `0 100 {"id":1,"v":5}`, `0 101 {"id":2,"v":"x"}`, `0 103 null`, `1 40 {bad`, `1 41 {"id":3,"w":true,"ID":9}`, `0 100 {"id":1,"v":5}`)
			if err != nil {
				t.Fatal(err)
			}
			if out.Rows != 5 || out.Poison["malformed_json"] != 1 || out.Refetched != 1 {
				t.Errorf("flushed %+v", out)
			}
			r.want("SELECT _topic_epoch, _partition, _offset, _tombstone, id, v, w, _extra FROM lake.feeds.events ORDER BY 2, 3",
				"0|0|98|f|0|0|∅|∅", "0|0|99|f|9|∅|∅|∅", "0|0|100|f|1|5|∅|∅", `0|0|101|f|2|∅|∅|{"v":"x"}`, "0|0|103|t|∅|∅|∅|∅", `0|1|41|f|3|∅|t|{"ID":9}`)
			r.want("SELECT kafka_partition, kafka_offset, reason, decode(value), state FROM lake._sluice.quarantine_"+hexID(r.c.ID), "1|40|malformed_json|{bad|open")
			r.want("SELECT kafka_partition, next_offset, leader_epoch, epoch_ms(last_timestamp) FROM "+ControlTable(r.c.ID, 0).SQL()+" WHERE kind = 'offset' ORDER BY 1",
				"0|104|5|1700000000103", "1|42|5|1700000000041")
			r.want("SELECT seq FROM "+ControlTable(r.c.ID, 0).SQL()+" WHERE kind = 'fence'", "3")
		})
	}
}

// TestZombieIsFenced: the former owner of a slot commits nothing, whatever it believes.
func TestZombieIsFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{}, Definition{})
	old, _ := r.sink("one")
	if _, err := r.flush(old, `0 0 {"id":1}`); err != nil {
		t.Fatal(err)
	}
	owner, st := r.sink("two")
	if st.Next()[0] != 1 {
		t.Fatalf("the new owner goes on at %v", st.Next())
	}
	if _, err := r.flush(old, `0 1 {"id":2}`); sluice.CodeOf(err) != "SLUICE-CHANGELOG-FENCED" {
		t.Fatalf("the old owner got %v", err)
	}
	if _, err := r.flush(owner, `0 1 {"id":2}`); err != nil {
		t.Fatal(err)
	}
	r.want("SELECT _offset, id FROM lake.feeds.events ORDER BY 1", "0|1", "1|2")
}
