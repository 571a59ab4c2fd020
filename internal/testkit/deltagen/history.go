package deltagen

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// History is a table with random commits and checkpoints, and what each version's rows are.
type History struct {
	*Table
	Seed uint64

	rng     *rand.Rand
	files   map[string]*historyFile // live, by path
	rows    map[int64][]int64       // ids of the live rows at each version, sorted
	nextID  int64
	vectors uint64
	root    string
}

// HistoryOptions say what a history is like. The zero value has one commit.
type HistoryOptions struct {
	Versions    int    // commits after the first
	Checkpoints bool   // some versions get one, of any kind
	Root        string // where absolute paths say that the table is; empty: its directory, as a file: URI
}

// historyFile is a live data file: row i has the id first+i.
type historyFile struct {
	add     Add
	first   int64
	deleted map[uint64]bool
}

// ExpectedSQL gives the rows of ids, a query with the column id, as the table holds them.
func ExpectedSQL(ids string) string {
	return fmt.Sprintf(`SELECT id, 'text ' || id AS "a text", id * 1.5 AS amount,
		CASE id // 1000 %% 3 WHEN 0 THEN 'p=0/x' WHEN 1 THEN 'b' END AS part FROM (%s)`, ids)
}

// NewHistory makes a random history.
func NewHistory(t testing.TB, seed uint64, o HistoryOptions) *History {
	t.Helper()
	h := &History{
		Table: New(t), Seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), files: map[string]*historyFile{}, rows: map[int64][]int64{},
	}
	if h.root = o.Root; h.root == "" {
		h.root = "file://" + Escape(h.Dir)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history's seed is %d", seed)
		}
	})
	schema := Schema(Field{Name: "id", Type: "long"}, Field{Name: "a text", Type: "string"}, Field{Name: "amount", Type: "double"},
		Field{Name: "part", Type: "string"})
	first := []Action{
		Object{"commitInfo": map[string]any{"operation": "CREATE TABLE"}},
		Features("deletionVectors", "v2Checkpoint"),
		Metadata{Schema: schema, Partition: []string{"part"}},
	}
	h.Commit(append(first, h.insert()...)...)
	h.note()
	for range o.Versions {
		h.Commit(h.step()...)
		h.note()
		if o.Checkpoints && h.rng.IntN(4) == 0 {
			h.checkpoint()
		}
	}
	return h
}

// IDs are the ids of the rows of a version, sorted.
func (h *History) IDs(version int64) []int64 { return h.rows[version] }

func (h *History) note() {
	var ids []int64
	for _, f := range h.files {
		for i := range f.add.Rows {
			if !f.deleted[uint64(i)] {
				ids = append(ids, f.first+i)
			}
		}
	}
	slices.Sort(ids)
	h.rows[h.Version] = ids
}

// newFile writes a data file of n rows, which all belong to one partition.
func (h *History) newFile(n int64) *historyFile {
	h.t.Helper()
	first := h.nextID
	h.nextID += 1000 // at most 1000 rows in a file: the partition is that of the thousand
	key := fmt.Sprintf("part=%d/file %d+%d%%20.parquet", first/1000%3, first, h.rng.IntN(1000))
	group := []string{"", "ROW_GROUP_SIZE 2048"}[h.rng.IntN(2)]
	options := []string{}
	if group != "" {
		options = append(options, group)
	}
	add := h.Data(key, fmt.Sprintf(`SELECT id, 'text ' || id AS "a text", id * 1.5::DOUBLE AS amount FROM (SELECT %d + range AS id FROM range(%d))`, first, n), options...)
	values := []*string{Text("p=0/x"), Text("b"), nil}
	add = add.WithPartition("part", values[first/1000%3])
	switch h.rng.IntN(4) {
	case 0:
		add = add.WithStats(nil)
	case 1:
		add = add.WithStats(Text(`{"minValues":{"id":0}}`))
	}
	return &historyFile{add: add, first: first, deleted: map[uint64]bool{}}
}

