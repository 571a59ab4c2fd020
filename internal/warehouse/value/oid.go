package value

import (
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/internal/warehouse/duck"
)

// Formats of the protocol.
const (
	Text   int16 = 0
	Binary int16 = 1
)

// OIDs that pgtype does not name.
const regtypeOID, regclassOID, regprocOID, regnamespaceOID = 2206, 2205, 24, 4089

// scalar is what a client sees of a scalar engine type.
type scalar struct {
	oid, array uint32
	size       int16
}

var scalars = map[duck.TypeID]scalar{
	duck.Boolean:     {pgtype.BoolOID, pgtype.BoolArrayOID, 1},
	duck.TinyInt:     {pgtype.Int2OID, pgtype.Int2ArrayOID, 2},
	duck.SmallInt:    {pgtype.Int2OID, pgtype.Int2ArrayOID, 2},
	duck.Integer:     {pgtype.Int4OID, pgtype.Int4ArrayOID, 4},
	duck.BigInt:      {pgtype.Int8OID, pgtype.Int8ArrayOID, 8},
	duck.UTinyInt:    {pgtype.Int2OID, pgtype.Int2ArrayOID, 2},
	duck.USmallInt:   {pgtype.Int4OID, pgtype.Int4ArrayOID, 4},
	duck.UInteger:    {pgtype.Int8OID, pgtype.Int8ArrayOID, 8},
	duck.UBigInt:     {pgtype.NumericOID, pgtype.NumericArrayOID, -1},
	duck.HugeInt:     {pgtype.NumericOID, pgtype.NumericArrayOID, -1},
	duck.UHugeInt:    {pgtype.NumericOID, pgtype.NumericArrayOID, -1},
	duck.BigNum:      {pgtype.NumericOID, pgtype.NumericArrayOID, -1},
	duck.Decimal:     {pgtype.NumericOID, pgtype.NumericArrayOID, -1},
	duck.Float:       {pgtype.Float4OID, pgtype.Float4ArrayOID, 4},
	duck.Double:      {pgtype.Float8OID, pgtype.Float8ArrayOID, 8},
	duck.Varchar:     {pgtype.TextOID, pgtype.TextArrayOID, -1},
	duck.Enum:        {pgtype.TextOID, pgtype.TextArrayOID, -1},
	duck.Blob:        {pgtype.ByteaOID, pgtype.ByteaArrayOID, -1},
	duck.Geometry:    {pgtype.ByteaOID, pgtype.ByteaArrayOID, -1},
	duck.Date:        {pgtype.DateOID, pgtype.DateArrayOID, 4},
	duck.Time:        {pgtype.TimeOID, pgtype.TimeArrayOID, 8},
	duck.TimeNS:      {pgtype.TimeOID, pgtype.TimeArrayOID, 8},
	duck.TimeTZ:      {pgtype.TimetzOID, pgtype.TimetzArrayOID, 12},
	duck.Timestamp:   {pgtype.TimestampOID, pgtype.TimestampArrayOID, 8},
	duck.TimestampS:  {pgtype.TimestampOID, pgtype.TimestampArrayOID, 8},
	duck.TimestampMS: {pgtype.TimestampOID, pgtype.TimestampArrayOID, 8},
	duck.TimestampNS: {pgtype.TimestampOID, pgtype.TimestampArrayOID, 8},
	duck.TimestampTZ: {pgtype.TimestamptzOID, pgtype.TimestamptzArrayOID, 8},
	duck.Interval:    {pgtype.IntervalOID, pgtype.IntervalArrayOID, 16},
	duck.UUID:        {pgtype.UUIDOID, pgtype.UUIDArrayOID, 16},
	duck.Bit:         {pgtype.VarbitOID, pgtype.VarbitArrayOID, -1},
	duck.SQLNull:     {pgtype.TextOID, pgtype.TextArrayOID, -1},
}

func scalarOf(t *duck.Type) (scalar, bool) {
	if t.JSON {
		return scalar{pgtype.JSONOID, pgtype.JSONArrayOID, -1}, true
	}
	s, ok := scalars[t.ID]
	return s, ok
}

