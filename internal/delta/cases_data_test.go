package delta_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"sluice/internal/delta"
	"sluice/internal/delta/describe"
	"sluice/internal/testkit/deltagen"
)

func TestCase43_ChecksumFiles(t *testing.T) {
	t.Parallel()
	g := plainTable(t, ghost("a"), ghost("b"))
	g.Checksum(0, nil)
	has(t, open(t, g), delta.Latest, "a", "b")
	for name, edit := range map[string]func(map[string]any){
		"a file more": func(c map[string]any) { c["numFiles"] = 3 }, "a byte less": func(c map[string]any) { c["tableSizeBytes"] = 199 },
	} {
		g.Checksum(0, edit)
		if _, err := pathsOrError(t.Context(), open(t, g), delta.Latest); err == nil {
			t.Errorf("%s: it was read", name)
		}
		refuses(t, open(t, g), delta.Latest, delta.CodeCRC)
	}
	for _, content := range []string{"", "{", "text", `{"numFiles":-1,"tableSizeBytes":-1}`, `{"numFiles":"2"}`, `[]`, "\x00\x01"} {
		g.WriteLog("00000000000000000000.crc", []byte(content))
		has(t, open(t, g), delta.Latest, "a", "b")
	}
	// That of another version says nothing of this one.
	g.Checksum(0, func(c map[string]any) { c["numFiles"] = 99 })
	g.Commit(ghost("c"))
	has(t, open(t, g), delta.Latest, "a", "b", "c")
	if table, ok := others(t, "kernel_data/crc-malformed"); ok {
		refuses(t, table, delta.Latest, delta.CodeNotATable)
	}
	if table, ok := others(t, "kernel_data/crc-full"); ok {
		refuses(t, table, delta.Latest, delta.CodeCRC)
	}
}

func TestCase45_ChangeDataIsNotData(t *testing.T) {
	t.Parallel()
	g := plainTable(t)
	g.Data("_change_data/cdc-1.parquet", "SELECT 99::BIGINT AS id, 'delete' AS _change_type")
	add := g.Data("a", "SELECT range AS id, 'insert' AS _change_type, 5 AS dropped FROM range(3)")
	g.Commit(add, deltagen.Raw(`{"cdc":{"path":"_change_data/cdc-1.parquet","partitionValues":{},"size":1,"dataChange":false}}`))
	gives(t, open(t, g), delta.Latest, "*COLUMNS(*)", "0", "1", "2")
	for name, want := range map[string][3]int64{
		"kernel_data/cdf-table": {3, 9, 9}, "kernel_data/cdf-table-simple": {2, 0, 0}, "kernel_data/cdf-table-update-ops": {2, 2, 10},
		"kernel_data/cdf-table-delete-conditional-two-rows": {1, 3, 8}, "kernel_data/cdf-table-with-cdc-and-dvs": {25, 2, 5},
	} {
		if table, ok := others(t, name); ok {
			counts(t, table, want[0], want[1], want[2])
		}
	}
}

func TestCase46_DataFilesThatAreGone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(g *deltagen.Table){
		"missing":   func(g *deltagen.Table) { _ = os.Remove(g.Path("b")) },
		"truncated": func(g *deltagen.Table) { _ = os.Truncate(g.Path("b"), 100) },
		"longer": func(g *deltagen.Table) {
			f, err := os.OpenFile(g.Path("b"), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, _ = f.WriteString("x")
				f.Close()
			}
		},
	} {
		g := plainTable(t)
		g.Commit(numbers(g, "a", 0, 3), numbers(g, "b", 3, 6))
		spoil(g)
		table := open(t, g)
		_, _, err := exportTo(t, table, delta.Latest, connection(t))
		if !delta.Gone(err) || !strings.Contains(err.Error(), "b") {
			t.Errorf("%s: got %v", name, err)
		}
		has(t, table, delta.Latest, "a", "b") // the log can still be read
	}
	// Between planning and reading: TestExportOfFilesThatChange, TestExportNoticesAFileThatIsReplacedMeanwhile. A deletion
	// vector's file is as much part of the version.
	g, add := vectored(t)
	file := g.VectorFile("", 3)
	g.Commit(add.Remove(), add.With(file.Add(deltagen.Arrays, 1)))
	if err := os.Remove(g.Path(file.Name())); err != nil {
		t.Fatal(err)
	}
	refusesRows(t, open(t, g), delta.Latest, delta.CodeSnapshotGone, filepath.Base(file.Name()))
}

