package wire

import (
	"context"
	"strconv"
	"strings"

	"sluice/internal/warehouse/duck"
	"sluice/internal/warehouse/gate"
)

func upper(s string) string { return strings.ToUpper(s) }
func lower(s string) string { return strings.ToLower(s) }

// rowTag is the command tag of a statement that gave n rows.
func rowTag(p *prepared, n int64) string {
	count := strconv.FormatInt(n, 10)
	switch p.kind {
	case duck.KindInsert:
		return "INSERT 0 " + count
	case duck.KindUpdate:
		return "UPDATE " + count
	case duck.KindDelete:
		return "DELETE " + count
	case duck.KindMerge:
		return "MERGE " + count
	case duck.KindExplain:
		return "EXPLAIN"
	case duck.KindCall:
		return "CALL"
	}
	return "SELECT " + count
}

// changeTag is the command tag of a statement without rows. The engine counts no rows of CREATE TABLE AS, so the new table
// is counted, which a lake answers from its metadata.
func (s *Session) changeTag(ctx context.Context, p *prepared, changed int64) string {
	count := strconv.FormatInt(changed, 10)
	verb := upper(p.tokens[0].Text)
	switch p.kind {
	case duck.KindInsert:
		return "INSERT 0 " + count
	case duck.KindUpdate:
		return "UPDATE " + count
	case duck.KindDelete:
		if verb == "TRUNCATE" {
			return "TRUNCATE TABLE"
		}
		return "DELETE " + count
	case duck.KindMerge:
		return "MERGE " + count
	case duck.KindCopy:
		return "COPY " + count
	case duck.KindCreate, duck.KindCreateFunc, duck.KindDrop, duck.KindAlter:
		if table := gate.CreatedAs(p.tokens, p.text); table != "" {
			rows, err := s.db.Text(ctx, "SELECT count(*)::VARCHAR FROM "+table)
			if err != nil || len(rows) != 1 {
				return "SELECT 0"
			}
			return "SELECT " + rows[0]
		}
		if verb != "COMMENT" {
			return strings.TrimSpace(verb + " " + upper(gate.Object(p.tokens)))
		}
	}
	return verb
}
