package deltagen

import (
	"encoding/json"
	"fmt"
)

// Action is one line of a commit.
type Action interface {
	// Line is the action as JSON.
	Line() []byte
}

// Raw is an action as text, for all that the types here cannot say.
type Raw string

// Line implements Action.
func (r Raw) Line() []byte { return []byte(r) }

// Object is an action made of anything.
type Object map[string]any

// Line implements Action.
func (o Object) Line() []byte { return encode(o) }

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("deltagen: encode an action: %v", err)) // of values that the tests themselves wrote
	}
	return text
}

// Text gives a pointer to a text, for partition values and statistics.
func Text(s string) *string { return &s }

// Int gives a pointer to a number, for offsets and row ids.
func Int(n int64) *int64 { return &n }

// DV is a deletion vector's descriptor.
type DV struct {
	Storage     string `json:"storageType"`
	Path        string `json:"pathOrInlineDv"`
	Offset      *int64 `json:"offset,omitempty"`
	Size        int64  `json:"sizeInBytes"`
	Cardinality int64  `json:"cardinality"`
}

// Add is an add action. Path is written as it is: Escape encodes a key. The file's own name is in its JSON only.
type Add struct {
	Path             string             `json:"path"`
	Partition        map[string]*string `json:"partitionValues"`
	Size             int64              `json:"size"`
	ModificationTime int64              `json:"modificationTime"`
	DataChange       bool               `json:"dataChange"`
	Stats            *string            `json:"stats,omitempty"`
	Tags             map[string]string  `json:"tags,omitempty"`
	DV               *DV                `json:"deletionVector,omitempty"`
	BaseRowID        *int64             `json:"baseRowId,omitempty"`
	RowCommitVersion *int64             `json:"defaultRowCommitVersion,omitempty"`

	Rows int64 `json:"-"` // physical rows of the file
}

// Line implements Action.
func (a Add) Line() []byte {
	if a.Partition == nil {
		a.Partition = map[string]*string{}
	}
	return encode(map[string]any{"add": a})
}

// With gives the add with another deletion vector. Statistics stay: numRecords counts physical rows.
func (a Add) With(dv *DV) Add {
	a.DV = dv
	return a
}

// WithStats gives the add with other statistics; nil: none.
func (a Add) WithStats(stats *string) Add {
	a.Stats = stats
	return a
}

// WithPartition gives the add with a partition value more; nil is JSON null.
func (a Add) WithPartition(column string, value *string) Add {
	values := map[string]*string{column: value}
	for k, v := range a.Partition {
		if k != column {
			values[k] = v
		}
	}
	a.Partition = values
	return a
}

// At gives the add under another path.
func (a Add) At(path string) Add {
	a.Path = path
	return a
}

// Remove gives the action that takes the file, with its deletion vector, out of the table.
func (a Add) Remove() Remove {
	return Remove{Path: a.Path, DV: a.DV, DataChange: true, DeletionTimestamp: 1_700_000_000_000}
}

// Remove is a remove action.
type Remove struct {
	Path              string `json:"path"`
	DeletionTimestamp int64  `json:"deletionTimestamp"`
	DataChange        bool   `json:"dataChange"`
	DV                *DV    `json:"deletionVector,omitempty"`
}

// Line implements Action.
func (r Remove) Line() []byte { return encode(map[string]any{"remove": r}) }

// Protocol is a protocol action. A nil list of features is left out, an empty one is written.
type Protocol struct {
	Reader, Writer                 int
	ReaderFeatures, WriterFeatures []string
}

// Line implements Action.
func (p Protocol) Line() []byte {
	body := map[string]any{"minReaderVersion": p.Reader, "minWriterVersion": p.Writer}
	if p.ReaderFeatures != nil {
		body["readerFeatures"] = p.ReaderFeatures
	}
	if p.WriterFeatures != nil {
		body["writerFeatures"] = p.WriterFeatures
	}
	return encode(map[string]any{"protocol": body})
}

// Features is the protocol of a table with reader features.
func Features(names ...string) Protocol {
	if names == nil {
		names = []string{}
	}
	return Protocol{Reader: 3, Writer: 7, ReaderFeatures: names, WriterFeatures: names}
}

// Plain is the oldest protocol.
var Plain = Protocol{Reader: 1, Writer: 2}

// Metadata is a metaData action.
type Metadata struct {
	Schema        string // schemaString; empty: left out
	Partition     []string
	Configuration map[string]string
	Provider      string // empty: parquet
}

// Line implements Action.
func (m Metadata) Line() []byte {
	provider := m.Provider
	if provider == "" {
		provider = "parquet"
	}
	body := map[string]any{
		"id": "00000000-0000-4000-8000-000000000001", "format": map[string]any{"provider": provider, "options": map[string]string{}},
		"partitionColumns": append([]string{}, m.Partition...), "configuration": map[string]string{}, "createdTime": 1_700_000_000_000,
	}
	if m.Configuration != nil {
		body["configuration"] = m.Configuration
	}
	if m.Schema != "" {
		body["schemaString"] = m.Schema
	}
	return encode(map[string]any{"metaData": body})
}

// Field is a column of a schema. Type is a primitive's name, or the JSON of a nested type.
type Field struct {
	Name     string
	Type     any
	Metadata map[string]any
}

// Schema writes a schemaString.
func Schema(fields ...Field) string { return string(encode(Struct(fields...))) }

// Struct is a struct type.
func Struct(fields ...Field) map[string]any {
	list := []any{}
	for _, f := range fields {
		metadata := f.Metadata
		if metadata == nil {
			metadata = map[string]any{}
		}
		list = append(list, map[string]any{"name": f.Name, "type": f.Type, "nullable": true, "metadata": metadata})
	}
	return map[string]any{"type": "struct", "fields": list}
}

// Array is an array type.
func Array(element any) map[string]any {
	return map[string]any{"type": "array", "elementType": element, "containsNull": true}
}

// Map is a map type.
func Map(key, value any) map[string]any {
	return map[string]any{"type": "map", "keyType": key, "valueType": value, "valueContainsNull": true}
}

// Mapped is the metadata of a column-mapped field.
func Mapped(id int, physical string) map[string]any {
	return map[string]any{"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical}
}

// CommitInfo is a commitInfo action of any content.
func CommitInfo(content map[string]any) Action { return Object{"commitInfo": content} }
