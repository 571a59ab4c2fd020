package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Literal writes a parameter as SQL, for statements that the engine plans by their parameters' values. It knows numbers,
// texts, and whatever a client sends as text.
func Literal(oid uint32, format int16, raw []byte) (string, error) {
	if raw == nil {
		return "NULL", nil
	}
	text := string(raw)
	if format == Binary {
		switch oid {
		case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID:
			switch len(raw) {
			case 2:
				return strconv.Itoa(int(int16(be.Uint16(raw)))), nil
			case 4:
				return strconv.Itoa(int(int32(be.Uint32(raw)))), nil
			case 8:
				return strconv.FormatInt(int64(be.Uint64(raw)), 10), nil
			}
			return "", fmt.Errorf("binary integer of %d bytes: %w", len(raw), ErrSyntax)
		case pgtype.Float8OID:
			if len(raw) != 8 {
				return "", fmt.Errorf("binary float of %d bytes: %w", len(raw), ErrSyntax)
			}
			text = strconv.FormatFloat(math.Float64frombits(be.Uint64(raw)), 'g', -1, 64)
		case pgtype.BoolOID:
			text = strconv.FormatBool(len(raw) == 1 && raw[0] != 0)
		case 0, pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.UnknownOID:
		default:
			return "", fmt.Errorf("a binary parameter here, of the type with OID %d: %w", oid, ErrType)
		}
	}
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return "", fmt.Errorf("%w byte sequence for encoding UTF8", ErrSyntax)
	}
	text = "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if oid != pgtype.TextOID && !Untyped(oid) {
		text += "::" + Cast(oid).Name()
	}
	return text, nil
}