func TestCase47_RowIDsCountPhysicalRows(t *testing.T) {
	t.Parallel()
	g, add := vectored(t)
	add.BaseRowID = deltagen.Int(100)
	g.Commit(add.With(deltagen.Inline(deltagen.Arrays, 0, 1, 2)), deltagen.Remove{Path: add.Path, DataChange: true})
	s, err := open(t, g).Snapshot(t.Context(), delta.Latest)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range describe.Files(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		// Row 3 is the first one that is left: its id is 100 + 3, whatever was deleted before it.
		if f.BaseRowID == nil || *f.BaseRowID != 100 || f.NumRecords != 10 || f.LiveRows != 7 || f.DV == nil || f.DV.Cardinality != 3 {
			t.Errorf("got %+v", f)
		}
	}
	g.Checkpoint(1, deltagen.Checkpoint{})
	g.RemoveCommits(0, 1)
	files := 0
	s, err = open(t, g).Snapshot(t.Context(), delta.Latest)
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range s.Files(t.Context()) {
		if err != nil || f.BaseRowID == nil || *f.BaseRowID != 100 {
			t.Errorf("in the checkpoint: %+v, %v", f, err)
		}
		files++
	}
	if files != 1 {
		t.Errorf("%d files", files)
	}
}

func TestCase48_VectorsOfAllForms(t *testing.T) {
	t.Parallel()
	g := deltagen.New(t)
	const n = 70_000 // past 2^16
	add := numbers(g, "big", 0, n)
	small := numbers(g, "small", n, n+10)
	g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: idSchema}, add, small)
	var runs, evens, all []uint64
	for i := range uint64(n) {
		all = append(all, i)
		if i >= 1000 && i < 66_000 {
			runs = append(runs, i)
		}
		if i%2 == 0 {
			evens = append(evens, i)
		}
	}
	file := g.VectorFile("pre/fix", 9)
	previous := add
	for name, c := range map[string]struct {
		dv   *deltagen.DV
		left []int64
	}{
		"empty":              {deltagen.Inline(deltagen.Arrays), span(0, n)},
		"all rows":           {file.Add(deltagen.WithRun, all...), nil},
		"all rows as bitset": {file.Add(deltagen.Arrays, all...), nil},
		"runs":               {file.Add(deltagen.WithRun, runs...), append(span(0, 1000), span(66_000, n)...)},
		"runs as bitset":     {file.Add(deltagen.Arrays, runs...), append(span(0, 1000), span(66_000, n)...)},
		"around 2^16":        {deltagen.Inline(deltagen.Arrays, 65_534, 65_535, 65_536, 65_537), append(span(0, 65_534), span(65_538, n)...)},
		"absolute": {
			file.Absolute(file.Add(deltagen.Arrays, 0, n-1), "file://"+deltagen.Escape(g.Path(file.Name()))), span(1, n-1),
		},
	} {
		with := add.With(c.dv)
		g.Commit(previous.Remove(), with)
		previous = with
		ids(t, open(t, g), delta.Latest, append(slices.Clone(c.left), span(n, n+10)...)...)
		if t.Failed() {
			t.Fatalf("the vector: %s", name)
		}
	}
	with := add.With(file.Add(deltagen.WithRun, evens...)) // one file for two vectors
	g.Commit(previous.Remove(), with, small.Remove(), small.With(file.Add(deltagen.Arrays, 9)))
	if got := rows(t, open(t, g), delta.Latest, "count(*), sum(id % 2), max(id)"); got[0] != fmt.Sprintf("%d|%d|%d", n/2+9, n/2+4, n+8) {
		t.Errorf("got %v", got)
	}
	// Around 2^32 there is no file to test with: such a vector is refused because the file is shorter.
	g.Commit(small.With(file.Add(deltagen.Arrays, 9)).Remove())
	g.Commit(with.Remove(), add.With(deltagen.Inline(deltagen.Arrays, math.MaxUint32, math.MaxUint32+1)))
	refusesRows(t, open(t, g), delta.Latest, delta.CodeDVCorrupt)

	table, ok := others(t, "kernel_data/cdf-table-with-dv")
	if !ok {
		return
	}
	conn := connection(t)
	for v, want := range []int64{10, 8, 10, 6, 8, -1, 10} {
		_, r, err := exportTo(t, table, int64(v), conn)
		if want < 0 {
			fails(t, err, delta.CodeDVCorrupt)
		} else if err != nil || r.Rows != want {
			t.Errorf("version %d gives %d rows, want %d: %v", v, r.Rows, want, err)
		}
	}
}

