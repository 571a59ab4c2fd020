package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/sluice"
)

// What a change row's operation means.
const (
	changeInsert = "insert"
	changeUpdate = "update"
	changeDelete = "delete"
)

// defaultOps is the op_map of a stream that gives none (spec/loader.md §6).
var defaultOps = map[string]string{
	"c": changeInsert, "r": changeInsert, "i": changeInsert, "insert": changeInsert,
	"u": changeUpdate, "update": changeUpdate, "d": changeDelete, "delete": changeDelete,
}

// cdcOptions gives the options of a stream of changes with their defaults.
func cdcOptions(o sluice.Options) sluice.CDCOptions {
	var c sluice.CDCOptions
	if o.CDC != nil {
		c = *o.CDC
	}
	if c.OpColumn == "" {
		c.OpColumn = "_op"
	}
	ops := maps.Clone(defaultOps)
	if len(c.OpMap) > 0 {
		ops = map[string]string{}
		for value, meaning := range c.OpMap {
			ops[strings.ToLower(value)] = meaning
		}
	}
	c.OpMap = ops
	return c
}

// checkCDC refuses a stream of changes that does not say how its rows are ordered and keyed.
func checkCDC(f Facts) *lake.Failure {
	refuse := func(code sluice.Code, what, hint string) *lake.Failure {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E(code, doing(f.Batch), what, hint, nil))
	}
	c := cdcOptions(f.Options)
	if len(f.Options.PrimaryKeys) == 0 {
		return refuse("SLUICE-LOAD-NO-KEY", "the stream has changes and declares no primary key", "declare it with `sluice stream add --primary-key`, or give primary_keys with the run")
	}
	if len(c.OrderColumns) == 0 {
		return refuse("SLUICE-LOAD-CDC-ORDER", "the stream has changes and declares no order columns", "declare cdc.order_columns, at least one column that rises with each change of a row")
	}
	for value, meaning := range c.OpMap {
		switch meaning {
		case changeInsert, changeUpdate, changeDelete:
		default:
			return refuse("SLUICE-LOAD-CDC-OP", fmt.Sprintf("cdc.op_map gives %q the meaning %q", value, meaning), "the meanings are insert, update and delete")
		}
	}
	return nil
}

// askChanges adds what has to be known about operations and order.
func askChanges(f Facts, keys []string) (lake.KeyQuery, *lake.Failure) {
	c := cdcOptions(f.Options)
	ask := lake.KeyQuery{Keys: keys, Ops: slices.Sorted(maps.Keys(c.OpMap))}
	op, fail := findColumns(f, "operation column", []string{c.OpColumn})
	if fail != nil {
		return ask, fail
	}
	ask.OpColumn = op[0]
	ask.Order, fail = findColumns(f, "order column", c.OrderColumns)
	return ask, fail
}

// setChanges checks the change rows and says how they are applied.
func (c *Choice) setChanges(f Facts, keys lake.KeyFacts) *lake.Failure {
	o := cdcOptions(f.Options)
	if keys.BadOps > 0 {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-CDC-OP", doing(f.Batch),
			fmt.Sprintf("%d rows have an unknown operation, such as %q; known are %s", keys.BadOps, keys.BadOp, strings.Join(slices.Sorted(maps.Keys(o.OpMap)), ", ")),
			"mend the extract, or map the operation in cdc.op_map; a truncate cannot be ordered against rows of other batches", nil))
	}
	if keys.NullOrders > 0 {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-CDC-ORDER", doing(f.Batch),
			fmt.Sprintf("%d rows have NULL in an order column (%s)", keys.NullOrders, strings.Join(o.OrderColumns, ", ")),
			"mend the extract", nil))
	}
	ask, fail := askChanges(f, nil)
	if fail != nil {
		return fail
	}
	ch := &lake.Changes{OpColumn: ask.OpColumn, Order: ask.Order, Soft: o.DeleteMode == "soft"}
	for value, meaning := range o.OpMap {
		if meaning == changeDelete {
			ch.Deletes = append(ch.Deletes, value)
		}
	}
	slices.Sort(ch.Deletes)
	if o.KeepOrder {
		for _, from := range ask.Order {
			if to, ok := c.assigned(from); ok {
				ch.Kept = append(ch.Kept, to)
			}
		}
	}
	c.Change.Changes, c.Change.DedupeOrder, c.Deduplicated = ch, ask.Order, keys.DuplicateRows
	c.Change.WantRows = -1
	return nil
}

// helperColumns are file columns that a stream of changes does not store: the operation, and the order unless it is kept.
func helperColumns(f Facts) map[string]bool {
	if f.Run.SyncType != sluice.CDC {
		return nil
	}
	o := cdcOptions(f.Options)
	out := map[string]bool{}
	names := []string{o.OpColumn}
	if !o.KeepOrder {
		names = append(names, o.OrderColumns...)
	}
	keys := map[string]bool{}
	for _, k := range f.Options.PrimaryKeys {
		if found, ok := FindColumn(f.File.Columns, k); ok {
			keys[found] = true
		}
	}
	for _, n := range names {
		if found, ok := FindColumn(f.File.Columns, n); ok && !keys[found] {
			out[found] = true
		}
	}
	return out
}

// softColumns are the target columns that soft deletes need.
func softColumns(f Facts) lake.Columns {
	if f.Run.SyncType != sluice.CDC || cdcOptions(f.Options).DeleteMode != "soft" {
		return nil
	}
	return lake.Columns{
		{Name: lake.DeletedColumn, Type: lake.Type{Base: "BOOLEAN"}},
		{Name: lake.DeletedAtColumn, Type: lake.Type{Base: "TIMESTAMP WITH TIME ZONE"}},
	}
}
