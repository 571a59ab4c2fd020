package load

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// virtual are the names that a Parquet reader gives to columns of its own; a file column of that name hides them.
var virtual = map[string]bool{"rowid": true, "filename": true, "file_index": true, "file_row_number": true}

// setColumns decides which file column goes where, which are added and which widen (spec/loader.md §10).
func (c *Choice) setColumns(f Facts) *lake.Failure {
	if fail := checkNames(f); fail != nil {
		return fail
	}
	target := f.Target.Columns
	rebuilt := c.Change.Op == sluice.OpCreate || c.Change.Op == sluice.OpReplace && !c.Change.Rewrite
	kept := rebuilt && f.Target.Exists && (f.Options.SchemaPolicy == sluice.SchemaFreeze || f.Options.SchemaPolicy == sluice.SchemaQuarantine)
	switch {
	case kept:
		rebuilt, c.Change.Columns = false, slices.Clone(target) // replaced by a table of the same columns
	case rebuilt:
		target = nil
	}
	helpers := helperColumns(f)
	for _, col := range f.File.Columns {
		if helpers[col.Name] {
			continue
		}
		stored, ok := StoredType(col.Type)
		if !ok {
			return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-TYPE-UNSUPPORTED", doing(f.Batch),
				fmt.Sprintf("column %s has type %s, which the lake cannot hold", col.Name, col.Type),
				"let the extract cast the column", nil))
		}
		to, exists := target.Find(col.Name)
		var fail *lake.Failure
		if exists {
			to.Type, fail = c.fitColumn(f, col, stored, to)
		} else {
			if stored, ok = Typed(stored); !ok {
				continue // a column of nothing but NULL has no type yet: adding it now would fix a wrong one for ever
			}
			to = lake.Column{Name: col.Name, Type: stored}
			ok, fail = c.newColumn(f, to, rebuilt)
		}
		if fail != nil {
			return fail
		}
		if !ok {
			continue
		}
		a := lake.Assignment{To: to, From: col.Name, Cast: !col.Type.Equal(to.Type)}
		if col.Type.HasNull() {
			a.File = &col.Type
		}
		c.Change.Assign = append(c.Change.Assign, a)
	}
	for _, col := range softColumns(f) {
		if _, exists := target.Find(col.Name); rebuilt {
			c.Change.Columns = append(c.Change.Columns, col)
		} else if !exists {
			c.Change.Add = append(c.Change.Add, col)
		}
	}
	if len(c.Change.Assign) == 0 {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-TYPE-UNSUPPORTED", doing(f.Batch),
			"the file has no column that can be loaded", "mend the extract", nil))
	}
	if f.Options.Lineage {
		c.addLineage(f, target, rebuilt)
	}
	if kept {
		c.Change.Columns, c.Change.Add = append(c.Change.Columns, c.Change.Add...), nil
	}
	return nil
}

// newColumn decides about a column that the table does not have; ok is false if it is left out.
func (c *Choice) newColumn(f Facts, to lake.Column, rebuilt bool) (ok bool, fail *lake.Failure) {
	switch {
	case rebuilt:
		c.Change.Columns = append(c.Change.Columns, to)
	case f.Options.SchemaPolicy == sluice.SchemaFreeze:
		c.LeftOut = append(c.LeftOut, to.Name)
		return false, nil
	case f.Options.SchemaPolicy == sluice.SchemaQuarantine:
		return false, frozen(f, fmt.Sprintf("column %s %s is new", to.Name, to.Type))
	default:
		c.Change.Add = append(c.Change.Add, to)
	}
	return true, nil
}

// fitColumn decides which type a column of the table has while the batch is loaded.
func (c *Choice) fitColumn(f Facts, col lake.Column, stored lake.Type, have lake.Column) (lake.Type, *lake.Failure) {
	fit, wide := Fit(stored, have.Type)
	if fit == Wider && f.Options.SchemaPolicy == sluice.SchemaFreeze { // nothing is altered: converted strictly, value by value
		out, ok := LeftOut(have.Name, stored, have.Type)
		if ok {
			c.LeftOut = append(c.LeftOut, out...)
			return have.Type, nil
		}
		fit = Conflicting
	}
	if fit == Wider && slices.Contains(f.Target.Layout, have.Name) {
		fit = Conflicting // the values of a partition or of an order are written down in the catalog with their old type
	}
	switch fit {
	case Same, Narrower:
	case Wider:
		if f.Options.SchemaPolicy == sluice.SchemaQuarantine {
			return have.Type, frozen(f, fmt.Sprintf("column %s is %s in the file, %s in the table", col.Name, stored, have.Type))
		}
		c.Change.Widen = append(c.Change.Widen, lake.Column{Name: have.Name, Type: wide})
		return wide, nil
	case Conflicting:
		c.Misfit = &Misfit{Column: col.Name, To: have.Type}
		return have.Type, TypeConflict(f.Batch, col, have, "")
	}
	return have.Type, nil
}

