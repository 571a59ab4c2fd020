package footer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/internal/delta/thrift"
)

// MaxSize is the largest footer that is read.
const MaxSize = 64 << 20

// Tail is how many bytes the end of a file takes: the footer's size and the magic letters.
const Tail = 8

// ErrNotParquet says that a file does not end as a Parquet file does.
var ErrNotParquet = errors.New("the file is not Parquet")

// Size gives the size of a footer from the last Tail bytes of a file, without them.
func Size(tail []byte) (int, error) {
	switch {
	case len(tail) != Tail || string(tail[4:]) != "PAR1" && string(tail[4:]) != "PARE":
		return 0, ErrNotParquet
	case string(tail[4:]) == "PARE":
		return 0, errors.New("the file is encrypted")
	}
	n := binary.LittleEndian.Uint32(tail)
	if n > MaxSize {
		return 0, fmt.Errorf("its footer of %d bytes is larger than %d MiB", n, MaxSize>>20)
	}
	return int(n), nil
}

// Physical is a Parquet type.
type Physical int8

// The physical types.
const (
	Boolean Physical = iota
	Int32
	Int64
	Int96
	Float
	Double
	ByteArray
	FixedByteArray
	Group Physical = -1
)

// Logical is what a column's bytes mean.
type Logical int8

// The logical types. Older files say it by the converted type, which is read as the same.
const (
	Plain Logical = iota
	Text
	Map
	List
	Enum
	Decimal
	Date
	Time
	Timestamp
	Integer
	Null
	JSON
	BSON
	UUID
	Float16
	OtherLogical // one that is newer than this list
)

// Unit is the resolution of a time.
type Unit int8

// The units.
const (
	Millis Unit = iota + 1
	Micros
	Nanos
)

// Repetition says how often a node occurs.
type Repetition int8

// The repetitions.
const (
	Required Repetition = iota
	Optional
	Repeated
)

// Node is a column, or a part of one.
type Node struct {
	Name       string
	Repetition Repetition
	Physical   Physical
	Length     int32 // of a FixedByteArray
	Logical    Logical
	Precision  int32 // of a Decimal
	Scale      int32
	Bits       int8 // of an Integer
	Signed     bool
	Unit       Unit // of a Time or Timestamp
	UTC        bool
	HasID      bool
	ID         int32
	Children   []Node
}

// Footer is what a file says about itself.
type Footer struct {
	Rows    int64
	Columns []Node
}

// Parse reads a footer, without the tail.
func Parse(b []byte) (*Footer, error) {
	t := thrift.New(b)
	f := &Footer{Rows: -1}
	var elements []element
	t.Fields(func(id int16, kind thrift.Type) {
		switch id {
		case 2:
			if t.Expect(kind, thrift.List) {
				elements = readSchema(t)
			}
		case 3:
			if t.Expect(kind, thrift.I64) {
				f.Rows = t.Int()
			}
		default:
			t.Skip(kind)
		}
	})
	switch {
	case t.Err() != nil:
		return nil, t.Err()
	case f.Rows < 0:
		return nil, errors.New("the footer has no number of rows")
	case len(elements) == 0:
		return nil, errors.New("the footer has no schema")
	}
	columns, rest, err := build(elements[1:], int(elements[0].children), 1)
	if err == nil && len(rest) != 0 {
		err = errors.New("the footer's schema has columns outside its root")
	}
	f.Columns = columns
	return f, err
}

// element is one entry of the schema: a node, and how many of the next ones are below it.
type element struct {
	Node
	children int32
}

// maxNesting is how deep columns may nest.
const maxNesting = 64

// minElement is the fewest bytes that an element takes: more are never allocated than there are.
const minElement = 3

func readSchema(t *thrift.Reader) []element {
	kind, n := t.List()
	if n > 0 && !t.Expect(kind, thrift.Struct) {
		return nil
	}
	elements := make([]element, 0, min(n, t.Left()/minElement))
	t.Each(n, func() { elements = append(elements, readElement(t)) })
	return elements
}

