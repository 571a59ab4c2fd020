package changelog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/lake"
	"sluice/internal/testkit/house"
)

// drift makes messages whose names come, go and change their kind as the topic goes on: step is between 0 and 1.
func drift(rng *rand.Rand, step float64) string {
	var parts []string
	put := func(name, value string) { parts = append(parts, jsonText(name)+":"+value) }
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	integer := func() string {
		return pick("0", "7", "-3", "123456789012", "9223372036854775807", "-9223372036854775808")
	}
	put("steady", fmt.Sprint(rng.IntN(1000)))
	put("grows", integer())
	if step > 0.3 {
		parts = parts[:1]
		put("grows", pick(integer(), "1.0", "2.5", "9223372036854775808", "18446744073709551615", "1e3", `"7"`, "true", `{"a":1}`))
	}
	if step > 0.1 {
		put("later", pick(`"a"`, `"é\n"`, "null"))
	}
	if step < 0.5 {
		put("null first", "null")
	} else {
		put("null first", pick("null", "true", "false", "0", `"x"`))
	}
	if step > 0.2 {
		put("number", pick("1", "2.5", "-4", "9007199254740993", "0.125"))
	}
	if step > 0.4 {
		put("anything", pick("1", `"x"`, `[1,null,{"b":"c"}]`, `{"d":[]}`, "true", "null"))
	}
	if step > 0.6 {
		put("mixed", pick("5", `"five"`, "true", "1.5"))
		put("Steady", pick("1", "2")) // another column in another case
		put("_offset", "1")           // reserved
	}
	if step > 0.8 {
		put(`odd"/~name`, pick("1", "null", `"1"`))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// TestColumnsAsAnotherProgramSays: columns appear and clash over many buffers; the table ends as a program in another language
// says, and every value is in its column or in _extra.
func TestColumnsAsAnotherProgramSays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	total, most := 12_000, 1500
	if full() {
		total, most = 1_000_000, 60_000
	}
	r := newRig(t, house.Options{}, Definition{})
	k, _ := r.sink("one")
	k.pause = time.Nanosecond
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	messages := bufio.NewWriter(file)
	next := map[int32]int64{0: 0, 1: 0}
	for sent, buffer := 0, 0; sent < total; buffer++ {
		b := NewBuffer(Limits{defaultMaxMessageBytes}, next)
		for range min(1+rng.IntN(most), total-sent) {
			text := drift(rng, float64(sent)/float64(total))
			b.Add(&Message{Offset: int64(sent), LeaderEpoch: -1, Timestamp: -1, Value: []byte(text)}, time.Now())
			line, _ := json.Marshal([]any{buffer, sent, text})
			_, _ = messages.Write(append(line, '\n'))
			sent++
		}
		next = b.Next()
		if err := k.flush(t.Context(), &flushing{b: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := messages.Flush(); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	s, err := k.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Forget(r.c.Table)
	target, err := s.DescribeTarget(t.Context(), r.c.Table)
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]string{}
	cols := []string{"_offset", "CAST(_extra AS VARCHAR) AS _extra"}
	for _, c := range target.Columns {
		if unfit(c.Name) == "" {
			schema[c.Name] = c.Type.String()
			cols = append(cols, "CAST("+lake.Ident(c.Name)+" AS VARCHAR) AS "+lake.Ident(c.Name))
		}
	}
	text, _ := json.Marshal(schema)
	if err := os.WriteFile(filepath.Join(dir, "schema"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := k.key(s, "rows.json")
	if _, err := k.copy(t.Context(), s, "export", "SELECT 1 AS x", rows+".folder"); err != nil { // makes the folder
		t.Fatal(err)
	}
	if _, err := s.Statement(t.Context(), "export", fmt.Sprintf("COPY (SELECT %s FROM %s) TO %s (FORMAT json)", strings.Join(cols, ", "), r.c.Table.SQL(), lake.Literal(rows))); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "python3", "testdata/reference.py", filepath.Join(dir, "messages"), rows, filepath.Join(dir, "schema")).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
