package load

import (
	"testing"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// TestChooseOp is the table of ops in the loader's specification: sync type and batch against target.
func TestChooseOp(t *testing.T) {
	t.Parallel()
	const full, inc, app = sluice.FullRefresh, sluice.Incremental, sluice.Append
	for _, c := range []struct {
		name       string
		sync       sluice.SyncType
		firstEver  bool
		index      int64
		resume     bool
		keys       []string
		uniqueKeys bool
		exists     bool
		want       sluice.Op
		dedupe     bool
		code       sluice.Code
	}{
		{"full refresh, head", full, false, 0, false, nil, false, true, sluice.OpReplace, false, ""},
		{"full refresh, head, absent", full, false, 0, false, nil, false, false, sluice.OpCreate, false, ""},
		{"full refresh, later", full, false, 1, false, nil, false, true, sluice.OpInsert, false, ""},
		{"full refresh, resumed at 0", full, false, 0, true, nil, false, true, sluice.OpInsert, false, ""},
		{"full refresh, later, absent", full, false, 2, false, nil, false, false, sluice.OpCreate, false, ""},
		{"first-ever, head", inc, true, 0, false, nil, false, true, sluice.OpReplace, false, ""},
		{"first-ever, head, keys", inc, true, 0, false, []string{"id"}, false, true, sluice.OpReplace, true, ""},
		{"first-ever, head, keys, absent", inc, true, 0, false, []string{"id"}, false, false, sluice.OpCreate, true, ""},
		{"first-ever, later, keys", inc, true, 1, false, []string{"id"}, false, true, sluice.OpMerge, true, ""},
		{"first-ever, later, unique keys", inc, true, 1, false, []string{"id"}, true, true, sluice.OpInsert, false, ""},
		{"first-ever, later, no keys", inc, true, 1, false, nil, false, true, sluice.OpInsert, false, ""},
		{"first-ever, resumed, keys", inc, true, 0, true, []string{"id"}, false, true, sluice.OpMerge, true, ""},
		{"incremental", inc, false, 0, false, []string{"id"}, false, true, sluice.OpMerge, true, ""},
		{"incremental, absent", inc, false, 3, false, []string{"id"}, false, false, sluice.OpCreate, true, ""},
		{"incremental, no keys", inc, false, 0, false, nil, false, true, "", false, "SLUICE-LOAD-NO-KEY"},
		{"append", app, false, 0, false, nil, false, true, sluice.OpInsert, false, ""},
		{"append, absent", app, false, 0, false, nil, false, false, sluice.OpCreate, false, ""},
		{"unknown sync type", "other", false, 0, false, nil, false, true, "", false, "SLUICE-LOAD-SYNC-TYPE"},
	} {
		f := Facts{
			Run:     sluice.Run{SyncType: c.sync, IsFirstEver: c.firstEver},
			Batch:   sluice.Batch{BatchIndex: c.index, IsResume: c.resume, Path: "/f.parquet"},
			Target:  lake.Target{Exists: c.exists},
			Options: sluice.Options{PrimaryKeys: c.keys, UniqueKeys: c.uniqueKeys},
		}
		op, dedupe, fail := ChooseOp(f)
		var code sluice.Code
		if fail != nil {
			code = fail.Err.Code
		}
		if op != c.want || dedupe != c.dedupe || code != c.code {
			t.Errorf("%s: got %s dedupe=%v %s, want %s dedupe=%v %s", c.name, op, dedupe, code, c.want, c.dedupe, c.code)
		}
	}
}

func TestFindColumn(t *testing.T) {
	t.Parallel()
	cols := columns(t, "user_id:BIGINT;ID:BIGINT;id2:BIGINT")
	for name, want := range map[string]string{"UserID": "user_id", "id": "ID", "id2": "id2", "nope": ""} {
		if got, ok := FindColumn(cols, name); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, target string
		want         Fitness
		wide         string
	}{
		{"BIGINT", "BIGINT", Same, "BIGINT"},
		{"INTEGER", "BIGINT", Narrower, "BIGINT"},
		{"BIGINT", "INTEGER", Wider, "BIGINT"},
		{"UBIGINT", "UINTEGER", Wider, "UBIGINT"},
		{"UINTEGER", "BIGINT", Narrower, "BIGINT"},
		{"UBIGINT", "BIGINT", Conflicting, "BIGINT"},
		{"BIGINT", "UBIGINT", Conflicting, "UBIGINT"},
		{"VARCHAR", "BIGINT", Conflicting, "BIGINT"},
		{"BIGINT", "VARCHAR", Conflicting, "VARCHAR"},
		{"DOUBLE", "FLOAT", Wider, "DOUBLE"},
		{"FLOAT", "DOUBLE", Narrower, "DOUBLE"},
		{"INTEGER", "DOUBLE", Narrower, "DOUBLE"},
		{"BIGINT", "DOUBLE", Conflicting, "DOUBLE"},
		{"DECIMAL(12,2)", "DECIMAL(10,2)", Wider, "DECIMAL(12,2)"},
		{"DECIMAL(10,2)", "DECIMAL(12,2)", Narrower, "DECIMAL(12,2)"},
		{"DECIMAL(12,3)", "DECIMAL(12,2)", Conflicting, "DECIMAL(12,2)"},
		{"DECIMAL(10,2)", "DECIMAL(12,3)", Narrower, "DECIMAL(12,3)"},
		{"BIGINT", "DECIMAL(21,2)", Narrower, "DECIMAL(21,2)"},
		{"TIMESTAMP WITH TIME ZONE", "TIMESTAMP", Conflicting, "TIMESTAMP"},
		{"STRUCT(b VARCHAR, a SMALLINT)", "STRUCT(a INTEGER, b VARCHAR)", Narrower, `STRUCT("a" INTEGER, "b" VARCHAR)`},
		{"STRUCT(A BIGINT, c DATE)", "STRUCT(a INTEGER, b VARCHAR)", Wider, `STRUCT("a" BIGINT, "b" VARCHAR, "c" DATE)`},
		{"STRUCT(a VARCHAR)", "STRUCT(a INTEGER)", Conflicting, `STRUCT("a" INTEGER)`},
		{"STRUCT(a BIGINT)[]", "STRUCT(a INTEGER)[]", Wider, `STRUCT("a" BIGINT)[]`},
		{"MAP(VARCHAR, STRUCT(b INTEGER))", "MAP(VARCHAR, STRUCT(a INTEGER))", Wider, `MAP(VARCHAR, STRUCT("a" INTEGER, "b" INTEGER))`},
		{`"NULL"`, "MAP(VARCHAR, INTEGER)", Narrower, "MAP(VARCHAR, INTEGER)"},
		{`STRUCT(a "NULL", b "NULL")`, "STRUCT(a STRUCT(x DATE))", Narrower, `STRUCT("a" STRUCT("x" DATE))`},
		{"TIMESTAMP", "TIMESTAMP WITH TIME ZONE", Narrower, "TIMESTAMP WITH TIME ZONE"},
		{"TIMESTAMP_NS", "TIMESTAMP", Conflicting, "TIMESTAMP"},
		{"DATE", "TIMESTAMP", Narrower, "TIMESTAMP"},
		{"INTEGER[]", "BIGINT[]", Narrower, "BIGINT[]"},
		{"BIGINT[]", "BIGINT", Conflicting, "BIGINT"},
	} {
		fs, ts := columns(t, "c:"+c.file)[0].Type, columns(t, "c:"+c.target)[0].Type
		fit, wide := Fit(fs, ts)
		if fit != c.want || wide.String() != c.wide {
			t.Errorf("file %s, target %s: got %d %s, want %d %s", c.file, c.target, fit, wide, c.want, c.wide)
		}
	}
}

func TestStoredType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"HUGEINT": "DECIMAL(38,0)", "ENUM('a','b')": "VARCHAR", "INTEGER[3]": "INTEGER[]", "STRUCT(a HUGEINT[2])": `STRUCT("a" DECIMAL(38,0)[])`,
		"MAP(VARCHAR, UHUGEINT)": "MAP(VARCHAR, DECIMAL(38,0))", "BIT": "", "UNION(a INTEGER)": "", "BIGNUM": "", "STRUCT(a BIT)": "",
	} {
		typ, err := lake.ParseType(in)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := StoredType(typ)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: got %s %v, want %q", in, got, ok, want)
		}
	}
}