func readElement(t *thrift.Reader) element {
	e := element{Node: Node{Physical: Group}}
	converted, precision, scale := int32(-1), int32(0), int32(0)
	hasLogical := false
	t.Fields(func(id int16, kind thrift.Type) {
		switch {
		case id == 4 && kind == thrift.Binary:
			e.Name = string(t.Bytes())
		case id == 10 && kind == thrift.Struct:
			hasLogical = true
			readLogical(t, &e.Node)
		case kind != thrift.I32:
			t.Skip(kind)
		case id == 1:
			e.Physical = Physical(clamp(t.Int32()))
		case id == 2:
			e.Length = t.Int32()
		case id == 3:
			e.Repetition = Repetition(clamp(t.Int32()))
		case id == 5:
			e.children = t.Int32()
		case id == 6:
			converted = t.Int32()
		case id == 7:
			scale = t.Int32()
		case id == 8:
			precision = t.Int32()
		case id == 9:
			e.HasID, e.ID = true, t.Int32()
		default:
			t.Skip(kind)
		}
	})
	if e.children > 0 || e.Physical > FixedByteArray {
		e.Physical = Group
	}
	if !hasLogical || e.Logical == Plain {
		convert(&e.Node, converted)
	}
	if e.Logical == Decimal && e.Precision == 0 {
		e.Precision, e.Scale = precision, scale
	}
	return e
}

func clamp(n int32) int8 {
	if n < 0 || n > 100 {
		return 100
	}
	return int8(n)
}

// logicals are the types by their ids in the union LogicalType.
var logicals = [...]Logical{
	OtherLogical, Text, Map, List, Enum, Decimal, Date, Time, Timestamp, OtherLogical, Integer, Null, JSON, BSON, UUID, Float16,
}

// logical reads the union LogicalType.
func readLogical(t *thrift.Reader, n *Node) {
	t.Fields(func(id int16, kind thrift.Type) {
		if kind != thrift.Struct {
			t.Skip(kind)
			return
		}
		known := OtherLogical
		if id > 0 && int(id) < len(logicals) {
			known = logicals[id]
		}
		n.Logical = known
		t.Fields(func(id int16, kind thrift.Type) {
			switch {
			case known == Decimal && id == 1 && kind == thrift.I32:
				n.Scale = t.Int32()
			case known == Decimal && id == 2 && kind == thrift.I32:
				n.Precision = t.Int32()
			case (known == Time || known == Timestamp) && id == 1:
				n.UTC = kind == thrift.True
				t.Skip(kind)
			case (known == Time || known == Timestamp) && id == 2 && kind == thrift.Struct:
				t.Fields(func(id int16, kind thrift.Type) {
					n.Unit = Unit(clamp(int32(id)))
					t.Skip(kind)
				})
			case known == Integer && id == 1 && kind == thrift.Byte:
				n.Bits = int8(t.Byte())
			case known == Integer && id == 2:
				n.Signed = kind == thrift.True
				t.Skip(kind)
			default:
				t.Skip(kind)
			}
		})
	})
}

// convert reads the converted type, which says it in older files.
func convert(n *Node, converted int32) {
	switch converted {
	case 0:
		n.Logical = Text
	case 1, 2:
		n.Logical = Map
	case 3:
		n.Logical = List
	case 4:
		n.Logical = Enum
	case 5:
		n.Logical = Decimal
	case 6:
		n.Logical = Date
	case 7, 8:
		n.Logical, n.Unit, n.UTC = Time, Unit(converted-6), true
	case 9, 10:
		n.Logical, n.Unit, n.UTC = Timestamp, Unit(converted-8), true
	case 11, 12, 13, 14:
		n.Logical, n.Bits = Integer, 8<<(converted-11)
	case 15, 16, 17, 18:
		n.Logical, n.Bits, n.Signed = Integer, 8<<(converted-15), true
	case 19:
		n.Logical = JSON
	case 20:
		n.Logical = BSON
	case -1:
	default:
		n.Logical = OtherLogical
	}
}

// build makes a tree of the first nodes of a depth-first list, and gives what is left of the list.
func build(list []element, children, depth int) ([]Node, []element, error) {
	switch {
	case children < 0 || children > len(list):
		return nil, nil, errors.New("the footer's schema says that it has more columns than it has")
	case depth > maxNesting:
		return nil, nil, errors.New("the footer's schema is nested too deep")
	}
	nodes := make([]Node, 0, children)
	for range children {
		if len(list) == 0 {
			return nil, nil, errors.New("the footer's schema ends too early")
		}
		e := list[0]
		var err error
		e.Node.Children, list, err = build(list[1:], int(e.children), depth+1)
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, e.Node)
	}
	return nodes, list, nil
}