// hostile are the ways to break a vector, each alone. They get the payload of positions 1 and 2 of ten rows.
func hostile() map[string]func(g *deltagen.Table, payload []byte) *deltagen.DV {
	le := binary.LittleEndian
	inline := func(edit func([]byte) []byte) func(*deltagen.Table, []byte) *deltagen.DV {
		return func(_ *deltagen.Table, payload []byte) *deltagen.DV {
			b := edit(payload)
			return &deltagen.DV{Storage: "i", Path: deltagen.Z85(b), Size: int64(len(b)), Cardinality: 2}
		}
	}
	inFile := func(edit func(v *deltagen.Vectors, dv *deltagen.DV)) func(*deltagen.Table, []byte) *deltagen.DV {
		return func(g *deltagen.Table, payload []byte) *deltagen.DV {
			v := g.VectorFile("", 5)
			dv := v.AddPayload(payload, 2)
			edit(v, dv)
			return dv
		}
	}
	bytesAt := func(at int, b ...byte) func([]byte) []byte {
		return func(p []byte) []byte { return append(append(slices.Clone(p[:at]), b...), p[at+len(b):]...) }
	}
	many := func(count uint64) func([]byte) []byte {
		return func(p []byte) []byte { return append(le.AppendUint64(slices.Clone(p[:4]), count), p[12:]...) }
	}
	text := func(path string) func(*deltagen.Table, []byte) *deltagen.DV {
		return func(_ *deltagen.Table, payload []byte) *deltagen.DV {
			return &deltagen.DV{Storage: "i", Path: path, Size: int64(len(payload)), Cardinality: 2}
		}
	}
	one := roaring.BitmapOf(1, 2)
	raw, _ := one.ToBytes()
	return map[string]func(*deltagen.Table, []byte) *deltagen.DV{
		"unknown storage":       inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Storage = "x" }),
		"version of the file":   inFile(func(v *deltagen.Vectors, _ *deltagen.DV) { v.Edit(bytesAt(0, 2)) }),
		"empty file":            inFile(func(v *deltagen.Vectors, _ *deltagen.DV) { v.Edit(func([]byte) []byte { return nil }) }),
		"offset behind the end": inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Offset = deltagen.Int(1000) }),
		"offset 0":              inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Offset = deltagen.Int(0) }),
		"negative offset":       inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Offset = deltagen.Int(-5) }),
		"no offset, not at 1": inFile(func(v *deltagen.Vectors, dv *deltagen.DV) {
			*dv = *v.AddPayload(deltagen.Payload(deltagen.Arrays, 3), 1)
			dv.Offset = nil
		}),
		"size in the file": inFile(func(v *deltagen.Vectors, _ *deltagen.DV) { v.Edit(bytesAt(1, 0, 0, 0, 9)) }),
		"size in the log":  inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Size++ }),
		"size of 300 MiB":  inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Size = 300 << 20 }),
		"negative size":    inFile(func(_ *deltagen.Vectors, dv *deltagen.DV) { dv.Size = -1 }),
		"checksum": inFile(func(v *deltagen.Vectors, _ *deltagen.DV) {
			v.Edit(func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}),
		"truncated file":          inFile(func(v *deltagen.Vectors, _ *deltagen.DV) { v.Edit(func(b []byte) []byte { return b[:len(b)-6] }) }),
		"magic":                   inline(bytesAt(0, 1, 2, 3, 4)),
		"old magic":               inline(func(p []byte) []byte { return append(le.AppendUint32(nil, 1681511376), p[4:]...) }),
		"2^62 bitmaps":            inline(many(1 << 62)),
		"2^27 bitmaps":            inline(many(1 << 27)),
		"a bitmap too many":       inline(many(2)),
		"no bitmap, bytes behind": inline(many(0)),
		"key with the top bit":    inline(bytesAt(15, 0x80)),
		"keys that do not rise": inline(func(p []byte) []byte {
			b := le.AppendUint64(slices.Clone(p[:4]), 2)
			for range 2 {
				b = append(le.AppendUint32(b, 0), raw...)
			}
			return b
		}),
		"bytes behind it":        inline(func(p []byte) []byte { return append(slices.Clone(p), 0, 0, 0, 0) }),
		"cut off":                inline(func(p []byte) []byte { return p[:len(p)-4] }),
		"container of no kind":   inline(bytesAt(16, 0xff, 0xff)),
		"too many containers":    inline(bytesAt(20, 0xff, 0xff, 0xff, 0x7f)),
		"positions out of order": inline(func(p []byte) []byte { p = slices.Clone(p); n := len(p); p[n-4], p[n-2] = p[n-2], p[n-4]; return p }),
		"cardinality": func(*deltagen.Table, []byte) *deltagen.DV {
			d := deltagen.Inline(deltagen.Arrays, 1, 2)
			d.Cardinality = 3
			return d
		},
		"negative cardinality": func(*deltagen.Table, []byte) *deltagen.DV {
			d := deltagen.Inline(deltagen.Arrays, 1)
			d.Cardinality = -1
			return d
		},
		"a row that is not there": func(*deltagen.Table, []byte) *deltagen.DV { return deltagen.Inline(deltagen.Arrays, 1, 10) },
		"more rows than there are": func(*deltagen.Table, []byte) *deltagen.DV {
			d := deltagen.Inline(deltagen.Arrays, 1)
			d.Cardinality = 11
			return d
		},
		"a character of another set": text("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-~L"),
		"a group above 2^32":         text("^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"),
		"a length not of five":       text("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{"),
		"a bitmap of nothing": inline(func(p []byte) []byte {
			return append(le.AppendUint64(slices.Clone(p[:4]), 1), 0, 0, 0, 0)
		}),
		"a name that is no UUID": func(*deltagen.Table, []byte) *deltagen.DV {
			return &deltagen.DV{Storage: "u", Path: "short", Offset: deltagen.Int(1), Size: 10, Cardinality: 2}
		},
		"payload of another version of the frame": inFile(func(v *deltagen.Vectors, _ *deltagen.DV) {
			v.Edit(func(b []byte) []byte { // a checksum of other bytes
				return append(b[:len(b)-4:len(b)-4], binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte("x")))...)
			})
		}),
	}
}