// Describe gives a type's OID, its size (-1: varies) and its modifier, as in a RowDescription.
func Describe(t *duck.Type) (oid uint32, size int16, mod int32) {
	if s, ok := scalarOf(t); ok {
		mod = -1
		if t.ID == duck.Decimal {
			mod = int32(t.Width<<16|t.Scale) + 4
		}
		return s.oid, s.size, mod
	}
	if t.ID == duck.List || t.ID == duck.Array {
		if s, ok := scalarOf(t.Child); ok {
			return s.array, -1, -1
		}
	}
	return pgtype.JSONBOID, -1, -1
}

// Untyped reports whether an OID in a Parse message says nothing about the type: drivers send text for strings that are
// meant to be anything, and the engine knows better.
func Untyped(oid uint32) bool {
	switch oid {
	case 0, pgtype.UnknownOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.NumericOID:
		return true
	}
	_, known := casts[oid]
	return !known
}

// Cast is the engine type that a parameter declared with oid is cast to.
func Cast(oid uint32) *duck.Type {
	if t, ok := casts[oid]; ok {
		return t
	}
	return duck.Scalar(duck.Varchar)
}

// wide is what a number of unknown precision is described as.
func wide() *duck.Type { return duck.DecimalType(38, 10) }

var casts = func() map[uint32]*duck.Type {
	m := map[uint32]*duck.Type{
		pgtype.BoolOID: duck.Scalar(duck.Boolean), pgtype.Int2OID: duck.Scalar(duck.SmallInt), pgtype.Int4OID: duck.Scalar(duck.Integer),
		pgtype.Int8OID: duck.Scalar(duck.BigInt), pgtype.Float4OID: duck.Scalar(duck.Float), pgtype.Float8OID: duck.Scalar(duck.Double),
		pgtype.NumericOID: wide(), pgtype.ByteaOID: duck.Scalar(duck.Blob), pgtype.DateOID: duck.Scalar(duck.Date), pgtype.TimeOID: duck.Scalar(duck.Time),
		pgtype.TimestampOID: duck.Scalar(duck.Timestamp), pgtype.TimestamptzOID: duck.Scalar(duck.TimestampTZ),
		pgtype.IntervalOID: duck.Scalar(duck.Interval), pgtype.UUIDOID: duck.Scalar(duck.UUID), pgtype.JSONOID: duck.JSONType(), pgtype.JSONBOID: duck.JSONType(),
	}
	for oid, array := range map[uint32]uint32{
		pgtype.BoolOID: pgtype.BoolArrayOID, pgtype.Int2OID: pgtype.Int2ArrayOID, pgtype.Int4OID: pgtype.Int4ArrayOID, pgtype.Int8OID: pgtype.Int8ArrayOID,
		pgtype.Float4OID: pgtype.Float4ArrayOID, pgtype.Float8OID: pgtype.Float8ArrayOID, pgtype.NumericOID: pgtype.NumericArrayOID,
		pgtype.ByteaOID: pgtype.ByteaArrayOID, pgtype.DateOID: pgtype.DateArrayOID, pgtype.TimeOID: pgtype.TimeArrayOID,
		pgtype.TimestampOID: pgtype.TimestampArrayOID, pgtype.TimestamptzOID: pgtype.TimestamptzArrayOID, pgtype.IntervalOID: pgtype.IntervalArrayOID,
		pgtype.UUIDOID: pgtype.UUIDArrayOID,
	} {
		m[array] = duck.ListOf(m[oid])
	}
	for _, oid := range []uint32{pgtype.OIDOID, regtypeOID, regclassOID, regprocOID, regnamespaceOID} {
		m[oid] = duck.Scalar(duck.BigInt)
	}
	for _, oid := range []uint32{pgtype.TextArrayOID, pgtype.VarcharArrayOID} {
		m[oid] = duck.ListOf(duck.Scalar(duck.Varchar))
	}
	return m
}()
