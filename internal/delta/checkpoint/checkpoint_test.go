package checkpoint_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"sluice/internal/delta/action"
	"sluice/internal/delta/checkpoint"
)

type (
	vector struct {
		StorageType    string `parquet:"storageType,optional"`
		PathOrInlineDv string `parquet:"pathOrInlineDv,optional"`
		Offset         *int32 `parquet:"offset,optional"`
		SizeInBytes    int32  `parquet:"sizeInBytes,optional"`
		Cardinality    int64  `parquet:"cardinality,optional"`
	}
	parsed struct {
		NumRecords *int64 `parquet:"numRecords,optional"`
	}
	add struct {
		Path            string             `parquet:"path,optional"`
		PartitionValues map[string]*string `parquet:"partitionValues,optional"`
		Size            int64              `parquet:"size,optional"`
		Stats           string             `parquet:"stats,optional"`
		StatsParsed     *parsed            `parquet:"stats_parsed,optional"`
		DeletionVector  *vector            `parquet:"deletionVector,optional"`
		BaseRowID       *int64             `parquet:"baseRowId,optional"`
	}
	protocol struct {
		MinReaderVersion int32    `parquet:"minReaderVersion"`
		MinWriterVersion int32    `parquet:"minWriterVersion"`
		ReaderFeatures   []string `parquet:"readerFeatures,list,optional"`
	}
	metadata struct {
		ID     string `parquet:"id,optional"`
		Format *struct {
			Provider string `parquet:"provider,optional"`
		} `parquet:"format,optional"`
		SchemaString     string            `parquet:"schemaString,optional"`
		PartitionColumns []string          `parquet:"partitionColumns,list,optional"`
		Configuration    map[string]string `parquet:"configuration,optional"`
	}
	remove struct {
		Path string `parquet:"path,optional"`
	}
	sidecar struct {
		Path        string `parquet:"path"`
		SizeInBytes int64  `parquet:"sizeInBytes"`
	}
	full struct {
		Protocol *protocol `parquet:"protocol,optional"`
		MetaData *metadata `parquet:"metaData,optional"`
		Add      *add      `parquet:"add,optional"`
		Remove   *remove   `parquet:"remove,optional"`
		Sidecar  *sidecar  `parquet:"sidecar,optional"`
	}
	// old is what a writer of before statistics and deletion vectors makes.
	old struct {
		Add *struct {
			Path string `parquet:"path,optional"`
			Size int64  `parquet:"size,optional"`
		} `parquet:"add,optional"`
	}
)

