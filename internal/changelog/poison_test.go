package changelog

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/testkit/house"
)

// syncWriter lets several goroutines write to one place.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// TestPoisonAndReplay: ten thousand messages, one of a hundred poison; the good ones are rows, and after the mend the others are,
// once, whoever replays how often.
func TestPoisonAndReplay(t *testing.T) {
	t.Parallel()
	for _, postgres := range []bool{false, true} {
		t.Run(map[bool]string{false: "duckdb", true: "postgres"}[postgres], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, house.Options{Postgres: postgres})
			topic := w.k.Topic(t, 2, nil)
			first := &kgo.Record{Topic: topic, Value: []byte(`{"id":0,"v":1,"pad":""}`)}
			w.k.Send(t, first)
			var records []*kgo.Record
			for i := 1; i < 10_000; i++ {
				value := fmt.Sprintf(`{"id":%d,"v":%d,"pad":"x"}`, i, i%10)
				switch i % 200 {
				case 0: // a value that does not fit its column
					value = fmt.Sprintf(`{"id":%d,"v":"text","pad":"x"}`, i)
				case 100: // too large for the first config
					value = fmt.Sprintf(`{"id":%d,"v":1,"pad":%q}`, i, strings.Repeat("x", 2000))
				}
				records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte(value), Key: []byte("k")})
			}
			c := w.add("events", topic, 2, "{on_conflict: quarantine, max_message_bytes: 1024}")
			_, stop := w.run(w.quick())
			w.until("SELECT max(id), any_value(v) FROM lake.changelog.events", "0|1") // the columns are there, v is a number
			w.k.Send(t, records...)
			w.until("SELECT count(*), count(DISTINCT id) FROM lake.changelog.events", "9901|9901")
			w.until("SELECT string_agg(reason || n, ' ' ORDER BY reason) FROM (SELECT reason, count(*) AS n FROM "+QuarantineTable(c.ID).SQL()+" GROUP BY 1)", "conflict49 too_large50")
			if q, err := w.admin.Quarantine(t.Context(), "events", Selection{Reason: "conflict"}, 1, true); err != nil || !strings.Contains(string(q[0].Value), "text") || string(q[0].Key) != "k" || !strings.Contains(q[0].Detail, "v") {
				t.Errorf("%+v, %v", q, err)
			}
			if r, err := w.admin.Replay(t.Context(), "events", Selection{}); err != nil || r.Rows != 0 { // nothing is mended yet
				t.Errorf("%+v, %v", r, err)
			}
			if err := w.admin.Configure(t.Context(), "events", []byte("{on_conflict: extra}"), tester); err != nil {
				t.Fatal(err)
			}
			r, err := w.admin.Replay(t.Context(), "events", Selection{Reason: "too_large"})
			if err != nil || r.Rows != 50 {
				t.Fatalf("%+v, %v", r, err)
			}
			var both sync.WaitGroup
			rows := make([]int64, 2)
			for i := range rows { // two at once, beside the owner
				both.Go(func() {
					r, err := w.admin.Replay(t.Context(), "events", Selection{})
					if err != nil {
						t.Logf("replay %d: %v", i, err)
					}
					rows[i] = r.Rows
				})
			}
			both.Wait()
			if r, err := w.admin.Replay(t.Context(), "events", Selection{}); err != nil || r.Rows != 49-rows[0]-rows[1] {
				t.Errorf("after %v: %+v, %v", rows, r, err)
			}
			w.until("SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE _extra IS NOT NULL), count(DISTINCT (_topic_epoch, _partition, _offset)) FROM lake.changelog.events", "10000|10000|49|10000")
			if q, err := w.admin.Quarantine(t.Context(), "events", Selection{}, 10, false); err != nil || len(q) != 0 {
				t.Errorf("%+v, %v", q, err)
			}
			w.k.Produce(t, topic, 0, `{"id":10000,"v":1}`) // the owner has lost nothing by the replays
			w.until("SELECT max(id) FROM lake.changelog.events", "10000")
			stop()
		})
	}
}

