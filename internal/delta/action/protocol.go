package action

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/sluice"
)

// CodeUnsupported is the code of a table that needs what this reader does not have.
const CodeUnsupported sluice.Code = "SLUICE-DELTA-UNSUPPORTED"

// supported are the reader features that this reader implements. Those that are known and refused (catalogManaged,
// variantType, geospatial and the like) need no list: whatever is not here is refused by its name.
var supported = []string{
	"columnMapping", "deletionVectors", "timestampNtz", "timestampWithoutTimezone", "v2Checkpoint", "vacuumProtocolCheck",
	"typeWidening", "typeWidening-preview",
}

// Features are the reader features that the protocol asks for, in the log's order. Reader 2 is column mapping under
// another name.
func (p Protocol) Features() []string {
	switch {
	case p.MinReader == 2:
		return []string{"columnMapping"}
	case p.MinReader < 3 || p.ReaderFeatures == nil:
		return []string{}
	}
	return p.ReaderFeatures
}

// Refused lists what keeps this reader from reading the table: features, or the version of the protocol. Empty if the
// table can be read.
func (p Protocol) Refused() []string {
	refused := []string{}
	switch {
	case p.MinReader == 1, p.MinReader == 2:
		return refused
	case p.MinReader != 3:
		return append(refused, fmt.Sprintf("minReaderVersion=%d", p.MinReader))
	}
	if p.MinWriter != 7 {
		refused = append(refused, fmt.Sprintf("minWriterVersion=%d", p.MinWriter))
	}
	if !p.HasReaderFeatures {
		refused = append(refused, "minReaderVersion=3 without readerFeatures")
	}
	for _, feature := range p.ReaderFeatures {
		if !slices.Contains(supported, feature) {
			refused = append(refused, feature)
		}
	}
	return refused
}

// Gate refuses, by name, a table that this reader does not fully understand.
func Gate(p Protocol, m Metadata) error {
	refused := p.Refused()
	if m.Provider != "" && m.Provider != "parquet" {
		refused = append(refused, "format.provider="+m.Provider)
	}
	if len(refused) == 0 {
		return nil
	}
	hint := "it is not tried again until the table changes: have its writer drop the feature, or read the table with another tool"
	return sluice.E(CodeUnsupported, "", "the table needs what this reader does not support: "+strings.Join(refused, ", "), hint, nil)
}

// MapsColumns reports whether the protocol lets columns be mapped: for a reader of version 1 the setting means nothing,
// and with features it counts only if the feature is listed.
func (p Protocol) MapsColumns() bool {
	return p.MinReader == 2 || p.MinReader == 3 && slices.Contains(p.ReaderFeatures, "columnMapping")
}
