package duck

import (
	"context"
	"fmt"
	"strconv"

	bindings "github.com/duckdb/duckdb-go-bindings"
)

// StatementType is the engine's classification of a statement.
type StatementType = bindings.StatementType

// Column is a column of a result as prepared.
type Column struct {
	Name string
	Type *Type
}

// Stmt is a prepared statement. It has not been run.
type Stmt struct {
	conn    *Conn
	raw     bindings.PreparedStatement
	kind    StatementType
	columns []Column
	params  []Param
}

// Param is a parameter of a statement: its name ("1" for $1 and the first ?) and the type that the engine found for it,
// nil when it found none.
type Param struct {
	Name string
	Type *Type
}

func (s *Stmt) describe() {
	s.kind = bindings.PreparedStatementType(s.raw)
	n := bindings.NParams(s.raw)
	for i := bindings.IdxT(1); i <= n; i++ {
		p := Param{Name: bindings.ParameterName(s.raw, i)}
		if id := bindings.ParamType(s.raw, i); id != bindings.TypeInvalid && id != bindings.TypeSQLNull && id != bindings.TypeAny {
			lt := bindings.ParamLogicalType(s.raw, i)
			p.Type = typeOf(lt)
			bindings.DestroyLogicalType(&lt)
		}
		s.params = append(s.params, p)
	}
	cols := bindings.PreparedStatementColumnCount(s.raw)
	for i := bindings.IdxT(0); i < cols; i++ {
		lt := bindings.PreparedStatementColumnLogicalType(s.raw, i)
		s.columns = append(s.columns, Column{bindings.PreparedStatementColumnName(s.raw, i), typeOf(lt)})
		bindings.DestroyLogicalType(&lt)
	}
}

// Kind is the type of the statement.
func (s *Stmt) Kind() StatementType { return s.kind }

// Columns are the columns that running the statement will give. For a statement without rows they are the engine's
// counter.
func (s *Stmt) Columns() []Column { return s.columns }

// Params are the parameters in the engine's order.
func (s *Stmt) Params() []Param { return s.params }

// Resolved reports whether the engine knows the types of all parameters and columns. One parameter without a type makes
// it describe the whole result as one unknown column.
func (s *Stmt) Resolved() bool {
	for _, p := range s.params {
		if p.Type == nil {
			return false
		}
	}
	return s.Described()
}

// Described reports whether the engine knows the columns.
func (s *Stmt) Described() bool {
	return len(s.columns) != 1 || s.columns[0].Type.ID != bindings.TypeInvalid
}

// Bind gives the i-th parameter (from 1) its value. A value of another type than the parameter's makes the engine bind
// the statement anew when it is run.
func (s *Stmt) Bind(i int, v Value) error {
	if bindings.BindValue(s.raw, bindings.IdxT(i), v.raw) == bindings.StateError {
		return errorFromText(bindings.PrepareError(s.raw))
	}
	return nil
}

// Execute runs the statement. Rows of a query are streamed: the engine works ahead by a bounded buffer only. The Result
// must be closed before the next statement of the connection, which would end it.
func (s *Stmt) Execute(ctx context.Context) (*Result, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	release := s.conn.guard(ctx)
	defer release()
	var pending bindings.PendingResult
	defer bindings.DestroyPending(&pending)
	if bindings.PendingPreparedStreaming(s.raw, &pending) == bindings.StateError {
		return nil, errorFromText(bindings.PendingError(pending))
	}
	r := &Result{conn: s.conn}
	if bindings.ExecutePending(pending, &r.raw) == bindings.StateError {
		err := errorFromResult(&r.raw)
		bindings.DestroyResult(&r.raw)
		return nil, err
	}
	n := bindings.ColumnCount(&r.raw)
	for i := bindings.IdxT(0); i < n; i++ {
		lt := bindings.ColumnLogicalType(&r.raw, i)
		r.columns = append(r.columns, Column{bindings.ColumnName(&r.raw, i), typeOf(lt)})
		bindings.DestroyLogicalType(&lt)
	}
	return r, nil
}

// Close frees the statement. Results that it gave stay valid.
func (s *Stmt) Close() {
	if s.raw.Ptr != nil {
		bindings.DestroyPrepare(&s.raw)
		s.raw.Ptr = nil
	}
}

// Index is the parameter's number when its name is one.
func (p Param) Index() (int, error) {
	n, err := strconv.Atoi(p.Name)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("parameter $%s: parameters are numbered", p.Name)
	}
	return n, nil
}

// The statement types that callers tell apart.
const (
	KindSelect      = bindings.StatementTypeSelect
	KindInsert      = bindings.StatementTypeInsert
	KindUpdate      = bindings.StatementTypeUpdate
	KindDelete      = bindings.StatementTypeDelete
	KindMerge       = bindings.StatementTypeMergeInto
	KindExplain     = bindings.StatementTypeExplain
	KindPrepare     = bindings.StatementTypePrepare
	KindExecute     = bindings.StatementTypeExecute
	KindCreate      = bindings.StatementTypeCreate
	KindCreateFunc  = bindings.StatementTypeCreateFunc
	KindAlter       = bindings.StatementTypeAlter
	KindDrop        = bindings.StatementTypeDrop
	KindTransaction = bindings.StatementTypeTransaction
	KindCopy        = bindings.StatementTypeCopy
	KindAnalyze     = bindings.StatementTypeAnalyze
	KindVacuum      = bindings.StatementTypeVacuum
	KindSet         = bindings.StatementTypeSet
	KindVariableSet = bindings.StatementTypeVariableSet
	KindPragma      = bindings.StatementTypePragma
	KindCall        = bindings.StatementTypeCall
	KindLoad        = bindings.StatementTypeLoad
	KindExport      = bindings.StatementTypeExport
	KindAttach      = bindings.StatementTypeAttach
	KindDetach      = bindings.StatementTypeDetach
)
