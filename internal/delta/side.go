package delta

import (
	"fmt"
	"io"
	"math/big"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/delta/dv"
	"sluice/internal/delta/schema"
)

// rowGroup is how many rows the side files have in one row group: what is held in memory while they are written.
const rowGroup = 1 << 18

// WriteFiles writes the side file of partition values as Parquet: file_index (UBIGINT) and, for each partition column in
// the order of the schema's, p0, p1 … in the engine's type for it. The same plan gives the same bytes.
func (p *Plan) WriteFiles(w io.Writer) error {
	fields := p.Columns.PartitionFields()
	columns := parquet.Group{"file_index": parquet.Uint(64)}
	for i, f := range fields {
		node, err := sideNode(f.Type)
		if err != nil {
			return err
		}
		columns[sideColumn(i)] = parquet.Optional(node)
	}
	s := parquet.NewSchema("files", columns)
	out := parquet.NewGenericWriter[any](w, s, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(rowGroup))
	index := func(name string) int {
		leaf, _ := s.Lookup(name)
		return leaf.ColumnIndex
	}
	row := make(parquet.Row, len(fields)+1)
	for g := range p.Groups {
		for place, file := range p.Groups[g].Files {
			at := index("file_index")
			row[at] = parquet.Int64Value(int64(p.Groups[g].First+place)).Level(0, 0, at)
			for i, f := range fields {
				at := index(sideColumn(i))
				v, err := sideValue(f.Type, p.Files[file].Partition[i])
				if err != nil {
					return fmt.Errorf("write the partition of %s: %w", p.Files[file].Path, err)
				}
				defined := 1
				if v.IsNull() {
					defined = 0
				}
				row[at] = v.Level(0, defined, at)
			}
			if _, err := out.WriteRows([]parquet.Row{row}); err != nil {
				return fmt.Errorf("write partition values: %w", err)
			}
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write partition values: %w", err)
	}
	return nil
}

// deletedRow is a row of the side file of deleted rows.
type deletedRow struct {
	FileIndex uint64 `parquet:"file_index,delta"`
	Pos       int64  `parquet:"pos,delta"`
}

// WriteDeleted writes the side file of deleted rows as Parquet: file_index (UBIGINT) and pos (BIGINT), sorted, as
// vectors, those of the plan's files in their order, give them. The same plan gives the same bytes.
func (p *Plan) WriteDeleted(w io.Writer, vectors []*dv.Vector) error {
	out := parquet.NewGenericWriter[deletedRow](w, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(rowGroup))
	rows := make([]deletedRow, 0, 4096)
	flush := func() error {
		_, err := out.Write(rows)
		rows = rows[:0]
		return err
	}
	for g := range p.Groups {
		for place, file := range p.Groups[g].Files {
			v := vectors[file]
			if v == nil {
				continue
			}
			for pos := range v.Positions() {
				rows = append(rows, deletedRow{uint64(p.Groups[g].First + place), pos})
				if len(rows) < cap(rows) {
					continue
				}
				if err := flush(); err != nil {
					return fmt.Errorf("write deleted rows: %w", err)
				}
			}
		}
	}
	err := flush()
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return fmt.Errorf("write deleted rows: %w", err)
	}
	return nil
}

// decimalBytes is how many bytes a decimal of up to 38 digits takes.
const decimalBytes = 16

func sideNode(t schema.Type) (parquet.Node, error) {
	switch t.Kind {
	case schema.Boolean:
		return parquet.Leaf(parquet.BooleanType), nil
	case schema.Byte:
		return parquet.Int(8), nil
	case schema.Short:
		return parquet.Int(16), nil
	case schema.Integer:
		return parquet.Int(32), nil
	case schema.Long:
		return parquet.Int(64), nil
	case schema.Float:
		return parquet.Leaf(parquet.FloatType), nil
	case schema.Double:
		return parquet.Leaf(parquet.DoubleType), nil
	case schema.Decimal:
		return parquet.Decimal(t.Scale, t.Precision, parquet.FixedLenByteArrayType(decimalBytes)), nil
	case schema.String:
		return parquet.String(), nil
	case schema.Binary:
		return parquet.Leaf(parquet.ByteArrayType), nil
	case schema.Date:
		return parquet.Date(), nil
	case schema.Timestamp:
		return parquet.TimestampAdjusted(parquet.Microsecond, true), nil
	case schema.TimestampNTZ:
		return parquet.TimestampAdjusted(parquet.Microsecond, false), nil
	default:
		return nil, fmt.Errorf("a %s is no type of a partition column", t)
	}
}

// sideValue reads a partition value, see schema.ParseValue.
func sideValue(t schema.Type, v schema.Value) (parquet.Value, error) {
	if v == nil {
		return parquet.NullValue(), nil
	}
	switch t.Kind {
	case schema.Boolean:
		return parquet.BooleanValue(*v == "true"), nil
	case schema.Byte, schema.Short, schema.Integer:
		n, err := strconv.ParseInt(*v, 10, 32)
		return parquet.Int32Value(int32(n)), err
	case schema.Long:
		n, err := strconv.ParseInt(*v, 10, 64)
		return parquet.Int64Value(n), err
	case schema.Float:
		n, err := strconv.ParseFloat(*v, 32)
		return parquet.FloatValue(float32(n)), err
	case schema.Double:
		n, err := strconv.ParseFloat(*v, 64)
		return parquet.DoubleValue(n), err
	case schema.Decimal:
		n, err := schema.Unscaled(*v)
		if err != nil {
			return parquet.Value{}, err
		}
		b, err := twosComplement(n)
		return parquet.FixedLenByteArrayValue(b), err
	case schema.Date:
		n, err := schema.Days(*v)
		return parquet.Int32Value(n), err
	case schema.Timestamp, schema.TimestampNTZ:
		n, err := schema.Micros(*v)
		return parquet.Int64Value(n), err
	default: // text and bytes
		return parquet.ByteArrayValue([]byte(*v)), nil
	}
}

func twosComplement(n *big.Int) ([]byte, error) {
	if n.BitLen() >= 8*decimalBytes {
		return nil, fmt.Errorf("%s has too many digits", n)
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*decimalBytes))
	}
	return n.FillBytes(make([]byte, decimalBytes)), nil
}