func (h *History) insert() []Action {
	var actions []Action
	for range 1 + h.rng.IntN(3) {
		f := h.newFile(1 + h.rng.Int64N(60))
		h.files[f.add.Path] = f
		actions = append(actions, f.add)
	}
	return actions
}

// pick gives some live files.
func (h *History) pick() []*historyFile {
	paths := slices.Sorted(maps.Keys(h.files))
	h.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	var out []*historyFile
	for _, p := range paths[:min(len(paths), 1+h.rng.IntN(3))] {
		out = append(out, h.files[p])
	}
	return out
}

func (h *History) step() []Action {
	var actions []Action
	switch h.rng.IntN(10) {
	case 0, 1, 2:
		actions = h.insert()
	case 3, 4, 5:
		actions = h.deleteRows()
	case 6: // delete files
		for _, f := range h.pick() {
			actions = append(actions, f.add.Remove())
			delete(h.files, f.add.Path)
		}
	case 7: // the same content in another file
		for _, f := range h.pick() {
			moved := *f
			moved.add.Path = Escape(fmt.Sprintf("moved/%d-%d.parquet", f.first, h.Version))
			h.Link(f.add.Path, moved.add.Path)
			moved.add.DataChange = false
			actions = append(actions, f.add.Remove(), moved.add)
			delete(h.files, f.add.Path)
			h.files[moved.add.Path] = &moved
		}
	case 8: // the same file again, with other statistics
		for _, f := range h.pick() {
			f.add = f.add.WithStats(Text(fmt.Sprintf(`{"numRecords":%d,"nullCount":{}}`, f.add.Rows)))
			f.add.DataChange = false
			actions = append(actions, f.add)
		}
	default:
		actions = []Action{Raw(`{"txn":{"appId":"a","version":1}}`), Raw(`{"domainMetadata":{"domain":"d","configuration":"","removed":false}}`)}
	}
	if len(actions) == 0 { // there was nothing to delete
		actions = h.insert()
	}
	h.rng.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	return actions
}

// deleteRows gives files a vector, or a larger one; the vectors of a commit are in one file, or inline.
func (h *History) deleteRows() []Action {
	h.t.Helper()
	var actions []Action
	h.vectors++
	shared := h.VectorFile([]string{"", "ab"}[h.rng.IntN(2)], h.vectors)
	for _, f := range h.pick() {
		for range 1 + h.rng.IntN(20) {
			f.deleted[h.rng.Uint64N(uint64(f.add.Rows))] = true
		}
		positions := slices.Sorted(maps.Keys(f.deleted))
		form := Form(h.rng.IntN(2))
		var dv *DV
		switch h.rng.IntN(3) {
		case 0:
			dv = Inline(form, positions...)
		case 1:
			dv = shared.Add(form, positions...)
		default:
			dv = shared.Add(form, positions...)
			dv = shared.Absolute(dv, h.root+"/"+Escape(shared.Name()))
		}
		old := f.add
		f.add = f.add.With(dv)
		if f.add.Stats == nil { // a vector's file has statistics, but a sloppy writer may leave them out
			f.add = f.add.WithStats([]*string{nil, Text(fmt.Sprintf(`{"numRecords":%d}`, f.add.Rows))}[h.rng.IntN(2)])
		}
		actions = append(actions, old.Remove(), f.add)
	}
	return actions
}

func (h *History) checkpoint() {
	h.t.Helper()
	c := []Checkpoint{
		{},
		{Parts: 2},
		{Parts: 3},
		{V2: "json"},
		{V2: "parquet"},
		{V2: "json", Sidecars: 2},
		{V2: "parquet", Sidecars: 3},
		{ClassicName: true},
		{ClassicName: true, Sidecars: 1},
	}[h.rng.IntN(9)]
	c.Hint = h.rng.IntN(2) == 0 && !c.ClassicName && c.V2 == ""
	c.NoRemoves = h.rng.IntN(2) == 0
	c.StructStats = h.rng.IntN(3) == 0 && c.V2 != "json"
	h.Checkpoint(h.Version, c)
}