// TestPoisonOfEachKind: why each message cannot be a row, and its bytes.
func TestPoisonOfEachKind(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{}, Definition{MaxMessageBytes: 2000})
	k, _ := r.sink("one")
	deep := strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101)
	var want []string
	messages := []string{`0 0 {"id":1}`}
	for i, m := range [][2]string{
		{"", "empty"},
		{"\xff", "not_utf8"},
		{"{", "malformed_json"},
		{`{"a":1} x`, "malformed_json"},
		{"[1]", "not_an_object"},
		{"7", "not_an_object"},
		{`"{"`, "not_an_object"},
		{"null", "not_an_object"},
		{deep, "too_deep"},
		{`{"a\u0000b":1}`, "bad_name"},
		{`{"a":{"b\u0000":1}}`, "bad_name"},
		{`{"a":"` + strings.Repeat("x", 2000) + `"}`, "too_large"},
	} {
		value := m[0]
		if value == "null" {
			value = " null" // the rig's word for a tombstone is null
		}
		messages = append(messages, fmt.Sprintf("0 %d %s", i+1, value))
		want = append(want, fmt.Sprintf("%d|%s|%d|t", i+1, m[1], len(value)))
	}
	messages = append(messages, `0 20 {"id":2,"fine":"a\u0000b","deep":`+strings.Repeat("[", 90)+strings.Repeat("]", 90)+`}`)
	for i := range 30 {
		messages = append(messages, fmt.Sprintf(`0 %d {"id":3}`, 30+i))
	}
	if _, err := r.flush(k, messages...); err != nil {
		t.Fatal(err)
	}
	r.want("SELECT kafka_offset, reason, octet_length(value), state = 'open' FROM "+QuarantineTable(r.c.ID).SQL()+" ORDER BY 1", want...)
	r.want("SELECT count(*), count(DISTINCT id) FROM lake.feeds.events", "32|3")
}

// TestPoisonFloodHalts: 60 % poison is a wrong decoder; nothing of it is taken.
func TestPoisonFloodHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, house.Options{})
	topic := w.k.Topic(t, 1, nil)
	var values []string
	for i := range 2000 {
		values = append(values, map[bool]string{true: `{"id":1}`, false: "poison"}[i%5 < 2])
	}
	w.k.Produce(t, topic, 0, values...)
	w.add("events", topic, 1, "")
	w.run(w.quick())
	w.halted("events", "SLUICE-CHANGELOG-POISON-FLOOD")
	w.until("SELECT count(*) FROM lake.changelog.events", "0")
}

// TestDebezium: rows of envelopes, with and without a schema around them.
func TestDebezium(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{}, Definition{Decoder: DecoderDebezium, Debezium: Debezium{Version: "lsn"}})
	k, _ := r.sink("one")
	if _, err := r.flush(k,
		`0 0 {"op":"c","before":null,"after":{"id":1,"v":"a"},"source":{"lsn":10}}`,
		`0 1 {"schema":{"x":1},"payload":{"op":"u","before":{"id":1,"v":"a"},"after":{"id":1,"v":"b"},"source":{"lsn":11}}}`,
		`0 2 {"op":"d","before":{"id":1,"v":"b"},"after":null,"source":{"lsn":12}}`,
		`0 3 null`,
		`0 4 {"op":"t","source":{"lsn":13}}`,
		`0 5 {"op":"r","after":{"id":2,"v":"c","n":null}}`,
		`0 6 {"id":3}`, `0 7 {"op":"c","after":null}`, `0 8 {"op":"x","after":{"id":4}}`, `0 9 [1]`,
	); err != nil {
		t.Fatal(err)
	}
	r.want("SELECT _offset, _op, _version, _tombstone, id, v FROM lake.feeds.events ORDER BY 1",
		"0|c|10|f|1|a", "1|u|11|f|1|b", "2|d|12|f|1|b", "3|∅|∅|t|∅|∅", "4|t|13|f|∅|∅", "5|r|∅|f|2|c")
	r.want("SELECT kafka_offset, reason FROM "+QuarantineTable(r.c.ID).SQL()+" ORDER BY 1", "6|not_an_envelope", "7|not_an_envelope", "8|not_an_envelope", "9|not_an_envelope")
}

// TestFilter: what the list does not have advances the offsets and is counted; numbers and their text are one.
func TestFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t, house.Options{}, Definition{Filter: &Filter{Field: "team_id", Values: []string{"7", "a'b"}}})
	k, _ := r.sink("one")
	k.filter = func() (*[]string, int64) { return &r.c.Def.Filter.Values, 3 }
	out, err := r.flush(k, `0 0 {"team_id":7}`, `0 1 {"team_id":"7"}`, `0 2 {"team_id":8}`, `0 3 {}`, `0 4 {"team_id":null}`, `0 5 {"team_id":"a'b"}`, `0 6 null`, `0 7 {"team_id":[7]}`, `0 8 broken`)
	if err != nil {
		t.Fatal(err)
	}
	if out.Filtered != 4 || out.Rows != 4 || out.Poison["malformed_json"] != 1 {
		t.Errorf("%+v", out)
	}
	r.want("SELECT string_agg(_offset::VARCHAR, ' ' ORDER BY _offset) FROM lake.feeds.events", "0 1 5 6")
	r.want("SELECT next_offset FROM "+ControlTable(r.c.ID, 0).SQL()+" WHERE kind = 'offset' AND kafka_partition = 0", "9")
}
