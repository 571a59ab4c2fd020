package load

import (
	"fmt"
	"strings"

	"sluice/internal/lake"
	"sluice/internal/naming"
	"sluice/internal/sluice"
)

// Facts are all that the choice of a batch's change depends on.
type Facts struct {
	Stream  sluice.Stream
	Run     sluice.Run
	Batch   sluice.Batch
	File    lake.File   // zero for a step without a file
	Target  lake.Target // as described
	Options sluice.Options
	// LookAtKeys asks for a look at the keys where a merge would find out about them by itself.
	LookAtKeys bool
}

// Merged gives the options of a run: what the run sets overrides the stream.
func Merged(stream, run sluice.Options) sluice.Options {
	o := stream
	if len(run.PrimaryKeys) > 0 {
		o.PrimaryKeys = run.PrimaryKeys
	}
	if run.UniqueKeys {
		o.UniqueKeys = true
	}
	if len(run.DedupeOrder) > 0 {
		o.DedupeOrder = run.DedupeOrder
	}
	if run.NullKeys != "" {
		o.NullKeys = run.NullKeys
	}
	if run.SchemaPolicy != "" {
		o.SchemaPolicy = run.SchemaPolicy
	}
	if run.ReplaceMode != "" {
		o.ReplaceMode = run.ReplaceMode
	}
	if run.UpdateOnlyChanged != nil {
		o.UpdateOnlyChanged = run.UpdateOnlyChanged
	}
	if run.CDC != nil {
		o.CDC = run.CDC
	}
	if run.Lineage {
		o.Lineage = true
	}
	return o
}

// ChooseOp says what applying the batch does, by the table of spec/loader.md §6, and whether the source is de-duplicated
// by key first. An incremental batch without declared keys is refused here, before anything is created without them.
func ChooseOp(f Facts) (op sluice.Op, dedupe bool, err *lake.Failure) {
	keyed := len(f.Options.PrimaryKeys) > 0
	head := f.Batch.BatchIndex == 0 && !f.Batch.IsResume
	if f.Batch.Path == "" {
		if f.Target.Exists {
			return sluice.OpReplace, false, nil
		}
		return sluice.OpNothing, false, nil
	}
	switch f.Run.SyncType {
	case sluice.FullRefresh:
		op = sluice.OpInsert
		if head {
			op = sluice.OpReplace
		}
	case sluice.Append:
		op = sluice.OpInsert
	case sluice.CDC:
		if fail := checkCDC(f); fail != nil {
			return "", false, fail
		}
		op, dedupe = sluice.OpMerge, true
	case sluice.Incremental:
		switch {
		case !f.Run.IsFirstEver:
			if !keyed {
				return "", false, lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-NO-KEY", doing(f.Batch),
					"the stream is incremental and declares no primary key",
					"declare it with `sluice stream add --primary-key`, or give primary_keys with the run", nil))
			}
			op, dedupe = sluice.OpMerge, true
		case head:
			op, dedupe = sluice.OpReplace, keyed
		case keyed && !f.Options.UniqueKeys:
			op, dedupe = sluice.OpMerge, true
		default:
			op = sluice.OpInsert
		}
	default:
		return "", false, lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-SYNC-TYPE", doing(f.Batch),
			fmt.Sprintf("sync type %s cannot be applied", f.Run.SyncType), "upgrade the loader", nil))
	}
	if !f.Target.Exists {
		dedupe = dedupe || keyed && f.Run.SyncType == sluice.Incremental && !f.Options.UniqueKeys
		op = sluice.OpCreate
	}
	return op, dedupe, nil
}

func doing(b sluice.Batch) string {
	return fmt.Sprintf("apply batch %d of run %s", b.BatchIndex, b.RunID)
}

// FindColumn looks a declared column up in a file: by its exact name, then without case, then by the legacy snake-case
// rule, so that `UserID` finds `user_id`.
func FindColumn(columns lake.Columns, name string) (string, bool) {
	for _, c := range columns {
		if c.Name == name {
			return c.Name, true
		}
	}
	if c, ok := columns.Find(name); ok {
		return c.Name, true
	}
	for _, c := range columns {
		if strings.EqualFold(naming.SnakeCase(c.Name), naming.SnakeCase(name)) {
			return c.Name, true
		}
	}
	return "", false
}

// findColumns looks several up; the failure names all that are missing and all that are there.
func findColumns(f Facts, what string, names []string) ([]string, *lake.Failure) {
	var found, missing []string
	for _, n := range names {
		if c, ok := FindColumn(f.File.Columns, n); ok {
			found = append(found, c)
			continue
		}
		missing = append(missing, n)
	}
	if len(missing) > 0 {
		return nil, lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-KEY-MISSING", doing(f.Batch),
			fmt.Sprintf("%s %s not in the file; its columns are %s", what, strings.Join(missing, ", "), strings.Join(f.File.Columns.Names(), ", ")),
			"mend the extract, or correct the stream's keys", nil))
	}
	return found, nil
}

// AskKeys says what has to be known about the file's keys before the change can be chosen; without Keys, nothing.
func AskKeys(f Facts) (lake.KeyQuery, *lake.Failure) {
	op, dedupe, fail := ChooseOp(f)
	if fail != nil || !dedupe {
		return lake.KeyQuery{}, fail
	}
	keys, fail := findColumns(f, "key", f.Options.PrimaryKeys)
	switch {
	case fail != nil:
		return lake.KeyQuery{}, fail
	case f.Run.SyncType == sluice.CDC:
		return askChanges(f, keys)
	case mergeFindsOut(f, op):
		return lake.KeyQuery{}, nil
	}
	return lake.KeyQuery{Keys: keys}, nil
}