// Columns that say which batch wrote a row last, of streams that ask for them.
const (
	lineageBatch  = "_sluice_batch_id"
	lineageLoaded = "_sluice_loaded_at"
)

// addLineage adds the lineage columns. A frozen table that does not have them stays as it is.
func (c *Choice) addLineage(f Facts, target lake.Columns, rebuilt bool) {
	for _, a := range []lake.Assignment{
		{To: lake.Column{Name: lineageBatch, Type: lake.Type{Base: "UUID"}}, Value: lake.Literal(string(f.Batch.BatchID)) + "::UUID"},
		{To: lake.Column{Name: lineageLoaded, Type: lake.Type{Base: "TIMESTAMP WITH TIME ZONE"}}, Value: "now()"},
	} {
		_, exists := target.Find(a.To.Name)
		switch {
		case rebuilt:
			c.Change.Columns = append(c.Change.Columns, a.To)
		case exists:
		case f.Options.SchemaPolicy == sluice.SchemaFreeze:
			continue
		default:
			c.Change.Add = append(c.Change.Add, a.To)
		}
		c.Change.Assign = append(c.Change.Assign, a)
	}
}

// TypeConflict is the error for a column whose values do not fit; value is the first one that does not, if known.
func TypeConflict(b sluice.Batch, file, target lake.Column, value string) *lake.Failure {
	what := fmt.Sprintf("column %s is %s in the file, %s in the table", target.Name, file.Type, target.Type)
	if value != "" {
		what += fmt.Sprintf("; the first value that does not fit is %q", value)
	}
	return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-TYPE-CONFLICT", doing(b), what,
		"mend the extract and enqueue it as a new run, or rebuild the table with a new full refresh", nil))
}

func frozen(f Facts, what string) *lake.Failure {
	return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-SCHEMA-FROZEN", doing(f.Batch), what,
		"change the stream's schema_policy and run `sluice quarantine retry`, or mend the extract", nil))
}

func checkNames(f Facts) *lake.Failure {
	reserved := func(name, why string) *lake.Failure {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-COLUMN-RESERVED", doing(f.Batch),
			fmt.Sprintf("column %q %s", name, why), "let the extract rename the column", nil))
	}
	if one, other, found := sameButCase(f.File.Columns); found {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-COLUMN-CASE", doing(f.Batch),
			fmt.Sprintf("columns %s and %s differ only in case", one, other), "let the extract rename one of them", nil))
	}
	for _, col := range f.File.Columns {
		lower := strings.ToLower(col.Name)
		switch {
		case col.Name == "" || len(col.Name) > 255 || strings.ContainsRune(col.Name, 0):
			return reserved(col.Name, "is empty, longer than 255 bytes, or has a NUL")
		case strings.HasPrefix(lower, "_sluice_"), strings.HasPrefix(lower, "_ducklake_"):
			return reserved(col.Name, "has a prefix that is kept for the lake itself")
		case virtual[lower]:
			if _, dedupe, _ := ChooseOp(f); dedupe {
				return reserved(col.Name, "hides the position that decides which of two rows with one key is newer")
			}
		}
	}
	return nil
}

// sameButCase finds two columns, or two fields of one struct, whose names differ at most in case.
func sameButCase(columns lake.Columns) (one, other string, found bool) {
	seen := map[string]string{}
	for _, col := range columns {
		lower := strings.ToLower(col.Name)
		if first, ok := seen[lower]; ok {
			return first, col.Name, true
		}
		seen[lower] = col.Name
		inner := col.Type
		for inner.Elem != nil {
			inner = *inner.Elem
		}
		if one, other, found = sameButCase(inner.Fields); found {
			return col.Name + "." + one, col.Name + "." + other, true
		}
	}
	return "", "", false
}
