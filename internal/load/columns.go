package load

import (
	"fmt"
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
	if rebuilt {
		target = nil
	}
	policy := f.Options.SchemaPolicy
	helpers := helperColumns(f)
	for _, col := range f.File.Columns {
		if helpers[col.Name] {
			continue
		}
		if col.Type.Base == nullType {
			continue // a column of nothing but NULL has no type yet: adding it now would fix a wrong one for ever
		}
		stored, ok := StoredType(col.Type)
		if !ok {
			return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-TYPE-UNSUPPORTED", doing(f.Batch),
				fmt.Sprintf("column %s has type %s, which the lake cannot hold", col.Name, col.Type),
				"let the extract cast the column", nil))
		}
		to := lake.Column{Name: col.Name, Type: stored}
		have, exists := target.Find(col.Name)
		switch {
		case rebuilt:
			c.Change.Columns = append(c.Change.Columns, to)
		case !exists:
			if policy == sluice.SchemaFreeze {
				c.LeftOut = append(c.LeftOut, col.Name)
				continue
			}
			if policy == sluice.SchemaQuarantine {
				return frozen(f, fmt.Sprintf("column %s %s is new", col.Name, stored))
			}
			c.Change.Add = append(c.Change.Add, to)
		default:
			to = have
			switch fit, wide := Fit(stored, have.Type); fit {
			case Same, Narrower:
			case Wider:
				if policy == sluice.SchemaQuarantine {
					return frozen(f, fmt.Sprintf("column %s is %s in the file, %s in the table", col.Name, stored, have.Type))
				}
				if policy != sluice.SchemaFreeze { // frozen: converted strictly, value by value
					to.Type = wide
					c.Change.Widen = append(c.Change.Widen, to)
				}
			case Conflicting:
				c.Misfit = &Misfit{Column: col.Name, To: have.Type}
				return TypeConflict(f.Batch, col, have, "")
			}
		}
		c.Change.Assign = append(c.Change.Assign, lake.Assignment{To: to, From: col.Name, Cast: !col.Type.Equal(to.Type)})
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
	return nil
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
	seen := map[string]string{}
	reserved := func(name, why string) *lake.Failure {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-COLUMN-RESERVED", doing(f.Batch),
			fmt.Sprintf("column %q %s", name, why), "let the extract rename the column", nil))
	}
	for _, col := range f.File.Columns {
		lower := strings.ToLower(col.Name)
		if other, ok := seen[lower]; ok {
			return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-COLUMN-CASE", doing(f.Batch),
				fmt.Sprintf("columns %s and %s differ only in case", other, col.Name), "let the extract rename one of them", nil))
		}
		seen[lower] = col.Name
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