func write[T any](t testing.TB, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type found struct {
	adds      []action.Add
	protocols []action.Protocol
	metadata  []action.Metadata
	sidecars  []action.Sidecar
}

func read(b []byte) (f found, err error) {
	err = checkpoint.Read(bytes.NewReader(b), int64(len(b)), action.Sink{
		Add: func(a action.Add) error {
			a.PartitionValues = slices.Clone(a.PartitionValues)
			slices.SortFunc(a.PartitionValues, func(x, y action.PartitionValue) int { return bytes.Compare([]byte(x.Key), []byte(y.Key)) })
			f.adds = append(f.adds, a)
			return nil
		},
		Protocol: func(p action.Protocol) error { f.protocols = append(f.protocols, p); return nil },
		Metadata: func(m action.Metadata) error { f.metadata = append(f.metadata, m); return nil },
		Sidecar:  func(s action.Sidecar) error { f.sidecars = append(f.sidecars, s); return nil },
		V2:       func() error { return nil },
	})
	return f, err
}

func ptr[T any](v T) *T { return &v }

// Cases 16 to 18: what a checkpoint may hold, and may lack.
func TestCase17_RowsOfACheckpoint(t *testing.T) {
	t.Parallel()
	got, err := read(write(t, []full{
		{Protocol: &protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors", "v2Checkpoint"}}},
		{MetaData: &metadata{ID: "t", Format: &struct {
			Provider string `parquet:"provider,optional"`
		}{"parquet"}, SchemaString: "{}", PartitionColumns: []string{"p"}, Configuration: map[string]string{"a": "b"}}},
		{Add: &add{Path: "a%20b", PartitionValues: map[string]*string{"p": nil, "q": ptr("1")}, Size: 7, Stats: `{"numRecords":5}`}},
		{Remove: &remove{Path: "gone"}},
		{Add: &add{}}, // a struct of nulls is no action
		{},
		{Add: &add{
			Path: "c", Size: 8, StatsParsed: &parsed{ptr(int64(9))}, BaseRowID: ptr(int64(100)),
			DeletionVector: &vector{"u", "x", ptr(int32(1)), 30, 2},
		}},
		{Add: &add{Path: "d", Size: 9, Stats: "not json", StatsParsed: &parsed{}, DeletionVector: &vector{StorageType: "i", PathOrInlineDv: "y", SizeInBytes: 3, Cardinality: 1}}},
		{Sidecar: &sidecar{"s.parquet", 12}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := found{
		[]action.Add{
			{Path: "a%20b", PartitionValues: []action.PartitionValue{{Key: "p", Null: true}, {Key: "q", Value: "1"}}, Size: 7, NumRecords: 5},
			{Path: "c", Size: 8, NumRecords: 9, BaseRowID: ptr(int64(100)), DV: &action.DeletionVector{Storage: "u", Path: "x", Offset: ptr(int64(1)), Size: 30, Cardinality: 2}},
			{Path: "d", Size: 9, NumRecords: action.Unknown, DV: &action.DeletionVector{Storage: "i", Path: "y", Size: 3, Cardinality: 1}},
		},
		[]action.Protocol{{MinReader: 3, MinWriter: 7, ReaderFeatures: []string{"deletionVectors", "v2Checkpoint"}, HasReaderFeatures: true}},
		[]action.Metadata{{ID: "t", Provider: "parquet", Schema: "{}", PartitionColumns: []string{"p"}, Configuration: map[string]string{"a": "b"}}},
		[]action.Sidecar{{Path: "s.parquet", Size: 12}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestCase16_OldCheckpoint(t *testing.T) {
	t.Parallel()
	rows := []old{{}, {Add: &struct {
		Path string `parquet:"path,optional"`
		Size int64  `parquet:"size,optional"`
	}{"a", 1}}}
	got, err := read(write(t, rows))
	if want := []action.Add{{Path: "a", Size: 1, NumRecords: action.Unknown}}; err != nil || !reflect.DeepEqual(got.adds, want) {
		t.Errorf("%+v, %v", got.adds, err)
	}
}

// Many row groups and pages, in both forms, give the rows in their order.
func TestManyPages(t *testing.T) {
	t.Parallel()
	rows := make([]full, 5000)
	for i := range rows {
		if i%3 != 0 {
			rows[i].Add = &add{Path: string(rune('a'+i%26)) + string(rune('0'+i/500)), Size: int64(i), PartitionValues: map[string]*string{"p": ptr("x")}}
		}
	}
	for _, form := range []int{1, 2} {
		got, err := read(write(t, rows, parquet.MaxRowsPerRowGroup(900), parquet.PageBufferSize(700), parquet.DataPageVersion(form), parquet.Compression(&parquet.Zstd)))
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, r := range rows {
			if r.Add == nil {
				continue
			}
			if a := got.adds[i]; a.Path != r.Add.Path || a.Size != r.Add.Size || len(a.PartitionValues) != 1 {
				t.Fatalf("add %d is %+v", i, a)
			}
			i++
		}
		if i != len(got.adds) {
			t.Errorf("%d adds, want %d", len(got.adds), i)
		}
	}
}

// An error of the sink is its caller's own.
func TestSinkEndsIt(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	b := write(t, []full{{Add: &add{Path: "a", Size: 1}}, {Add: &add{Path: "b", Size: 1}}})
	n := 0
	err := checkpoint.Read(bytes.NewReader(b), int64(len(b)), action.Sink{Add: func(action.Add) error { n++; return enough }})
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%v after %d", err, n)
	}
}

// Case 19: bytes that were changed are an error or other rows, never a crash.
func TestCase19_DamagedBytes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	rows := make([]full, 300)
	for i := range rows {
		rows[i].Add = &add{Path: string(rune('a' + i%26)), Size: int64(i), Stats: `{"numRecords":5}`, PartitionValues: map[string]*string{"p": nil}}
	}
	good := write(t, rows, parquet.Compression(&parquet.Snappy))
	for range 2000 {
		b := slices.Clone(good)
		for range 1 + rnd.IntN(4) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		if rnd.IntN(4) == 0 {
			b = b[:rnd.IntN(len(b))]
		}
		_, _ = read(b)
	}
	for _, b := range [][]byte{nil, []byte("PAR1"), good[:len(good)-1], good[:100], []byte("PAR1\xff\xff\xff\xffPAR1"), []byte("\x00\x00\x00\x00PAR1")} {
		if _, err := read(b); err == nil {
			t.Errorf("%d bytes are read", len(b))
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	rows := []full{
		{Protocol: &protocol{MinReaderVersion: 1, MinWriterVersion: 2}},
		{MetaData: &metadata{ID: "t", SchemaString: "{}", PartitionColumns: []string{"p"}, Configuration: map[string]string{"a": "b"}}},
		{Add: &add{Path: "a", PartitionValues: map[string]*string{"p": ptr("1")}, Size: 7, Stats: `{"numRecords":5}`, DeletionVector: &vector{"u", "x", ptr(int32(1)), 30, 2}}},
	}
	f.Add(write(f, rows))
	f.Add(write(f, rows, parquet.DataPageVersion(1), parquet.Compression(&parquet.Snappy)))
	f.Add(write(f, rows, parquet.Compression(&parquet.Zstd)))
	f.Add(write(f, rows, parquet.Compression(&parquet.Gzip)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := read(b)
		if err == nil {
			for _, a := range got.adds {
				if a.Size < 0 {
					t.Fatalf("%+v", a)
				}
			}
		}
	})
}