func TestCase49_HostileVectors(t *testing.T) { // alone: it measures what is allocated
	g := deltagen.New(t)
	add := numbers(g, "a", 0, 10)
	payload := deltagen.Payload(deltagen.Arrays, 1, 2)
	g.Commit(deltagen.Features("deletionVectors"), deltagen.Metadata{Schema: idSchema})
	conn := connection(t)
	for name, build := range hostile() {
		v := g.Commit(add.With(build(g, payload)))
		table := open(t, g)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := exportTo(t, table, v, conn)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: it was read", name)
		}
		fails(t, err, delta.CodeDVCorrupt)
		if t.Failed() {
			t.Fatalf("the vector: %s: %v", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%s: %d MiB were allocated", name, grown>>20)
		}
		live := g.State(v).Live
		g.Commit(live[0].Remove())
	}
}

func TestCase44_TimesOfCommits(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2024, 1, 1, 0, 0, s, 0, time.UTC) }
	is := func(table *delta.Table, s int, want int64) {
		t.Helper()
		if v, err := table.VersionAt(t.Context(), at(s)); err != nil || v != want {
			t.Errorf("at second %d: version %d, %v; want %d", s, v, err, want)
		}
	}
	// By the files' times, which go back once: a later commit is later all the same.
	g := plainTable(t)
	for range 4 {
		g.Commit(deltagen.CommitInfo(nil))
	}
	for v, s := range []int{10, 20, 15, 30, 40} {
		g.Touch(int64(v), at(s))
	}
	table := open(t, g)
	is(table, 10, 0)
	is(table, 19, 0)
	is(table, 20, 1)
	is(table, 21, 2) // version 2 is a moment after version 1
	is(table, 29, 2)
	is(table, 30, 3)
	is(table, 99, 4)
	_, err := table.VersionAt(t.Context(), at(9))
	fails(t, err, delta.CodeNotFound)
	// With in-commit timestamps from version 2 on, the files' times say nothing any more.
	ict := func(s int) deltagen.Action {
		return deltagen.CommitInfo(map[string]any{"inCommitTimestamp": at(s).UnixMilli()})
	}
	g = plainTable(t)
	g.Commit(deltagen.CommitInfo(nil))
	g.Commit(ict(100), deltagen.Metadata{Schema: idSchema, Configuration: map[string]string{
		"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "2",
		"delta.inCommitTimestampEnablementTimestamp": strconv.FormatInt(at(100).UnixMilli(), 10),
	}})
	g.Commit(ict(110))
	for v, s := range []int{10, 20, 500, 400} {
		g.Touch(int64(v), at(s))
	}
	table = open(t, g)
	is(table, 25, 1)
	is(table, 99, 1)
	is(table, 100, 2)
	is(table, 109, 2)
	is(table, 110, 3)
	if table, ok := others(t, "delta_rs/cdc_ict_table"); ok {
		counts(t, table, delta.Latest, 2, 2)
	}
}