// TestChooseRefuses has a row for each coded refusal of a batch before anything is written.
func TestChooseRefuses(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	base := func() Facts {
		return Facts{
			Run: sluice.Run{SyncType: sluice.Incremental}, Batch: sluice.Batch{Path: "/f", RunID: "r"},
			File:    lake.File{Rows: 10, SizeBytes: 100, Columns: columns(t, "id:BIGINT;v:VARCHAR")},
			Target:  lake.Target{Exists: true, SchemaExists: true, Columns: columns(t, "id:BIGINT;v:VARCHAR")},
			Options: sluice.Options{PrimaryKeys: []string{"id"}},
		}
	}
	for _, c := range []struct {
		name string
		set  func(f *Facts)
		keys lake.KeyFacts
		code sluice.Code
	}{
		{"fits", func(*Facts) {}, lake.KeyFacts{}, ""},
		{"announced rows", func(f *Facts) { f.Batch.RowCount = n(11) }, lake.KeyFacts{}, "SLUICE-LOAD-ROW-COUNT"},
		{"pinned content", func(f *Facts) { f.Batch.ETag, f.File.Tag = "footer:a", "footer:b" }, lake.KeyFacts{}, "SLUICE-LOAD-FILE-CHANGED"},
		{"pinned size", func(f *Facts) { f.Batch.ByteSize = n(99) }, lake.KeyFacts{}, "SLUICE-LOAD-FILE-CHANGED"},
		{"key absent", func(f *Facts) { f.Options.PrimaryKeys = []string{"nope"} }, lake.KeyFacts{}, "SLUICE-LOAD-KEY-MISSING"},
		{"NULL key", func(*Facts) {}, lake.KeyFacts{NullRows: 3}, "SLUICE-LOAD-NULL-KEY"},
		{"NULL key matched", func(f *Facts) { f.Options.NullKeys = sluice.NullKeysMatch }, lake.KeyFacts{NullRows: 3}, ""},
		{"case", func(f *Facts) { f.File.Columns = columns(t, "id:BIGINT;Id:BIGINT") }, lake.KeyFacts{}, "SLUICE-LOAD-COLUMN-CASE"},
		{"reserved prefix", func(f *Facts) { f.File.Columns = columns(t, "id:BIGINT;_sluice_x:BIGINT") }, lake.KeyFacts{}, "SLUICE-LOAD-COLUMN-RESERVED"},
		{"hidden position", func(f *Facts) { f.File.Columns = columns(t, "id:BIGINT;file_row_number:BIGINT") }, lake.KeyFacts{}, "SLUICE-LOAD-COLUMN-RESERVED"},
		{"type unsupported", func(f *Facts) { f.File.Columns = columns(t, "id:BIGINT;b:BIT") }, lake.KeyFacts{}, "SLUICE-LOAD-TYPE-UNSUPPORTED"},
		{"text for a number", func(f *Facts) { f.File.Columns = columns(t, "id:VARCHAR;v:VARCHAR") }, lake.KeyFacts{}, "SLUICE-LOAD-TYPE-CONFLICT"},
		{"new column under quarantine", func(f *Facts) {
			f.File.Columns = columns(t, "id:BIGINT;n:BIGINT")
			f.Options.SchemaPolicy = sluice.SchemaQuarantine
		}, lake.KeyFacts{}, "SLUICE-LOAD-SCHEMA-FROZEN"},
	} {
		f := base()
		c.set(&f)
		_, fail := Choose(f, c.keys)
		var code sluice.Code
		if fail != nil {
			code = fail.Err.Code
		}
		if code != c.code {
			t.Errorf("%s: got %q, want %q", c.name, code, c.code)
		}
	}
}