// mergeFindsOut reports whether a merge tells by itself what is to be known about keys: it fails at a NULL, and the number of
// rows that it writes is the number of keys. That saves reading the file twice.
func mergeFindsOut(f Facts, op sluice.Op) bool {
	onlyChanged := f.Options.UpdateOnlyChanged != nil && *f.Options.UpdateOnlyChanged
	return op == sluice.OpMerge && f.Run.SyncType != sluice.CDC && !onlyChanged && !f.LookAtKeys
}

// Choice is what is to be done with a batch.
type Choice struct {
	Change       lake.Change
	LeftOut      []string // columns that the policy leaves out
	Deduplicated int64    // rows that a newer row of the same key replaces
	MergeCounts  bool     // Deduplicated is not known before; it is what the merge does not write
	Misfit       *Misfit  // set with a type conflict: where a value that does not fit may be found
}

// Misfit names a file column and the type that it does not fit.
type Misfit struct {
	Column string
	To     lake.Type
}

// Choose decides the whole change of a batch. keys are what the file's key columns hold; they matter only where
// KeyColumns names some. On failure the choice may carry a Misfit.
func Choose(f Facts, keys lake.KeyFacts) (Choice, *lake.Failure) {
	op, dedupe, fail := ChooseOp(f)
	if fail != nil {
		return Choice{}, fail
	}
	c := Choice{Change: lake.Change{
		Op: op, Path: f.Batch.Path, WantRows: -1,
		Target:      lake.Table{Schema: f.Stream.TargetSchema, Name: f.Stream.TargetTable},
		OnlyChanged: f.Options.UpdateOnlyChanged != nil && *f.Options.UpdateOnlyChanged, // off: docs/adr/0063
		NullsMatch:  f.Options.NullKeys == sluice.NullKeysMatch,
		Rewrite:     f.Options.ReplaceMode == "rewrite",
	}}
	if f.Batch.Path == "" {
		return c, nil
	}
	if fail := checkPins(f); fail != nil {
		return c, fail
	}
	c.Change.WantRows = f.File.Rows
	if fail := c.setColumns(f); fail != nil {
		return c, fail
	}
	if !dedupe {
		return c, nil
	}
	return c, c.setKeys(f, keys)
}

// checkPins compares the file with what was said about it when it was enqueued.
func checkPins(f Facts) *lake.Failure {
	if f.Batch.ByteSize != nil && *f.Batch.ByteSize != f.File.SizeBytes {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-FILE-CHANGED", doing(f.Batch),
			fmt.Sprintf("the file was enqueued with %d bytes and has %d now", *f.Batch.ByteSize, f.File.SizeBytes),
			"a file must not change after it is enqueued: enqueue the new content as a new run", nil))
	}
	if sluice.IsFooterTag(f.Batch.ETag) && f.Batch.ETag != f.File.Tag {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-FILE-CHANGED", doing(f.Batch),
			"the file is not the one that the first attempt has read: its contents have changed",
			"a file must not change after it is enqueued: enqueue the new content as a new run", nil))
	}
	if f.Batch.RowCount != nil && *f.Batch.RowCount != f.File.Rows {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-ROW-COUNT", doing(f.Batch),
			fmt.Sprintf("the producer announced %d rows, the file has %d", *f.Batch.RowCount, f.File.Rows),
			"mend the extract and enqueue it as a new run, or discard the batch", nil))
	}
	return nil
}

// setKeys puts the keys and the order of de-duplication into the change.
func (c *Choice) setKeys(f Facts, keys lake.KeyFacts) *lake.Failure {
	if keys.NullRows > 0 && (f.Options.NullKeys != sluice.NullKeysMatch || f.Run.SyncType == sluice.CDC) {
		return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-NULL-KEY", doing(f.Batch),
			fmt.Sprintf("%d rows have NULL in a key column (%s)", keys.NullRows, strings.Join(f.Options.PrimaryKeys, ", ")),
			"mend the extract, or let NULL equal NULL with null_keys = match", nil))
	}
	names, fail := findColumns(f, "key", f.Options.PrimaryKeys)
	if fail != nil {
		return fail
	}
	for _, n := range names {
		to, ok := c.assigned(n)
		if !ok {
			return lake.Fail(lake.PhasePlan, lake.Permanent, sluice.E("SLUICE-LOAD-KEY-MISSING", doing(f.Batch),
				fmt.Sprintf("key column %s is not in the table and the schema policy adds none", n),
				"change the stream's schema_policy, or its keys", nil))
		}
		c.Change.Keys = append(c.Change.Keys, to)
	}
	if f.Run.SyncType == sluice.CDC {
		return c.setChanges(f, keys)
	}
	c.Change.DedupeOrder, fail = findColumns(f, "dedupe_order", f.Options.DedupeOrder)
	if mergeFindsOut(f, c.Change.Op) {
		c.Change.RefuseNulls = !c.Change.NullsMatch
		c.MergeCounts = len(c.Change.Assign) > len(c.Change.Keys) // one with nothing to update writes only new keys
		return fail
	}
	c.Deduplicated = keys.DuplicateRows
	c.Change.WantRows = f.File.Rows - keys.DuplicateRows
	return fail
}

func (c *Choice) assigned(from string) (string, bool) {
	for _, a := range c.Change.Assign {
		if a.From == from {
			return a.To.Name, true
		}
	}
	return "", false
}