func TestFreezeLeavesColumnsOut(t *testing.T) {
	t.Parallel()
	c, fail := Choose(Facts{
		Run: sluice.Run{SyncType: sluice.Append}, Batch: sluice.Batch{Path: "/f"},
		File:    lake.File{Columns: columns(t, "id:BIGINT;n:BIGINT;w:BIGINT")},
		Target:  lake.Target{Exists: true, Columns: columns(t, "id:BIGINT;w:INTEGER")},
		Options: sluice.Options{SchemaPolicy: sluice.SchemaFreeze},
	}, lake.KeyFacts{})
	if fail != nil {
		t.Fatal(fail)
	}
	if len(c.LeftOut) != 1 || c.LeftOut[0] != "n" || len(c.Change.Add)+len(c.Change.Widen) != 0 || len(c.Change.Assign) != 2 {
		t.Errorf("got %+v", c)
	}
	if a := c.Change.Assign[1]; !a.Cast || a.To.Type.Base != "INTEGER" {
		t.Errorf("a wider column is not converted strictly: %+v", a)
	}
}

func TestChooseChanges(t *testing.T) {
	t.Parallel()
	base := func() Facts {
		return Facts{
			Run: sluice.Run{SyncType: sluice.CDC}, Batch: sluice.Batch{Path: "/f", RunID: "r"},
			File:    lake.File{Rows: 10, SizeBytes: 100, Columns: columns(t, "_op:VARCHAR;lsn:BIGINT;id:BIGINT;v:VARCHAR")},
			Target:  lake.Target{Exists: true, SchemaExists: true, Columns: columns(t, "id:BIGINT;v:VARCHAR")},
			Options: sluice.Options{PrimaryKeys: []string{"id"}, CDC: &sluice.CDCOptions{OrderColumns: []string{"lsn"}}},
		}
	}
	for _, c := range []struct {
		name string
		set  func(f *Facts)
		keys lake.KeyFacts
		code sluice.Code
	}{
		{"fits", func(*Facts) {}, lake.KeyFacts{}, ""},
		{"no key", func(f *Facts) { f.Options.PrimaryKeys = nil }, lake.KeyFacts{}, "SLUICE-LOAD-NO-KEY"},
		{"no order declared", func(f *Facts) { f.Options.CDC = nil }, lake.KeyFacts{}, "SLUICE-LOAD-CDC-ORDER"},
		{"order absent", func(f *Facts) { f.Options.CDC.OrderColumns = []string{"nope"} }, lake.KeyFacts{}, "SLUICE-LOAD-KEY-MISSING"},
		{"operation absent", func(f *Facts) { f.Options.CDC.OpColumn = "nope" }, lake.KeyFacts{}, "SLUICE-LOAD-KEY-MISSING"},
		{"unknown operation", func(*Facts) {}, lake.KeyFacts{BadOps: 1, BadOp: "t"}, "SLUICE-LOAD-CDC-OP"},
		{"meaning of an operation", func(f *Facts) { f.Options.CDC.OpMap = map[string]string{"t": "truncate"} }, lake.KeyFacts{}, "SLUICE-LOAD-CDC-OP"},
		{"NULL order", func(*Facts) {}, lake.KeyFacts{NullOrders: 1}, "SLUICE-LOAD-CDC-ORDER"},
		{"NULL key is refused even where it would match", func(f *Facts) { f.Options.NullKeys = sluice.NullKeysMatch }, lake.KeyFacts{NullRows: 1}, "SLUICE-LOAD-NULL-KEY"},
	} {
		f := base()
		c.set(&f)
		choice, fail := Choose(f, c.keys)
		var code sluice.Code
		if fail != nil {
			code = fail.Err.Code
		}
		if code != c.code {
			t.Errorf("%s: got %q, want %q", c.name, code, c.code)
		}
		if code == "" && (choice.Change.Op != sluice.OpMerge || choice.Change.Changes == nil || len(choice.Change.Assign) != 2) {
			t.Errorf("%s: got %+v", c.name, choice.Change)
		}
	}
	f := base()
	f.Options.CDC.KeepOrder, f.Options.CDC.DeleteMode = true, "soft"
	choice, fail := Choose(f, lake.KeyFacts{})
	if fail != nil || len(choice.Change.Changes.Kept) != 1 || !choice.Change.Changes.Soft || len(choice.Change.Add) != 3 {
		t.Errorf("soft deletes with a kept order: %+v, %v", choice.Change, fail)
	}
}
